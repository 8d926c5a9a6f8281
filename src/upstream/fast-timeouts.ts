import { performance } from 'node:perf_hooks';
import type { Config } from '../config/schema/config.js';
import type { RouteLimits } from '../policy/route.js';
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

  /** @param limits of a route, which override those of the upstream; null: none */
  constructor(
    upstream: string,
    {
      response_timeout,
      idle_timeout,
    }: Pick<Config['upstreams'][string], 'response_timeout' | 'idle_timeout'>,
    limits: RouteLimits | null = null,
  ) {
    const { owner, responseTimeout = response_timeout, idleTimeout = idle_timeout } = limits ?? {};
    const settingOf = (key: string, own: number | undefined, ms: number): string =>
      `${own === undefined ? `upstreams.${upstream}` : owner}.${key} (${formatDuration(ms)})`;
    this.responseTimeout = responseTimeout;
    this.idleTimeout = idleTimeout;
    this.firstByte = new FastTimeouts(responseTimeout);
    this.nextByte = new FastTimeouts(idleTimeout);
    this.noResponse = `no response within ${settingOf('response_timeout', limits?.responseTimeout, responseTimeout)}`;
    this.noData = `no data within ${settingOf('idle_timeout', limits?.idleTimeout, idleTimeout)}`;
  }
}
