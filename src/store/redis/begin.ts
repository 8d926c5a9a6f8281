import { StoreUnusable } from '../store.js';
import type { RedisClient } from './client.js';

/** Version of the layout of the keys. A newer one is refused. */
const FORMAT = 1;

/** Begins the store unless there is one, and refuses one that can't be used. @throws StoreUnusable, StoreUnavailable */
export async function beginStore(client: RedisClient): Promise<void> {
  await refuseEviction(client);
  const mark = await client.begin(JSON.stringify({ format: FORMAT }));
  const { format } = JSON.parse(mark) as { format?: unknown };
  if (typeof format !== 'number' || format > FORMAT) {
    throw new StoreUnusable(
      `the store in Redis has format ${String(format)}, known: ${FORMAT}; update this Latchkey`,
    );
  }
}

/** A Redis that drops keys when its memory is full would forget tokens, and that some were revoked. */
async function refuseEviction(client: RedisClient): Promise<void> {
  const info = await client.command((redis) => redis.info('memory'));
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ?? 'noeviction';
  const limit = Number(/^maxmemory:(\d+)/m.exec(info)?.[1] ?? 0);
  if (policy !== 'noeviction' && limit > 0) {
    throw new StoreUnusable(
      `Redis drops keys when its memory is full (maxmemory-policy ${policy}); set it to noeviction`,
    );
  }
}
