import type { Store } from '../../store/store.js';

/** Whoever asks more often gets the answer of the last try. */
const INTERVAL_MS = 3_000;

/** Tells whether the store takes writes: logins and new tokens need that, and reading goes on without it. */
export class WriteProbe {
  readonly #store: Pick<Store, 'probeWrite'>;
  #triedAt = -Infinity;
  #tried: Promise<void> = Promise.resolve();

  constructor(store: Pick<Store, 'probeWrite'>) {
    this.#store = store;
  }

  /** Tries a write, at most once each few seconds. @throws StoreUnavailable */
  async probe(): Promise<void> {
    const now = performance.now();
    if (now - this.#triedAt >= INTERVAL_MS) {
      this.#triedAt = now;
      this.#tried = this.#store.probeWrite();
    }
    return this.#tried;
  }
}
