/** Most look-ups in progress, and most that wait; further ones are skipped. */
const AT_ONCE = 4;
const MAX_WAITING = 1_000;
/** An answer from before another change is not kept, so that it is asked for again. */
const ATTEMPTS = 3;

/** Looks up in the background what may be needed while the store is unavailable. */
export class Warming {
  readonly #lookUp: (digest: string) => Promise<boolean>;
  readonly #waiting = new Set<string>();
  #running = 0;

  /** @param lookUp returns whether its answer is known from now on */
  constructor(lookUp: (digest: string) => Promise<boolean>) {
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
    // What comes with one message of the store is handled first.
    await new Promise((resolve) => setImmediate(resolve));
    for (let next = this.#take(); next !== undefined; next = this.#take())
      await this.#repeat(next).catch(() => undefined);
    this.#running -= 1;
  }

  async #repeat(digest: string): Promise<void> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) if (await this.#lookUp(digest)) return;
  }

  #take(): string | undefined {
    const [next] = this.#waiting;
    if (next !== undefined) this.#waiting.delete(next);
    return next;
  }
}
