/** The settings `cache`, in entries and milliseconds, and `on_store_failure`. */
export interface CacheSettings {
  readonly size: number;
  readonly ttl: number;
  readonly negative_ttl: number;
  /** How long a known token is accepted while the store is unavailable; null: not at all. */
  readonly serveCachedFor: number | null;
  /** Whether covered entries, sessions included, are used while another master is being elected. */
  readonly bridgesFailover?: boolean;
}

export interface CacheEvents {
  readonly hit: () => void;
  readonly miss: () => void;
  readonly servedStale: () => void;
  /** A change of a token by this process was notified, so many milliseconds after it was sent. */
  readonly received: (ms: number) => void;
}
