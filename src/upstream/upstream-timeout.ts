import type { FastTimeout, FastTimeouts, TimeoutListener } from './fast-timeouts.js';
import type { Upstream } from './upstreams.js';

/** The wait of one request for its upstream: for the first byte of the answer, then for the next one. */
export class UpstreamTimeout {
  readonly #upstream: Pick<Upstream, 'firstByte' | 'nextByte'>;
  readonly #listener: TimeoutListener;
  #timeouts: FastTimeouts | undefined;
  #timeout: FastTimeout | undefined;

  constructor(upstream: Pick<Upstream, 'firstByte' | 'nextByte'>, listener: TimeoutListener) {
    this.#upstream = upstream;
    this.#listener = listener;
  }

  awaitFirstByte(): void {
    this.#begin(this.#upstream.firstByte);
  }

  awaitNextByte(): void {
    this.#begin(this.#upstream.nextByte);
  }

  /** Whether something came in time. */
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
