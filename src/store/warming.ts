/** So many look-ups are under way at once, and so many wait; further ones are left out. */
const AT_ONCE = 4;
const MAX_WAITING = 1_000;

/** Looks up in the background what may be asked for when the store can't be. */
export class Warming {
  readonly #lookUp: (digest: string) => Promise<unknown>;
  readonly #waiting = new Set<string>();
  #running = 0;

  constructor(lookUp: (digest: string) => Promise<unknown>) {
    this.#lookUp = lookUp;
  }

  add(digests: Iterable<string>): void {
    for (const digest of digests) {
      if (this.#waiting.size >= MAX_WAITING) break;
      this.#waiting.add(digest);
    }
    const more = Math.min(AT_ONCE - this.#running, this.#waiting.size);
    for (let count = 0; count < more; count++) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running += 1;
    // Names of one message are handled together.
    await new Promise((resolve) => setImmediate(resolve));
    for (let next = this.#take(); next !== undefined; next = this.#take())
      await this.#lookUp(next).catch(() => undefined);
    this.#running -= 1;
  }

  #take(): string | undefined {
    const [next] = this.#waiting;
    if (next !== undefined) this.#waiting.delete(next);
    return next;
  }
}
