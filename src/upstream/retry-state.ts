import type { Active, Address } from './address.js';
import { InvalidUpstreamResponse, isBrokenConnection, isUnreached, NotProcessed } from './faults.js';
import type { Upstream } from './upstreams.js';

/** What may be done with a request that failed. */
export interface Resendable {
  /** Nothing of its body was taken, so that all of it can be sent to another address. */
  readonly bodyUnsent: boolean;
  /** Whether it may be sent a second time: it changes nothing, has no body, and nothing of an answer came. */
  readonly idempotent: boolean;
}

/**
 * The addresses of an upstream that one request is sent to, one after the other.
 *
 * What was not sent can't happen twice, so any request goes to an address that it was not tried at. What may have come to an
 * address goes out again only if it has no side effects (RFC 9110 9.2.2), and to the same address when there is no other one: an idle
 * connection may have been closed in the moment in which it was used.
 */
export class RetryState {
  readonly #upstream: Upstream;
  #address: Address | undefined;
  #active: Active | undefined;
  #failed: Address[] | undefined;
  #count = 0;
  /** Something of the request may have come to the address. */
  sent = false;

  constructor(upstream: Upstream) {
    this.#upstream = upstream;
  }

  /** The first address. */
  begin(): Address {
    return this.#use(this.#upstream.choose() as Address);
  }

  /** Notes what the address is to blame for, and says where the request is sent again; undefined when it must not be. */
  nextAddress(error: Error, { bodyUnsent, idempotent }: Resendable): Address | undefined {
    const address = this.#address as Address;
    const upstream = this.#upstream;
    const unreached = !this.sent && isUnreached(error);
    const refused = error instanceof NotProcessed;
    if (!unreached && !refused && !(this.sent && isBrokenConnection(error))) {
      if (error instanceof InvalidUpstreamResponse) upstream.report(address, error);
      return undefined;
    }
    // An upstream that ends a connection in good order refuses what crossed its GOAWAY.
    if (refused) upstream.report(address, error);
    else upstream.failed(address, error);
    const mayRepeat = unreached || refused ? bodyUnsent : idempotent;
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
    this.#active?.end();
  }

  #use(address: Address): Address {
    this.#count += 1;
    this.sent = false;
    this.#address = address;
    this.#active = address.active.begin();
    return address;
  }
}
