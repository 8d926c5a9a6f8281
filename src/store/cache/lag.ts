/** Changes that are waited for; more are not measured. */
const MAX_WAITING = 1_000;

/** Measures how long it takes until changes that this process sent to a store are told to it, as to every other one. */
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

  /** Nothing was changed, so nothing will be told. */
  notChanged(key: string): void {
    this.#sentAt.delete(key);
  }

  /** A change of a key was told. */
  received(key: string): void {
    const sentAt = this.#sentAt.get(key);
    if (sentAt === undefined) return;
    this.#sentAt.delete(key);
    this.#onTold(performance.now() - sentAt);
  }

  /** What was sent before may never be told. */
  clear(): void {
    this.#sentAt.clear();
  }
}
