/** A request that waits for a free connection. */
export interface ConnectionWaiter {
  /** Called when its permit is held. */
  go(): void;
  /** Called when it waited too long and has left the queue. */
  giveUp(): void;
}

type Unreleased = 'held' | 'waiting';

/**
 * The right to use one connection, or a place in the queue for it.
 *
 * {@link Permit.release} ends either.
 */
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

  /** Whether a connection may be used. */
  get isHeld(): boolean {
    return this.#state === 'held';
  }

  /** Grants the permit; called by the limiter only. */
  hold(): void {
    if (this.#state === 'waiting') this.#state = 'held';
  }

  /** Releases the connection, or leaves the queue. Further calls have no effect. */
  release(): void {
    const state = this.#state;
    if (state === 'released') return;
    this.#state = 'released';
    this.#released(this, state);
  }
}

/**
 * Limits the concurrent connections of requests to one upstream, with a queue for the rest.
 *
 * A queue inside a connection pool would hold each entry until its turn: even a request whose
 * client disconnected, or one that waited too long.
 */
export class ConnectionLimiter {
  readonly #size: number;
  readonly #maxWaiting: number;
  readonly #timeout: number;
  readonly #queue = new Map<Permit, NodeJS.Timeout>();
  #held = 0;

  /**
   * @param size maximum number of permits held at once
   * @param maxWaiting maximum length of the queue
   * @param timeout milliseconds that a request may wait
   */
  constructor(size: number, maxWaiting: number, timeout: number) {
    this.#size = size;
    this.#maxWaiting = maxWaiting;
    this.#timeout = timeout;
  }

  /** Number of permits held. */
  get active(): number {
    return this.#held;
  }

  /** Number of permits in the queue. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** Returns a permit, held or queued; undefined when the queue is full. */
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
    // Deferred, because this runs inside the end of another request.
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

/** Starts a granted waiter, unless its permit was released in the meantime. */
function start(permit: Permit): void {
  if (permit.isHeld) permit.waiter.go();
}
