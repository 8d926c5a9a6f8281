import type { Config } from '../config/schema/config.js';
import { Limiter } from '../domain/limiter.js';
import { firstField } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';
import { reportYields } from '../observe/evictions.js';
import type { RouteLimits } from '../policy/route.js';
import { Address } from './address.js';
import { HealthCheck } from './health-check.js';
import { causeOf, codeOf } from './faults.js';
import { Waits } from './fast-timeouts.js';

/** Settings of one upstream, with one or more addresses that all serve the same. */
export type UpstreamSettings = Omit<Config['upstreams'][string], 'url' | 'urls'> & {
  readonly urls: readonly string[];
};

interface AddressChange {
  readonly upstream: string;
  readonly address: string;
  readonly usable: boolean;
  /** The last event that led to the change. */
  readonly cause: string;
}

/** A failure of an address. The client learns only that there was one. */
interface AddressFault {
  readonly upstream: string;
  readonly address: string;
  /** Of the system, the TLS library or Latchkey (`UND_ERR_...`, `INVALID_RESPONSE`). */
  readonly code: string;
  readonly cause: string;
}

export interface UpstreamEvents {
  readonly changed: (change: AddressChange) => void;
  readonly failed: (fault: AddressFault) => void;
  /** Called when a request is resent, to the same or another address. */
  readonly retried: (upstream: string) => void;
}

/** Milliseconds that a request waits before who holds most gives way: a burst should only wait. */
const PATIENCE_MS = 250;

export class Upstream {
  readonly name: string;
  readonly settings: UpstreamSettings;
  readonly limiter: Limiter;
  readonly addresses: readonly Address[];
  readonly #events: UpstreamEvents;
  readonly #only: Address | undefined;
  readonly #checks: readonly HealthCheck[];
  readonly #waits: Waits;
  readonly #ofRoutes = new WeakMap<RouteLimits, Waits>();
  #turn = 0;

  constructor(name: string, settings: UpstreamSettings, events: UpstreamEvents) {
    this.name = name;
    this.settings = settings;
    this.#events = events;
    this.limiter = new Limiter(
      {
        size: settings.max_connections,
        maxWaiting: settings.max_waiting,
        timeout: settings.wait_timeout,
        patience: Math.min(PATIENCE_MS, settings.wait_timeout / 2),
      },
      reportYields('upstream', name),
    );
    this.#waits = this.#waitsWith(null);
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
   * Chooses the usable address with the fewest requests, in turn among equals; if none is usable, any is
   * better than none.
   * @param tried addresses that this request cannot be sent to any more
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

  hostFor(head: RequestHead): string | undefined {
    const { host } = this.settings;
    if (host === 'upstream') return undefined;
    // HTTP/1.0 clients may omit it.
    return host === 'preserve' ? firstField(head.fields, 'host') || undefined : host;
  }

  /** Returns how long requests of a route may wait, where the route may override the upstream. */
  waitsOf(limits: RouteLimits | null): Waits {
    if (limits === null) return this.#waits;
    let waits = this.#ofRoutes.get(limits);
    if (waits === undefined) this.#ofRoutes.set(limits, (waits = this.#waitsWith(limits)));
    return waits;
  }

  #waitsWith(limits: RouteLimits | null): Waits {
    const { response_timeout, idle_timeout } = this.settings;
    const { owner = '', responseTimeout = response_timeout, idleTimeout = idle_timeout } = limits ?? {};
    const ownerOf = (own: number | undefined) => (own === undefined ? `upstreams.${this.name}` : owner);
    const owners = { response: ownerOf(limits?.responseTimeout), idle: ownerOf(limits?.idleTimeout) };
    return new Waits({ responseTimeout, idleTimeout }, owners);
  }

  answered(address: Address): void {
    const { usable } = address.health;
    address.health.answered();
    if (!usable) this.#reportChange(address, usable, 'a request succeeded');
  }

  /** Notes that a request could not be sent, or that its connection broke before the response. */
  failed(address: Address, error: Error): void {
    this.report(address, error);
    // Ejecting the only address would just turn a hiccup into an outage.
    if (this.#only !== undefined) return;
    const { usable } = address.health;
    address.health.failed(performance.now());
    this.#reportChange(address, usable, causeOf(error));
  }

  report(address: Address, error: Error): void {
    const { name } = this;
    this.#events.failed({
      upstream: name,
      address: address.origin,
      code: codeOf(error),
      cause: causeOf(error),
    });
  }

  retried(): void {
    this.#events.retried(this.name);
  }

  startChecks(): void {
    for (const check of this.#checks) check.start();
  }

  stopChecks(): void {
    for (const check of this.#checks) check.stop();
  }

  close(): void {
    this.stopChecks();
    for (const { pool } of this.addresses) pool.destroy();
  }

  #checked(address: Address, fault: string | undefined): void {
    const { usable } = address.health;
    address.health.checked(fault === undefined);
    this.#reportChange(address, usable, fault ?? 'health check passed');
  }

  #reportChange(address: Address, before: boolean, cause: string): void {
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
  /** Returns the number of requests in flight or queued, over all upstreams. */
  pending(): number;
  stopChecks(): void;
  loads(): { readonly name: string; readonly active: number; readonly waiting: number }[];
  close(): void;
}

/**
 * Nothing connects before the first request, except health checks.
 * @throws Error when a file of `tls` cannot be read
 */
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
