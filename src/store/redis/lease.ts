/** What is known of the master holds so long after it was asked for, in milliseconds. */
export const LEASE_MS = 1_000;

/**
 * How long a confirmed master may be used as the master.
 *
 * It counts on the monotonic clock, from the moment of the question: a process that was stopped meanwhile, or a server
 * that was, finds the lease over.
 */
export class Lease {
  #askedAt = -Infinity;
  #ended = false;

  /** `performance.now()` of the latest question that was answered. */
  get askedAt(): number {
    return this.#ended ? -Infinity : this.#askedAt;
  }

  /** `performance.now()` until which it holds. */
  get until(): number {
    return this.askedAt + LEASE_MS;
  }

  isHeld(): boolean {
    return performance.now() < this.until;
  }

  /** Whether it is over for good; one that is only not held may still be extended. */
  get isOver(): boolean {
    return this.#ended;
  }

  /** Whether the master was confirmed by a question that was asked after that time. */
  isConfirmedSince(time: number): boolean {
    return this.isHeld() && this.#askedAt >= time;
  }

  /** The master was confirmed. @param askedAt `performance.now()` of the question */
  extend(askedAt: number): void {
    this.#askedAt = Math.max(this.#askedAt, askedAt);
  }

  /** The lease is lost for good. */
  end(): void {
    this.#ended = true;
  }
}
