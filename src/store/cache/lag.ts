/** Changes that are waited for; more are not measured. */
const MAX_WAITING = 1_000;

/** Measures the time from sending a change to the store until this process receives its notification, as every other one does. */
export class Lag {
  readonly #sentAt = new Map<string, number>();
  readonly #onReceived: (ms: number) => void;

  constructor(onReceived: (ms: number) => void) {
    this.#onReceived = onReceived;
  }

  sent(key: string): void {
    if (this.#sentAt.size < MAX_WAITING) this.#sentAt.set(key, performance.now());
  }

  /** Nothing was changed, so no notification will come. */
  notChanged(key: string): void {
    this.#sentAt.delete(key);
  }

  /** The notification of a change was received. */
  received(key: string): void {
    const sentAt = this.#sentAt.get(key);
    if (sentAt === undefined) return;
    this.#sentAt.delete(key);
    this.#onReceived(performance.now() - sentAt);
  }

  /** Notifications of what was sent before may never come. */
  clear(): void {
    this.#sentAt.clear();
  }
}
