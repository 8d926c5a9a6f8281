/** Changes that are waited for; more are not measured. */
const MAX_WAITING = 1_000;

/** Measures how long the notifications of this process's own changes take to arrive, as at every other process. */
export class Lag {
  readonly #sentAt = new Map<string, number>();
  readonly #onTold: (ms: number) => void;

  constructor(onTold: (ms: number) => void) {
    this.#onTold = onTold;
  }

  /** A change of a key is being sent. */
  sent(key: string): void {
    if (this.#sentAt.size < MAX_WAITING) this.#sentAt.set(key, performance.now());
  }

  /** Nothing was changed, so there is no notification. */
  notChanged(key: string): void {
    this.#sentAt.delete(key);
  }

  /** A notification of a key arrived. */
  received(key: string): void {
    const sentAt = this.#sentAt.get(key);
    if (sentAt === undefined) return;
    this.#sentAt.delete(key);
    this.#onTold(performance.now() - sentAt);
  }

  /** Notifications of earlier changes may never arrive. */
  clear(): void {
    this.#sentAt.clear();
  }
}
