import { performance } from 'node:perf_hooks';
import { LinkedQueue, type Node } from '../util/collections.js';
import { formatDuration } from '../util/time.js';

export interface TimeoutListener {
  /** Called when the time has passed. The timeout continues until it is ended or renewed. */
  onTimeout(): void;
}

export type FastTimeout = Node<TimeoutListener>;

/** Bounds of the check interval in milliseconds, and checks per timeout. */
const MAX_TICK_MS = 500;
const MIN_TICK_MS = 10;
const TICKS = 20;

/**
 * Upstream timeouts of one length, each up to 5 % late, and at most half a second. A single timer serves all
 * of them: timers of each request would be old objects by their end.
 */
export class FastTimeouts {
  readonly #limit: number;
  readonly #held = new LinkedQueue<TimeoutListener>();
  #isLooking = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  begin(waiter: TimeoutListener): FastTimeout {
    if (!this.#isLooking) this.#lookLater();
    return this.#held.add(waiter, performance.now());
  }

  renew(wait: FastTimeout): void {
    this.#held.renew(wait, performance.now());
  }

  isFresh({ renewedAt }: FastTimeout): boolean {
    return performance.now() - renewedAt < this.#limit;
  }

  end(wait: FastTimeout): void {
    this.#held.remove(wait);
  }

  #lookLater(): void {
    this.#isLooking = true;
    setTimeout(this.#scan, Math.max(MIN_TICK_MS, Math.min(MAX_TICK_MS, this.#limit / TICKS))).unref();
  }

  readonly #scan = (): void => {
    this.#isLooking = false;
    if (this.#held.size > 0) this.#lookLater();
    for (const wait of this.#held.renewedBefore(performance.now() - this.#limit)) {
      // The callback of an earlier one may have ended this one.
      if (!wait.isRemoved) wait.member.onTimeout();
    }
  };
}

export class Waits {
  readonly responseTimeout: number;
  readonly idleTimeout: number;
  readonly firstByte: FastTimeouts;
  readonly nextByte: FastTimeouts;
  /** What happened after these timeouts, with the setting. */
  readonly noResponse: string;
  readonly noData: string;

  /** @param owners what sets each timeout: an upstream or a route */
  constructor(
    { responseTimeout, idleTimeout }: { readonly responseTimeout: number; readonly idleTimeout: number },
    owners: { readonly response: string; readonly idle: string },
  ) {
    this.responseTimeout = responseTimeout;
    this.idleTimeout = idleTimeout;
    this.firstByte = new FastTimeouts(responseTimeout);
    this.nextByte = new FastTimeouts(idleTimeout);
    this.noResponse = `no response within ${owners.response}.response_timeout (${formatDuration(responseTimeout)})`;
    this.noData = `no data within ${owners.idle}.idle_timeout (${formatDuration(idleTimeout)})`;
  }
}

/** The timeout of one request: for the first byte of the response, then for each next byte. */
export class UpstreamTimeout {
  readonly #waits: Waits;
  readonly #listener: TimeoutListener;
  #timeouts: FastTimeouts | undefined;
  #timeout: FastTimeout | undefined;

  constructor(waits: Waits, listener: TimeoutListener) {
    this.#waits = waits;
    this.#listener = listener;
  }

  awaitFirstByte(): void {
    this.#begin(this.#waits.firstByte);
  }

  awaitNextByte(): void {
    this.#begin(this.#waits.nextByte);
  }

  get isFresh(): boolean {
    return this.#timeout !== undefined && this.#timeouts?.isFresh(this.#timeout) === true;
  }

  renew(): void {
    if (this.#timeout !== undefined) this.#timeouts?.renew(this.#timeout);
  }

  end(): void {
    if (this.#timeout !== undefined) this.#timeouts?.end(this.#timeout);
    this.#timeout = undefined;
  }

  #begin(timeouts: FastTimeouts): void {
    this.#timeouts = timeouts;
    this.#timeout = timeouts.begin(this.#listener);
  }
}
