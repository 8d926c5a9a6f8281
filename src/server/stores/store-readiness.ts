import type { Config } from '../../config/schema/config.js';
import type { Maintenance } from '../../store/core/store.js';

/** Minimum time between probes: everybody may ask at the public port. */
const INTERVAL_MS = 500;
/** Minimum time between write probes. More frequent checks get the result of the last one. */
const WRITE_INTERVAL_MS = 3_000;

export class StoreReadiness {
  readonly #store: Pick<Maintenance, 'probe' | 'probeWrite'>;
  readonly #toleratedMs: number;
  #readyAt = -Infinity;
  #triedAt = -Infinity;
  #tried: Promise<void> = Promise.resolve();
  #checkedAt = -Infinity;
  #checked: ReturnType<StoreReadiness['check']> | undefined;

  /** @param toleratedMs as {@link servedFromCacheMs} returns it */
  constructor(store: Pick<Maintenance, 'probe' | 'probeWrite'>, toleratedMs: number) {
    this.#store = store;
    this.#toleratedMs = toleratedMs;
  }

  async check(): Promise<{ readonly fault: string | null; readonly isReady: boolean }> {
    const now = performance.now();
    if (this.#checked !== undefined && now - this.#checkedAt < INTERVAL_MS) return this.#checked;
    this.#checkedAt = now;
    this.#checked = this.#check();
    return this.#checked;
  }

  async #check(): ReturnType<StoreReadiness['check']> {
    try {
      await this.#store.probe();
      await this.#probeWrite();
      this.#readyAt = performance.now();
      return { fault: null, isReady: true };
    } catch (error) {
      const fault = error instanceof Error ? error.message : String(error);
      const isReady = performance.now() - this.#readyAt <= this.#toleratedMs;
      return { fault: isReady ? `${fault}; recently used tokens are served from the cache` : fault, isReady };
    }
  }

  async #probeWrite(): Promise<void> {
    const now = performance.now();
    if (now - this.#triedAt >= WRITE_INTERVAL_MS) {
      this.#triedAt = now;
      this.#tried = this.#store.probeWrite();
    }
    return this.#tried;
  }
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
