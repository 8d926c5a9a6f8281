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
