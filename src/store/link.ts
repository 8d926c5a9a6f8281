/** The link over which a networked store notifies a process of changes, so that it may cache. */

/**
 * How often a link is checked, in milliseconds, and for how long after the question of such a check
 * the cache is trusted. An answer that takes longer does not count.
 */
export const HEARTBEAT_MS = 250;
export const COVER_MS = 1_000;
const FIRST_RETRY_MS = 50;
const MAX_RETRY_MS = 250;
/** A link that is not up after this time, in milliseconds, is reported. */
const NOT_UP_MS = 5_000;

/** Events that a link reports to its cache. */
export interface LinkEvents {
  /**
   * Every change is received from now on. What was read before may have changed unnoticed.
   *
   * @param until `performance.now()` until which this is certain
   */
  readonly up: (until: number) => void;
  /**
   * Changes are still received.
   *
   * @param until as for `up`
   */
  readonly alive: (until: number) => void;
  /** Changes are no longer received. */
  readonly lost: (reason: string) => void;
  /** An attempt to set up the link failed. */
  readonly failed: () => void;
  /**
   * The link has been down for some seconds; called once until it is up.
   *
   * @param cause of the latest attempt
   */
  readonly notUp: (cause: Error) => void;
  /** How far the clock of the store is ahead of this one, in milliseconds; measured regularly. */
  readonly skew: (ms: number) => void;
  /**
   * Keys of changed records and announcements of what ended, without the prefix of the store; null if
   * anything may have changed.
   */
  readonly changed: (names: readonly string[] | null) => void;
}

/** One attempt to hold a link. */
export interface Attempt {
  /** To be called when the link is up; as the event. */
  readonly up: (until: number) => void;
  /** Gives the link up. */
  readonly abort: (reason: string) => void;
  /** Resolves to the reason when it was given up. */
  readonly lost: Promise<string>;
}

/** Sets a link up again whenever it is lost. */
export class Link {
  readonly #hold: (attempt: Attempt) => Promise<unknown>;
  readonly #events: LinkEvents;
  #closed = false;
  #abort: (reason: string) => void = () => undefined;

  /** @param hold sets the link up and releases it when it is lost, or throws */
  constructor(hold: (attempt: Attempt) => Promise<unknown>, events: LinkEvents) {
    this.#hold = hold;
    this.#events = events;
    void this.#run();
  }

  close(): void {
    this.#closed = true;
    this.#abort('closed');
  }

  async #run(): Promise<void> {
    let downSince = performance.now();
    let reported = false;
    let latest = new Error('still connecting');
    // Connecting may hang or fail, so a timer of its own checks how long the link has been down.
    const watch = setInterval(() => {
      if (reported || performance.now() - downSince < NOT_UP_MS) return;
      reported = true;
      this.#events.notUp(latest);
    }, HEARTBEAT_MS).unref();
    for (let failures = 0; !this.#closed;) {
      let isUp = false;
      latest = await this.#attempt((until) => {
        isUp = reported = true;
        failures = 0;
        this.#events.up(until);
      });
      if (isUp) {
        this.#events.lost(latest.message);
        downSince = performance.now();
        reported = false;
      } else if (!this.#closed) this.#events.failed();
      failures += 1;
      await new Promise((wait) =>
        setTimeout(wait, Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** failures)).unref(),
      );
    }
    clearInterval(watch);
  }

  /** Resolves when the link is lost, or could not be set up. */
  async #attempt(up: (until: number) => void): Promise<Error> {
    const lost = new Promise<string>((resolve) => (this.#abort = resolve));
    return this.#hold({ up, abort: this.#abort, lost }).then(
      async () => new Error(await lost),
      (error: unknown) => (error instanceof Error ? error : new Error(String(error))),
    );
  }
}
