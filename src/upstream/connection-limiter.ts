/** What waits for a free connection. */
export interface ConnectionWaiter {
  /** Its permit is held now. */
  go(): void;
  /** It waited too long and is out of the queue. */
  giveUp(): void;
}

type Unreleased = 'held' | 'waiting';

/** The right to use one connection, or a turn in the queue for it. {@link Permit.release} ends either. */
export class Permit {
  readonly waiter: ConnectionWaiter;
  readonly #released: (permit: Permit, state: Unreleased) => void;
  #state: Unreleased | 'released';

  constructor(
    waiter: ConnectionWaiter,
    state: Unreleased,
    released: (permit: Permit, state: Unreleased) => void,
  ) {
    this.waiter = waiter;
    this.#state = state;
    this.#released = released;
  }

  /** Whether a connection may be used now. */
  get isHeld(): boolean {
    return this.#state === 'held';
  }

  /** Its turn has come. For the limiter. */
  hold(): void {
    if (this.#state === 'waiting') this.#state = 'held';
  }

  /** Gives the connection back, or leaves the queue. The second time nothing happens. */
  release(): void {
    const state = this.#state;
    if (state === 'released') return;
    this.#state = 'released';
    this.#released(this, state);
  }
}

/**
 * Limits the connections that requests to one upstream use at once, with a queue in front of them.
 *
 * The HTTP client has a queue of its own, but what stands in it can't leave before its turn comes: neither a request
 * whose client has gone, nor one that waited too long.
 */
export class ConnectionLimiter {
  readonly #size: number;
  readonly #maxWaiting: number;
  readonly #timeout: number;
  readonly #queue = new Map<Permit, NodeJS.Timeout>();
  #held = 0;

  /** @param timeout milliseconds that a request may wait */
  constructor(size: number, maxWaiting: number, timeout: number) {
    this.#size = size;
    this.#maxWaiting = maxWaiting;
    this.#timeout = timeout;
  }

  /** Permits that are held. */
  get active(): number {
    return this.#held;
  }

  /** Permits that wait for their turn. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** Returns a permit that is held, or one that waits for its turn; undefined when too many wait already. */
  acquire(waiter: ConnectionWaiter): Permit | undefined {
    if (this.#held < this.#size) {
      this.#held += 1;
      return new Permit(waiter, 'held', this.#released);
    }
    if (this.#queue.size >= this.#maxWaiting) return undefined;
    const permit = new Permit(waiter, 'waiting', this.#released);
    this.#queue.set(permit, setTimeout(giveUp, this.#timeout, permit));
    return permit;
  }

  readonly #released = (permit: Permit, state: Unreleased): void => {
    const next = state === 'waiting' ? permit : this.#first();
    if (next === undefined) {
      this.#held -= 1;
      return;
    }
    clearTimeout(this.#queue.get(next));
    this.#queue.delete(next);
    if (next === permit) return;
    next.hold();
    // Not from here: this is inside the end of another request.
    process.nextTick(start, next);
  };

  #first(): Permit | undefined {
    for (const permit of this.#queue.keys()) return permit;
    return undefined;
  }
}

function giveUp(permit: Permit): void {
  permit.release();
  permit.waiter.giveUp();
}

/** It may have been released in between. */
function start(permit: Permit): void {
  if (permit.isHeld) permit.waiter.go();
}
