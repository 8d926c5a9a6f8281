import type { Config } from '../../config/schema/config.js';
import type { Log } from '../../observe/log.js';
import { countCacheLookup, countStaleServed, setStoreLink } from '../../observe/metrics.js';
import { CACHED_NAMES, CachedStore } from '../../store/cached.js';
import { openRedisStore } from '../../store/redis.js';
import { InvalidationLink } from '../../store/redis/invalidation.js';
import type { Store } from '../../store/store.js';

type Settings = Extract<Config['store'], { type: 'redis' }>;

/**
 * Opens a store on Redis.
 *
 * @param log given by a process that serves requests, which gets a cache in front and the link that keeps it true
 */
export async function openNetworkedStore(
  config: Config,
  settings: Settings,
  log: Log | undefined,
): Promise<{ store: Store; close: () => Promise<void> }> {
  const redis = await openRedisStore(settings);
  if (log === undefined) return { store: redis, close: () => redis.close() };
  const failure = config.on_store_failure;
  const cached = new CachedStore(
    redis,
    { ...config.cache, serveCachedFor: failure === 'deny' ? null : failure.serve_cached_for },
    {
      hit: () => countCacheLookup('hit'),
      miss: () => countCacheLookup('miss'),
      servedStale: () => {
        countStaleServed();
        staleOnce();
      },
    },
  );
  let said = false;
  const staleOnce = (): void => {
    if (!said) log.warn('the store can not be asked; tokens that were seen lately are let in from the cache');
    said = true;
  };
  const link = new InvalidationLink(redis.client, settings, CACHED_NAMES, {
    armed: () => {
      said = false;
      setStoreLink(true);
      cached.arm();
      log.info('changes in the store are told; the cache is used');
    },
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
