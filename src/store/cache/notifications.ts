/** How long a cache can be relied on, and which answers date from before a change. */
export class Coverage {
  readonly #bridges: boolean;
  #enabled = false;
  /** `performance.now()` until which it is known that no change was missed. */
  #until = -Infinity;
  #generation = 0;

  /** @param bridges whether what is covered is relied on while the store is unavailable */
  constructor(bridges: boolean) {
    this.#bridges = bridges;
  }

  /** Whether change notifications are received. */
  get isEnabled(): boolean {
    return this.#enabled;
  }

  /** Whether all changes until now are known, although the store is unavailable. */
  get isBridging(): boolean {
    return this.#bridges && performance.now() < this.#until;
  }

  /** Grows with every change, so that an answer from before it is recognised. */
  get generation(): number {
    return this.#generation;
  }

  /** Whether an answer can be used without asking the store. */
  isCurrent(now: number): boolean {
    return this.#enabled && now < this.#until;
  }

  enable(enabled: boolean, until: number): void {
    this.#enabled = enabled;
    this.#until = until;
  }

  disable(): void {
    this.#enabled = false;
  }

  cover(until: number): void {
    this.#until = until;
  }

  /** Something changed: reads in progress began before it. */
  advance(): void {
    this.#generation += 1;
  }
}

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
  notChanged(keys: readonly string[]): void {
    for (const key of keys) this.#sentAt.delete(key);
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
