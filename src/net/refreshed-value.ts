/** When a value is fetched. All times are in milliseconds. */
export interface Refresh {
  /** Age from which the value is refreshed in the background. */
  readonly after: number;
  /** Age from which callers wait for a newer value, unless it cannot be fetched; omitted: never. */
  readonly staleFor?: number;
  /** Minimum time between a failed fetch and the next one. */
  readonly retry: number;
  /** Period with at most two successful fetches; omitted: no limit. */
  readonly cooldown?: number;
}

/** @param error undefined if it succeeded */
export type OnFetch = (error: unknown) => void;

/**
 * A value that is fetched on first use and refreshed in the background. Concurrent callers share one fetch.
 */
export class RefreshedValue<T extends object | string> {
  /** Why the last fetch failed; undefined if it succeeded. */
  failure: unknown;
  readonly #fetchValue: () => Promise<T>;
  readonly #times: Required<Refresh>;
  readonly #onFetch: OnFetch;
  readonly #clock: () => number;
  #value: T | undefined;
  #fetchedAt = -Infinity;
  #triedAt = -Infinity;
  #previousFetchAt = -Infinity;
  #fetching: Promise<void> | undefined;

  /** @param clock a monotonic clock, in milliseconds */
  constructor(
    fetchValue: () => Promise<T>,
    times: Refresh,
    onFetch: OnFetch = () => undefined,
    clock: () => number = () => performance.now(),
  ) {
    this.#fetchValue = fetchValue;
    this.#times = { staleFor: Infinity, cooldown: 0, ...times };
    this.#onFetch = onFetch;
    this.#clock = clock;
  }

  /** Returns the known value without waiting, and refreshes it in the background if necessary. */
  latest(): T | undefined {
    if (this.#age() >= this.#times.after && this.#mayFetch()) void this.#fetch();
    return this.#value;
  }

  /** Returns the value, and fetches it if necessary. @throws why it cannot be fetched */
  async get(): Promise<T> {
    const isStale = this.#age() >= this.#times.staleFor && this.failure === undefined;
    if (this.latest() === undefined || isStale) await this.#fetching;
    if (this.#value === undefined) throw this.failure;
    return this.#value;
  }

  /** Fetches a newer value now; undefined if the times forbid that, or the fetch failed. */
  async newer(): Promise<T | undefined> {
    if (!this.#mayFetch()) return undefined;
    await this.#fetch();
    return this.failure === undefined ? this.#value : undefined;
  }

  /** Makes the next caller wait for a newer value. If none can be fetched, this one stays in use. */
  expire(): void {
    this.#fetchedAt = -Infinity;
    this.#previousFetchAt = -Infinity;
    this.failure = undefined;
  }

  #age(): number {
    return this.#clock() - this.#fetchedAt;
  }

  #mayFetch(): boolean {
    if (this.#fetching !== undefined) return true;
    const now = this.#clock();
    if (this.failure !== undefined) return now - this.#triedAt >= this.#times.retry;
    return now - this.#previousFetchAt >= this.#times.cooldown;
  }

  /** Never rejects. */
  #fetch(): Promise<void> {
    this.#fetching ??= this.#fetchOnce().finally(() => (this.#fetching = undefined));
    return this.#fetching;
  }

  async #fetchOnce(): Promise<void> {
    this.#triedAt = this.#clock();
    try {
      this.#value = await this.#fetchValue();
      this.#previousFetchAt = this.#fetchedAt;
      this.#fetchedAt = this.#clock();
      this.failure = undefined;
      this.#onFetch(undefined);
    } catch (error) {
      this.failure = error;
      this.#onFetch(error);
    }
  }
}
