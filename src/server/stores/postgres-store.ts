import type { Config } from '../../config/schema/config.js';
import { checkFormat, openPostgresStore } from '../../store/postgres.js';
import { Feed } from '../../store/link.js';
import { ChangesLink } from '../../store/postgres/changes.js';
import { ANNOUNCED } from '../../store/postgres/kv.js';
import {
  cacheFor,
  emitOpenQuestions,
  type NetworkedStore,
  reportLink,
  type StoreUser,
  tellEndings,
} from './networked-store.js';

type Settings = Extract<Config['store'], { type: 'postgres' }>;

/** Settings of a server without which it may lose what it acknowledged. */
const RISKS =
  "SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'";

/** What is acknowledged is not lost, so a process remembers no revocations. */
const NOTHING = { hasToken: () => false, hasSession: () => false };

/** Opens a store in PostgreSQL. @throws StoreUnusable, StoreUnavailable in a command */
export async function openPostgres(
  config: Config,
  settings: Settings,
  user: StoreUser,
): Promise<NetworkedStore> {
  const postgres = openPostgresStore(settings);
  const { client, kv } = postgres;
  if (typeof user === 'string') {
    if (user === 'command') await checkFormat(client);
    return { store: postgres, close: async () => postgres.maintenance.close() };
  }
  const { log, endings } = user;
  const feed = new Feed(ANNOUNCED);
  const { store, changing } = cacheFor(config, log, feed, postgres, NOTHING, false);
  client.changing = changing;
  tellEndings(feed, endings);
  feed.on('up', () => {
    // While no notifications were received, anything may have ended.
    feed.emit('changed', null);
    emitOpenQuestions(feed, kv).catch(() => undefined);
  });
  reportLink(feed, log, async () => (await client.query(RISKS)).map(([name]) => `${name as string} is off`));
  const link = new ChangesLink(client, feed);
  return {
    store,
    close: async () => {
      link.close();
      await client.close();
    },
  };
}
