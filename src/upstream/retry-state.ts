import type { Address } from './address.js';
import {
  BrokenStream,
  InvalidUpstreamResponse,
  isBrokenConnection,
  isUnreached,
  NotProcessed,
  NotSent,
} from './faults.js';
import type { Upstream } from './upstreams.js';

/**
 * The sequence of addresses that one request is sent to. What was not sent goes on to an untried address.
 * What an address may have received is resent only without side effects (RFC 9110 9.2.2), and never over
 * HTTP/2: it may be what broke the connection, and the upstream says what it did not process.
 */
export class RetryState {
  readonly #upstream: Upstream;
  #address: Address | undefined;
  #isActive = false;
  #failed: Address[] | undefined;
  #count = 0;
  /** Whether the address may have received part of the request. */
  sent = false;
  isRepeated = false;

  constructor(upstream: Upstream) {
    this.#upstream = upstream;
  }

  begin(): Address {
    return this.#use(this.#upstream.choose() as Address);
  }

  /**
   * @param bodyUnsent whether none of its body was read, so that all of it can be sent to another address
   * @param idempotent whether it may be sent twice: no side effects, no body, and no response has begun
   */
  nextAddress(error: Error, bodyUnsent: boolean, idempotent: boolean): Address | undefined {
    const address = this.#address as Address;
    const upstream = this.#upstream;
    const unreached = !this.sent && isUnreached(error);
    const refused = error instanceof NotProcessed;
    if (!unreached && !refused && !(this.sent && isBrokenConnection(error))) {
      if (error instanceof InvalidUpstreamResponse) upstream.report(address, error);
      return undefined;
    }
    // An upstream that shuts a connection down cleanly refuses requests that crossed its GOAWAY.
    if (refused) upstream.report(address, error);
    else upstream.failed(address, error);
    const isUnsent = unreached || refused || error instanceof NotSent;
    const mayRepeat = isUnsent ? bodyUnsent : idempotent && !(error instanceof BrokenStream);
    if (this.#count > upstream.settings.retries || !mayRepeat) return undefined;
    (this.#failed ??= []).push(address);
    const next = upstream.choose(this.#failed) ?? (unreached ? undefined : address);
    if (next === undefined) return undefined;
    this.end();
    upstream.retried();
    return this.#use(next);
  }

  answered(): void {
    this.#upstream.answered(this.#address as Address);
  }

  end(): void {
    if (this.#isActive && this.#address !== undefined) this.#address.active -= 1;
    this.#isActive = false;
  }

  #use(address: Address): Address {
    this.#count += 1;
    this.sent = false;
    this.isRepeated = address === this.#address;
    this.#address = address;
    address.active += 1;
    this.#isActive = true;
    return address;
  }
}
