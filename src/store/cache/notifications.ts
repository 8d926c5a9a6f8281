/** Tracks how long a cache can be trusted and which reads predate a change. */
export class Coverage {
  readonly #bridges: boolean;
  #enabled = false;
  /** `performance.now()` until which no change can have been missed. */
  #until = -Infinity;
  #generation = 0;

  /** @param bridges whether covered entries are used while the store is unavailable */
  constructor(bridges: boolean) {
    this.#bridges = bridges;
  }

  /** Whether change notifications are received. */
  get isEnabled(): boolean {
    return this.#enabled;
  }

  /** Whether all changes until now are known even if the store is unavailable. */
  get isBridging(): boolean {
    return this.#bridges && performance.now() < this.#until;
  }

  /** Increases with every change, so that reads from before it can be recognized. */
  get generation(): number {
    return this.#generation;
  }

  /** Whether a cached answer can be used without asking the store. */
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

  /** Starts a new generation after a change: reads in progress predate it. */
  advance(): void {
    this.#generation += 1;
  }
}

/** Maximum number of changes measured at a time; further ones are not measured. */
const MAX_WAITING = 1_000;

/**
 * Measures invalidation lag: the time from sending a change until its notification arrives. Every
 * other process receives the same notification.
 */
export class Lag {
  readonly #sentAt = new Map<string, number>();
  readonly #onReceived: (ms: number) => void;

  constructor(onReceived: (ms: number) => void) {
    this.#onReceived = onReceived;
  }

  sent(key: string): void {
    if (this.#sentAt.size < MAX_WAITING) this.#sentAt.set(key, performance.now());
  }

  /** Forgets changes that were not made: no notification will arrive. */
  notChanged(keys: readonly string[]): void {
    for (const key of keys) this.#sentAt.delete(key);
  }

  /** Reports the lag of a change whose notification arrived. */
  received(key: string): void {
    const sentAt = this.#sentAt.get(key);
    if (sentAt === undefined) return;
    this.#sentAt.delete(key);
    this.#onReceived(performance.now() - sentAt);
  }

  /** Forgets all changes sent so far: their notifications may never arrive. */
  clear(): void {
    this.#sentAt.clear();
  }
}
