// A simulated sidecar with a server's cache, link and writer of last uses, but without HTTP. It
// looks up tokens at a fixed rate, and notifies its parent when it learns of a revocation.
import { built } from '../lib/built.mjs';
import { digestAt, settings, userOf } from './records.mjs';

const { LastSeen } = await built('accounts/last-seen');
const { CHANGED_KEYS } = await built('store/endings');
const { cachedStore, TokenCache } = await built('store/cache/token-cache');
const { openRedisStore } = await built('store/redis');
const { Revocations } = await built('store/revocations');
const { Feed } = await built('store/link');
const { InvalidationLink } = await built('store/redis/invalidation');
/** @typedef {{ lookups: number, hits: number, misses: number, found: number }} Counts */
/**
 * @typedef {{ up: true } | { received: string, at: number } | { counts: Counts }} Message what its
 *   parent is told
 */
/** @param {Message} message */
const tell = (message) => process.send?.(message);

/** @type {{ port: number, tokens: number, active: number, rate: number, seed: number }} */
const { port, tokens, active, rate, seed } = JSON.parse(process.argv[2]);
const now = () => performance.timeOrigin + performance.now();
const store = await openRedisStore(settings(port));
/** @type {Counts} */
const counts = { lookups: 0, hits: 0, misses: 0, found: 0 };
const cache = new TokenCache(
  store,
  new Revocations(null),
  { size: 1_000_000, ttl: 30_000, negative_ttl: 2_000, serveCachedFor: null },
  {
    hit: () => counts.hits++,
    miss: () => counts.misses++,
    servedStale: () => undefined,
    received: () => undefined,
  },
);
store.client.events = {
  ...store.client.events,
  changing: async (change, make) => cache.changing(change, make),
};
const cached = cachedStore(store, cache);
const feed = new Feed(store.client.announcementPrefix);
feed.on('up', (until) => {
  cache.enable(until);
  tell({ up: true });
});
feed.on('alive', (until) => cache.cover(until));
feed.on('lost', () => cache.disable());
feed.on('changed', (keys) => {
  const at = now();
  cache.changed(keys);
  for (const key of keys ?? []) if (key.startsWith('token:')) tell({ received: key.slice(6), at });
});
const link = new InvalidationLink(store.client, settings(port), CHANGED_KEYS, feed);
const lastSeen = new LastSeen(cached.usage, 1_000, 1_800_000, () => undefined);

// Every sidecar serves the same active tokens, each in its own order.
let state = seed;
const random = () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
const look = async () => {
  const index = Math.floor(random() * active) % tokens;
  counts.lookups += 1;
  const found = await cached.tokens.find(digestAt(index));
  if (found === undefined) return;
  counts.found += 1;
  lastSeen.note(
    { credential: 'token', user: userOf(0), token: found.token },
    '10.0.0.1',
    'bench',
    Date.now(),
  );
};

let due = 0;
let last = performance.now();
const timer = setInterval(() => {
  const at = performance.now();
  due += ((at - last) / 1000) * rate;
  last = at;
  for (; due >= 1; due -= 1) look().catch(() => undefined);
}, 5);

/** @param {unknown} message from its parent: reset, counts or stop */
async function obey(message) {
  if (message === 'reset') Object.assign(counts, { lookups: 0, hits: 0, misses: 0, found: 0 });
  if (message === 'counts') tell({ counts });
  if (message === 'stop') {
    clearInterval(timer);
    link.close();
    await lastSeen.close().catch(() => undefined);
    await store.maintenance.close();
    process.exit(0);
  }
}

process.on('message', (message) => void obey(message));
