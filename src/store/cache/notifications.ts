/** Tracks how long a cache can be trusted and which reads predate a change. */
export class Coverage {
  readonly #bridges: boolean;
  #enabled = false;
  /** `performance.now()` until which no change can have been missed. */
  #until = -Infinity;
  #generation = 0;

  constructor(bridges: boolean) {
    this.#bridges = bridges;
  }

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

  advance(): void {
    this.#generation += 1;
  }
}

const MAX_WAITING = 1_000;

/** The time from sending a change until its notification arrives, which all processes receive. */
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
