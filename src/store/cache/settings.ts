/** Settings of `cache`, in entries and milliseconds, and of `on_store_failure`. */
export interface CacheSettings {
  readonly size: number;
  readonly ttl: number;
  readonly negative_ttl: number;
  /** How long a known token is still accepted while the store is unavailable; null: not at all. */
  readonly serveCachedFor: number | null;
  /**
   * While the store is unavailable, the cache is relied on as long as it is covered: another master is being chosen. That
   * goes for sessions as well, and for what is not there.
   */
  readonly bridgesFailover?: boolean;
}

/** Events of a cache, for metrics and the log. */
export interface CacheEvents {
  readonly hit: () => void;
  readonly miss: () => void;
  /** A token was accepted from the cache because the store was unavailable. */
  readonly servedStale: () => void;
  /** The notification of a token's change by this process was received. @param ms since it was sent to the store */
  readonly received: (ms: number) => void;
}
