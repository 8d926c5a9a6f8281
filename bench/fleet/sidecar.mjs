// One simulated sidecar: the cache, the link and the writing of last uses as a server has them, without HTTP.
// It looks tokens up at a rate, and tells its parent when it learns that a token was revoked.
import { LastSeen } from '../../dist/accounts/last-seen.js';
import { cachedStore } from '../../dist/store/cache/cached-store.js';
import { CACHED_NAMES } from '../../dist/store/cache/names.js';
import { TokenCache } from '../../dist/store/cache/token-cache.js';
import { openRedisStore } from '../../dist/store/redis.js';
import { InvalidationLink } from '../../dist/store/redis/invalidation.js';
import { digestAt, settings, userOf } from './records.mjs';

const { port, tokens, active, rate, seed } = JSON.parse(process.argv[2]);
const now = () => performance.timeOrigin + performance.now();
const store = await openRedisStore(settings(port));
const counts = { lookups: 0, hits: 0, misses: 0, found: 0 };
const cache = new TokenCache(
  store,
  { size: 1_000_000, ttl: 30_000, negative_ttl: 2_000, serveCachedFor: null },
  { hit: () => counts.hits++, miss: () => counts.misses++, servedStale: () => undefined },
);
const cached = cachedStore(store, cache);
const link = new InvalidationLink(store.client, settings(port), CACHED_NAMES, {
  up: () => {
    cache.enable();
    process.send({ up: true });
  },
  lost: () => cache.disable(),
  changed: (names) => {
    const at = now();
    cache.changed(names);
    for (const name of names ?? [])
      if (name.startsWith('token:')) process.send({ received: name.slice(6), at });
  },
});
const lastSeen = new LastSeen(cached.usage, 1_000, 1_800_000, () => undefined);

// Every sidecar serves the same active tokens, in an order of its own.
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

async function obey(message) {
  if (message === 'reset') for (const key of Object.keys(counts)) counts[key] = 0;
  if (message === 'counts') process.send({ counts });
  if (message === 'stop') {
    clearInterval(timer);
    link.close();
    await lastSeen.close().catch(() => undefined);
    await store.maintenance.close();
    process.exit(0);
  }
}

process.on('message', (message) => void obey(message));
