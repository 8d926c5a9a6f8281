import type { Config } from '../../config/schema/config.js';
import type { Log } from '../../observe/log.js';
import {
  countCacheLookup,
  countStaleServed,
  noteLinkAlive,
  observeInvalidationLag,
  setStoreLink,
} from '../../observe/metrics/store.js';
import { CACHED_NAMES, CachedStore } from '../../store/cached.js';
import { measured, type OnOperation } from '../../store/measured.js';
import { openRedisStore } from '../../store/redis.js';
import { InvalidationLink } from '../../store/redis/invalidation.js';
import type { Store } from '../../store/store.js';

type Settings = Extract<Config['store'], { type: 'redis' }>;

/**
 * Opens a store on Redis.
 *
 * @param server given by a process that serves requests, which gets a cache in front and the link that keeps it true
 */
export async function openNetworkedStore(
  config: Config,
  settings: Settings,
  server: { readonly log: Log; readonly onOperation: OnOperation } | undefined,
): Promise<{ store: Store; close: () => Promise<void> }> {
  const redis = await openRedisStore(settings);
  if (server === undefined) return { store: redis, close: () => redis.close() };
  const { log, onOperation } = server;
  const failure = config.on_store_failure;
  const cached = new CachedStore(
    measured(redis, onOperation),
    { ...config.cache, serveCachedFor: failure === 'deny' ? null : failure.serve_cached_for },
    {
      hit: () => countCacheLookup('hit'),
      miss: () => countCacheLookup('miss'),
      servedStale: () => {
        countStaleServed();
        staleOnce();
      },
      told: (ms) => observeInvalidationLag(ms / 1000),
    },
  );
  let said = false;
  const staleOnce = (): void => {
    if (!said) log.warn('the store can not be asked; tokens that were seen lately are let in from the cache');
    said = true;
  };
  noteLinkAlive();
  const link = new InvalidationLink(redis.client, settings, CACHED_NAMES, {
    armed: () => {
      said = false;
      setStoreLink(true);
      noteLinkAlive();
      cached.arm();
      log.info('changes in the store are told; the cache is used');
    },
    alive: noteLinkAlive,
    lost: (reason) => {
      setStoreLink(false);
      cached.disarm();
      log.warn({ reason }, 'changes in the store are not told any more; the cache is not used');
    },
    changed: (names) => cached.changed(names),
  });
  return {
    store: cached,
    close: async () => {
      link.close();
      await redis.close();
    },
  };
}
