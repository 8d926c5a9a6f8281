import type { Maintenance } from '../../store/store.js';

/** A write is tried no more often; whoever asks more often gets the outcome of the last one. */
const WRITE_INTERVAL_MS = 3_000;

/** Tells whether the store can be read and written: logins and new tokens need both. */
export class StoreReadiness {
  readonly #store: Pick<Maintenance, 'probe' | 'probeWrite'>;
  readonly #toleratedMs: number;
  #readyAt = -Infinity;
  #triedAt = -Infinity;
  #tried: Promise<void> = Promise.resolve();

  /** @param toleratedMs how long after it was last available requests are served without it (`on_store_failure`) */
  constructor(store: Pick<Maintenance, 'probe' | 'probeWrite'>, toleratedMs: number) {
    this.#store = store;
    this.#toleratedMs = toleratedMs;
  }

  /** What is wrong with the store, or null; and whether requests can be served all the same. */
  async check(): Promise<{ readonly fault: string | null; readonly isReady: boolean }> {
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
