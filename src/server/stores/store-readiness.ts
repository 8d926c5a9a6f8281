import type { Config } from '../../config/schema/config.js';
import type { Maintenance } from '../../store/core/store.js';

/** Minimum time between probes: everybody may ask at the public port. */
const INTERVAL_MS = 500;
/** Minimum time between write probes. More frequent checks get the result of the last one. */
const WRITE_INTERVAL_MS = 3_000;

/** @param toleratedMs as {@link servedFromCacheMs} returns it */
export function createStoreReadiness(
  store: Pick<Maintenance, 'probe' | 'probeWrite'>,
  toleratedMs: number,
): () => Promise<{ readonly fault: string | null; readonly isReady: boolean }> {
  let readyAt = -Infinity;
  const probeWrite = atMostEvery(WRITE_INTERVAL_MS, async () => store.probeWrite());
  return atMostEvery(INTERVAL_MS, async () => {
    try {
      await store.probe();
      await probeWrite();
      readyAt = performance.now();
      return { fault: null, isReady: true };
    } catch (error) {
      const fault = error instanceof Error ? error.message : String(error);
      const isReady = performance.now() - readyAt <= toleratedMs;
      return { fault: isReady ? `${fault}; recently used tokens are served from the cache` : fault, isReady };
    }
  });
}

function atMostEvery<T>(interval: number, work: () => Promise<T>): () => Promise<T> {
  let startedAt = -Infinity;
  let latest: Promise<T>;
  return async () => {
    if (performance.now() - startedAt >= interval) {
      startedAt = performance.now();
      latest = work();
    }
    return latest;
  };
}

/**
 * Returns how long requests are served from the cache without the store, in milliseconds; the embedded one
 * has none.
 */
export function servedFromCacheMs({
  store,
  cache,
  on_store_failure: onFailure,
}: Pick<Config, 'store' | 'cache' | 'on_store_failure'>): number {
  const hasCache = store.type !== 'lmdb' && cache.size > 0;
  return hasCache && onFailure !== 'deny' ? onFailure.serve_cached_for : 0;
}
