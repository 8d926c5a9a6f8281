import type { RedisClient } from './client.js';
import { META, keyOf } from '../core/kinds.js';
import { StoreUnusable } from '../faults.js';

/** Version of the key layout. Another one is refused. */
const FORMAT = 2;
/** Keys that change when a store begins, and when a restore into it begins or ends. */
export const BEGINNING_KEYS: readonly string[] = ['meta', keyOf(META, 'restoring')];

export async function initializeStore(client: RedisClient): Promise<void> {
  await refuseEviction(client);
  await checkFormat(client);
  await client.begin(JSON.stringify({ format: FORMAT }));
}

/** Refuses a store of a newer Latchkey, and keys of another program. A missing store is fine. */
export async function checkFormat(client: RedisClient): Promise<void> {
  const key = client.key('meta');
  const mark = await client
    .command((redis) => redis.get(key))
    .catch((error: unknown) => {
      if (/WRONGTYPE/.test((error as Error).message)) return '';
      throw error;
    });
  if (mark === null) return;
  const format = formatIn(mark);
  if (format === undefined)
    throw new StoreUnusable(
      `the key ${key} in Redis does not hold the format of a store; set store.prefix to another value, or remove that key if no other program uses it`,
    );
  if (format !== FORMAT)
    throw new StoreUnusable(
      `the store in Redis has format ${format}, known: ${FORMAT}; update ${format > FORMAT ? 'this Latchkey' : 'the store: restore a backup of it into an empty one'}`,
    );
}

function formatIn(mark: string): number | undefined {
  try {
    const { format } = JSON.parse(mark) as { format?: unknown };
    return typeof format === 'number' ? format : undefined;
  } catch {
    return undefined;
  }
}

async function refuseEviction(client: RedisClient): Promise<void> {
  const risk = await evictionRisk(client);
  if (risk !== undefined) throw new StoreUnusable(risk);
}

/** Eviction would lose tokens and the list of revoked ones. */
async function evictionRisk(client: RedisClient): Promise<string | undefined> {
  const info = await client.command((redis) => redis.info('memory'));
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ?? 'noeviction';
  const limit = Number(/^maxmemory:(\d+)/m.exec(info)?.[1] ?? 0);
  if (policy === 'noeviction' || limit === 0) return undefined;
  return `Redis evicts keys when its memory is full (maxmemory-policy ${policy}); set it to noeviction`;
}

/** Read from `INFO`, because `CONFIG` is often forbidden. */
export async function dataLossRisks(client: RedisClient): Promise<string[]> {
  const info = await client.command((redis) => redis.info('persistence'));
  const kept = /^aof_enabled:1/m.test(info);
  const failing = /^aof_last_write_status:(?!ok)/m.test(info);
  return [
    ...(kept
      ? []
      : ['the append-only file is off, so a restart of Redis loses revocations; set appendonly yes']),
    ...(kept && failing ? ['the append-only file cannot be written; see the log of Redis'] : []),
    ...[await evictionRisk(client)].filter((reason) => reason !== undefined),
  ];
}
