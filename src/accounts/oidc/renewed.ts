/** From this age on a value is made anew while the one known goes on serving. */
const REFRESH_MS = 10 * 60_000;
/** Least time between two tries. */
const COOLDOWN_MS = 1_000;

/** A value that is made when it is needed first, renewed in the background, and kept while that fails. */
export class Renewed<T> {
  readonly #make: () => Promise<T>;
  readonly #clock: () => number;
  #value: { readonly value: T } | undefined;
  #error: unknown;
  #madeAt = -Infinity;
  #triedAt = -Infinity;
  #making: Promise<void> | undefined;

  /** @param clock milliseconds that only grow */
  constructor(make: () => Promise<T>, clock: () => number = () => performance.now()) {
    this.#make = make;
    this.#clock = clock;
  }

  /** @throws what making it threw, while there is none */
  async get(): Promise<T> {
    const now = this.#clock();
    const isDue = now - this.#madeAt >= REFRESH_MS && now - this.#triedAt >= COOLDOWN_MS;
    if (isDue || this.#making !== undefined) {
      this.#making ??= this.#tryOnce().finally(() => (this.#making = undefined));
      if (this.#value === undefined) await this.#making;
    }
    if (this.#value === undefined) throw this.#error;
    return this.#value.value;
  }

  async #tryOnce(): Promise<void> {
    this.#triedAt = this.#clock();
    try {
      this.#value = { value: await this.#make() };
      this.#madeAt = this.#clock();
    } catch (error) {
      this.#error = error;
    }
  }
}
