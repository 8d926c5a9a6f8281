/** A request that waits for a free connection. */
export interface Waiting {
  /** It has a place now. */
  go(): void;
  /** It waited too long and is out of the queue. */
  giveUp(): void;
}

/**
 * The places on the connections to one upstream, and the queue in front of them.
 *
 * The HTTP client has a queue of its own, but what stands in it can't leave before its turn comes: neither a request
 * whose client has gone, nor one that waited too long.
 */
export class Places {
  readonly #size: number;
  readonly #maxWaiting: number;
  readonly #timeout: number;
  readonly #waiting = new Map<Waiting, NodeJS.Timeout>();
  #taken = 0;

  /** @param timeout milliseconds that a request may wait */
  constructor(size: number, maxWaiting: number, timeout: number) {
    this.#size = size;
    this.#maxWaiting = maxWaiting;
    this.#timeout = timeout;
  }

  /** Requests that wait for a place. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Requests that have a place or wait for one. */
  get pending(): number {
    return this.#taken + this.#waiting.size;
  }

  /** Takes a place: `taken` now, `waiting` in turn, or `full` when too many wait already. */
  take(request: Waiting): 'taken' | 'waiting' | 'full' {
    if (this.#taken < this.#size) {
      this.#taken += 1;
      return 'taken';
    }
    if (this.#waiting.size >= this.#maxWaiting) return 'full';
    const timer = setTimeout(() => {
      this.#waiting.delete(request);
      request.giveUp();
    }, this.#timeout);
    this.#waiting.set(request, timer);
    return 'waiting';
  }

  /** Gives a place back, or leaves the queue. */
  leave(request: Waiting): void {
    if (this.#waiting.size === 0) {
      this.#taken -= 1;
      return;
    }
    const timer = this.#waiting.get(request);
    if (timer !== undefined) {
      clearTimeout(timer);
      this.#waiting.delete(request);
      return;
    }
    const [first, waited] = this.#waiting.entries().next().value as [Waiting, NodeJS.Timeout];
    clearTimeout(waited);
    this.#waiting.delete(first);
    // Not from here: this is inside the end of another exchange.
    process.nextTick(start, first);
  }
}

function start(request: Waiting): void {
  request.go();
}
