import { coreStore, type Store } from './core/store.js';
import { StoreUnusable } from './faults.js';
import { codeOf, isMissing, PostgresClient, type PostgresSettings } from './postgres/client.js';
import { measured } from './measured.js';
import { PostgresKv } from './postgres/kv.js';
import { FORMAT, META } from './postgres/schema.js';

/** A store that several sidecars share, with its client. */
export interface PostgresStore extends Store {
  readonly client: PostgresClient;
  readonly kv: PostgresKv;
}

const OLDEST_VERSION = 130_000;
/** Timeout for creating the tables, in milliseconds: another process may be creating them. */
const CREATION_TIMEOUT_MS = 10_000;

/** Code of a statement about columns that a table does not have. */
const OTHER_COLUMNS = '42703';

/** Opens the store in PostgreSQL. The server need not be reachable yet. */
export function openPostgresStore(settings: PostgresSettings): PostgresStore {
  const client = new PostgresClient(settings);
  const kv = new PostgresKv(client);
  const store = coreStore(measured(kv));
  return {
    ...store,
    client,
    kv,
    maintenance: {
      ...store.maintenance,
      initialize: async (purpose) => {
        await create(client);
        await store.maintenance.initialize(purpose);
      },
    },
  };
}

/** Creates the tables and functions that are missing. @throws StoreUnusable, StoreUnavailable */
async function create(client: PostgresClient): Promise<void> {
  const [row] = await client.query(
    "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')",
  );
  if ((row?.[0] as number) < OLDEST_VERSION)
    throw new StoreUnusable('PostgreSQL is too old; use version 13 or newer');
  if (row?.[1] !== 'UTF8')
    throw new StoreUnusable(
      `the database has the encoding ${row?.[1] as string}; create one with the encoding UTF8`,
    );
  await checkFormat(client);
  await client.query(client.schema.creation, [], CREATION_TIMEOUT_MS);
}

/**
 * Refuses a store that a newer Latchkey wrote, and tables of another program. A store that does not
 * exist yet is fine.
 *
 * @throws StoreUnusable, StoreUnavailable
 */
export async function checkFormat(client: PostgresClient): Promise<void> {
  const { name, records } = client.schema;
  const [row] = await client.query(`SELECT rev, expires_at FROM ${records} WHERE key = '${META}'`).catch((error: Error) => {
    if (isMissing(error.cause)) return [];
    if (codeOf(error.cause) !== OTHER_COLUMNS) throw error;
    throw new StoreUnusable(`the schema ${name} in PostgreSQL holds the tables of another program; set store.schema to another value`);
  });
  if (row !== undefined && Number(row[0]) !== FORMAT)
    throw new StoreUnusable(
      `the store in PostgreSQL has format ${row[0] as string}, known: ${FORMAT}; update this Latchkey`,
    );
} // prettier-ignore
