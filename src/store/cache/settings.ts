/** The settings `cache`, in entries and milliseconds, and `on_store_failure`. */
export interface CacheSettings {
  readonly size: number;
  readonly ttl: number;
  readonly negative_ttl: number;
  /**
   * How long a known token is still accepted while the store is unavailable, in
   * milliseconds; null: not at all.
   */
  readonly serveCachedFor: number | null;
  /**
   * Whether covered entries are used while the store is unavailable: another master is being
   * elected. This includes sessions, and credentials known to be missing.
   */
  readonly bridgesFailover?: boolean;
}

/** Events of a cache, for metrics and the log. */
export interface CacheEvents {
  readonly hit: () => void;
  readonly miss: () => void;
  /** A token was accepted from the cache because the store was unavailable. */
  readonly servedStale: () => void;
  /**
   * A change of a token by this process was notified.
   *
   * @param ms time since it was sent to the store
   */
  readonly received: (ms: number) => void;
}
