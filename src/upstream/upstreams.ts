import type { Config } from '../config/schema/config.js';
import { firstField } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';
import { Address } from './address.js';
import { ConnectionLimiter } from './connection-limiter.js';
import { HealthCheck } from './health-check.js';
import { causeOf, codeOf } from './faults.js';
import { FastTimeouts } from './fast-timeouts.js';

/** Settings of one upstream, with its one or several addresses, all of which serve the same. */
export type UpstreamSettings = Omit<Config['upstreams'][string], 'url' | 'urls'> & {
  readonly urls: readonly string[];
};

/** An address that is left out from now on, or used again. */
interface AddressChange {
  readonly upstream: string;
  readonly address: string;
  readonly usable: boolean;
  /** What was met last. */
  readonly cause: string;
}

/** Something that went wrong with an address, of which the client is only told that it did. */
interface AddressFault {
  readonly upstream: string;
  readonly address: string;
  /** Of the system, of the TLS library, or of Latchkey: `UND_ERR_...` for connections and timeouts, `INVALID_RESPONSE`. */
  readonly code: string;
  readonly cause: string;
}

/** Whom the upstreams tell what happens to them. */
export interface UpstreamEvents {
  readonly changed: (change: AddressChange) => void;
  readonly failed: (fault: AddressFault) => void;
  /** A request was sent again, or to another address. */
  readonly retried: (upstream: string) => void;
}

export class Upstream {
  readonly name: string;
  readonly settings: UpstreamSettings;
  readonly limiter: ConnectionLimiter;
  /** Of requests that were sent, for the first byte of the answer. */
  readonly firstByte: FastTimeouts;
  /** Of answers that began, for the byte that comes next. */
  readonly nextByte: FastTimeouts;
  readonly addresses: readonly Address[];
  readonly #events: UpstreamEvents;
  readonly #only: Address | undefined;
  readonly #checks: readonly HealthCheck[];
  #turn = 0;

  /** @throws Error when a file of `tls` can't be read */
  constructor(name: string, settings: UpstreamSettings, events: UpstreamEvents) {
    this.name = name;
    this.settings = settings;
    this.#events = events;
    this.limiter = new ConnectionLimiter(
      settings.max_connections,
      settings.max_waiting,
      settings.wait_timeout,
    );
    this.firstByte = new FastTimeouts(settings.response_timeout);
    this.nextByte = new FastTimeouts(settings.idle_timeout);
    this.addresses = settings.urls.map((url) => new Address(url, settings));
    this.#only = this.addresses.length === 1 ? this.addresses[0] : undefined;
    const { health_check: check } = settings;
    this.#checks =
      check === null
        ? []
        : this.addresses.map((address) => {
            const hostName = settings.host === 'preserve' || settings.host === 'upstream' ? address.host : settings.host;
            return new HealthCheck(address, hostName, check, (fault) => this.#checked(address, fault));
          });
  } // prettier-ignore

  /**
   * The address for the next request: of those in use the one that has the least to do, in turn where several have equally
   * little. When none is in use, any is better than none, and the one with the least to do is tried.
   *
   * @param tried addresses that this request can't be sent to any more
   */
  choose(tried: readonly Address[] = NONE): Address | undefined {
    if (this.#only !== undefined) return tried.length === 0 ? this.#only : undefined;
    const { addresses } = this;
    let best: Address | undefined;
    let at = 0;
    for (let i = 0; i < addresses.length; i++) {
      const index = (this.#turn + i) % addresses.length;
      const address = addresses[index] as Address;
      if (tried.includes(address)) continue;
      const { health } = address;
      if (!health.usable && health.tryProbe(performance.now())) return address;
      if (best === undefined || isBetter(address, best)) {
        best = address;
        at = index;
      }
    }
    this.#turn = at + 1;
    return best;
  }

  /** What the Host field says; undefined for the address's own host. */
  hostFor(head: RequestHead): string | undefined {
    const { host } = this.settings;
    if (host === 'upstream') return undefined;
    // Clients of HTTP/1.0 need not send one.
    return host === 'preserve' ? firstField(head.fields, 'host') : host;
  }

  answered(address: Address): void {
    const { usable } = address.health;
    address.health.answered();
    if (!usable) this.#tell(address, usable, 'it answered a request');
  }

  /** A request could not be sent, or its connection broke before the answer. */
  failed(address: Address, error: Error): void {
    this.report(address, error);
    // With nothing to turn to, leaving it out would only turn a hiccup into an outage.
    if (this.#only !== undefined) return;
    const { usable } = address.health;
    address.health.failed(performance.now());
    this.#tell(address, usable, causeOf(error));
  }

  /** Logs what went wrong with an address, which stays in use. */
  report(address: Address, error: Error): void {
    const { name } = this;
    this.#events.failed({
      upstream: name,
      address: address.origin,
      code: codeOf(error),
      cause: causeOf(error),
    });
  }

  /** A request is sent again. */
  retried(): void {
    this.#events.retried(this.name);
  }

  startChecks(): void {
    for (const check of this.#checks) check.start();
  }

  /** Ends the health checks; requests go on. */
  stopChecks(): void {
    for (const check of this.#checks) check.stop();
  }

  /** Cuts every connection. */
  close(): void {
    this.stopChecks();
    for (const { pool } of this.addresses) pool.destroy();
  }

  #checked(address: Address, fault: string | undefined): void {
    const { usable } = address.health;
    address.health.checked(fault === undefined);
    this.#tell(address, usable, fault ?? 'its health check passes');
  }

  #tell(address: Address, before: boolean, cause: string): void {
    const { usable } = address.health;
    if (usable !== before)
      this.#events.changed({ upstream: this.name, address: address.origin, usable, cause });
  }
}

const NONE: readonly Address[] = [];

function isBetter(a: Address, b: Address): boolean {
  if (a.health.usable !== b.health.usable) return a.health.usable;
  return a.active.value < b.active.value;
}

export interface Upstreams {
  get(name: string): Upstream | undefined;
  readonly all: readonly Upstream[];
  /** Requests that are on their way to any of them. */
  pending(): number;
  /** Ends the health checks; requests go on. */
  stopChecks(): void;
  /** What is on its way to each of them. */
  loads(): { readonly name: string; readonly active: number; readonly waiting: number }[];
  /** Cuts every connection. */
  close(): void;
}

/** Opens a pool for each address. Nothing but health checks connects before the first request. @throws Error when a file of `tls` can't be read */
export function createUpstreams(
  settings: Readonly<Record<string, UpstreamSettings>>,
  events: UpstreamEvents,
): Upstreams {
  const all = Object.entries(settings).map(([name, each]) => new Upstream(name, each, events));
  const byName = new Map(all.map((upstream) => [upstream.name, upstream]));
  for (const upstream of all) upstream.startChecks();
  return {
    all,
    get: (name) => byName.get(name),
    pending: () => all.reduce((sum, upstream) => sum + upstream.limiter.active + upstream.limiter.waiting, 0),
    loads: () =>
      all.map(({ name, limiter }) => ({
        name,
        active: limiter.active,
        waiting: limiter.waiting,
      })),
    stopChecks: () => all.forEach((upstream) => upstream.stopChecks()),
    close: () => all.forEach((upstream) => upstream.close()),
  };
}
