import type { Config } from '../../config/schema/config.js';
import { openQuestions } from '../../store/core/fleet.js';
import { checkFormat, openPostgresStore } from '../../store/postgres.js';
import { ChangesLink } from '../../store/postgres/changes.js';
import { ANNOUNCED } from '../../store/postgres/kv.js';
import { cacheFor, checked, type NetworkedStore, type StoreUser } from './networked-store.js';

type Settings = Extract<Config['store'], { type: 'postgres' }>;

/** Settings of a server without which it may lose what it acknowledged. */
const RISKS =
  "SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'";

/** Opens a store in PostgreSQL. @throws StoreUnusable, StoreUnavailable in a command */
export async function openPostgres(
  config: Config,
  settings: Settings,
  user: StoreUser,
): Promise<NetworkedStore> {
  const postgres = openPostgresStore(settings);
  const { client, kv } = postgres;
  if (typeof user === 'string')
    return checked(postgres, user === 'command' ? checkFormat(client) : undefined);
  const { endings } = user;
  const { store, changing, events } = cacheFor(config, user, {
    name: 'PostgreSQL',
    store: postgres,
    // What is acknowledged is not lost, so this process remembers nothing.
    revocations: { hasToken: () => false, hasSession: () => false, note: () => undefined },
    bridgesFailover: false,
    announced: ANNOUNCED,
    catchUp: async () => {
      endings.ended(null);
      return openQuestions(kv);
    },
    changed: () => undefined,
    dataLossRisks: async () => (await client.query(RISKS)).map(([name]) => `${name as string} is off`),
  });
  client.changing = changing;
  const link = new ChangesLink(client, events);
  return {
    store,
    close: async () => {
      link.close();
      await client.close();
    },
  };
} // prettier-ignore
