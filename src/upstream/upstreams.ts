import { performance } from 'node:perf_hooks';
import type { Config } from '../config/schema/config.js';
import { Limiter } from '../domain/limiter.js';
import { firstField } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';
import { reportYields } from '../observe/evictions.js';
import type { Log } from '../observe/log.js';
import { type AddressState, metrics } from '../observe/metrics.js';
import type { UpstreamLoad } from '../observe/metrics/requests.js';
import type { RouteLimits } from '../policy/route.js';
import { LinkedQueue, type Node } from '../util/collections.js';
import { printable } from '../util/text.js';
import { createLogThrottle, formatDuration } from '../util/time.js';
import { Address, startHealthChecks } from './address.js';
import {
  BrokenStream,
  causeOf,
  codeOf,
  InvalidUpstreamResponse,
  isBrokenConnection,
  isUnreached,
  NotProcessed,
  NotSent,
} from './faults.js';

export type UpstreamSettings = Config['upstreams'][string];

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
    { response_timeout, idle_timeout }: Pick<UpstreamSettings, 'response_timeout' | 'idle_timeout'>,
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

/** Milliseconds that a request waits before who holds most gives way: a burst should only wait. */
const PATIENCE_MS = 250;

export class Upstream {
  readonly name: string;
  readonly settings: UpstreamSettings;
  readonly limiter: Limiter;
  readonly addresses: readonly Address[];
  readonly #log: Log;
  // An unreachable address fails every request.
  readonly #throttle = createLogThrottle();
  readonly #only: Address | undefined;
  readonly #waits: Waits;
  readonly #ofRoutes = new WeakMap<RouteLimits, Waits>();
  #turn = 0;
  /** Functions that stop the health checks. */
  readonly #stops: readonly (() => void)[];

  constructor(name: string, settings: UpstreamSettings, log: Log) {
    this.name = name;
    this.settings = settings;
    this.#log = log;
    this.limiter = new Limiter(
      {
        size: settings.max_connections,
        maxWaiting: settings.max_waiting,
        timeout: settings.wait_timeout,
        patience: Math.min(PATIENCE_MS, settings.wait_timeout / 2),
      },
      reportYields('upstream', name),
    );
    this.#waits = new Waits(name, settings);
    // The configuration check ensured that there is either.
    const urls = settings.urls ?? [settings.url as string];
    this.addresses = urls.map((url) => new Address(url, settings));
    this.#only = this.addresses.length === 1 ? this.addresses[0] : undefined;
    const { health_check: check, host } = settings;
    this.#stops =
      check === null
        ? []
        : this.addresses.map((address) =>
            startHealthChecks(
              address,
              host === 'preserve' || host === 'upstream' ? address.host : host,
              check,
              (fault) => this.#checked(address, fault),
            ),
          );
  }

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
    if (waits === undefined) {
      waits = new Waits(this.name, this.settings, limits);
      this.#ofRoutes.set(limits, waits);
    }
    return waits;
  }

  answered(address: Address): void {
    if (address.health.failures === 0) return;
    const { usable } = address.health;
    address.health.answered();
    this.#reportChange(address, usable, 'a request succeeded');
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

  /** Clients learn only that an address failed; the log says why. */
  report({ origin: address }: Address, error: Error): void {
    const code = codeOf(error);
    const suppressed = this.#throttle(`${address} ${code}`);
    if (suppressed === undefined) return;
    const reason = printable(causeOf(error));
    this.#log.warn({ upstream: this.name, address, code, reason, suppressed }, 'upstream address failed');
  }

  stopChecks(): void {
    for (const stop of this.#stops) stop();
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

  #reportChange({ origin: address, health }: Address, before: boolean, cause: string): void {
    if (health.usable === before) return;
    const line = { upstream: this.name, address, reason: printable(cause) };
    if (health.usable) this.#log.info(line, 'upstream address healthy; back in use');
    else this.#log.warn(line, 'upstream address unhealthy; taken out of use');
  }
}

const NONE: readonly Address[] = [];

function isBetter(a: Address, b: Address): boolean {
  if (a.health.usable !== b.health.usable) return a.health.usable;
  return a.active < b.active;
}

/** The upstreams of a configuration. Nothing connects before the first request, except health checks. */
export class Upstreams {
  readonly #byName: ReadonlyMap<string, Upstream>;

  /** @throws Error when a file of `tls` cannot be read */
  constructor(settings: Config['upstreams'], log: Log) {
    this.#byName = new Map(
      Object.entries(settings).map(([name, each]) => [name, new Upstream(name, each, log)]),
    );
  }

  get #all(): Upstream[] {
    return [...this.#byName.values()];
  }

  /** Returns a route's upstream. The configuration check ensured that it exists; only endpoints name none. */
  named(name: string | null): Upstream {
    const upstream = this.#byName.get(name ?? '');
    if (upstream === undefined) throw new Error(`no upstream is named ${name}`);
    return upstream;
  }

  loads(): UpstreamLoad[] {
    return this.#all.map(({ name, limiter: { active, waiting } }) => ({ name, active, waiting }));
  }

  addressStates(): AddressState[] {
    return this.#all.flatMap(({ name, addresses }) =>
      addresses.map(({ origin, health }) => ({ upstream: name, address: origin, usable: health.usable })),
    );
  }

  /** Stops the health checks; requests continue. */
  stopChecks(): void {
    for (const upstream of this.#all) upstream.stopChecks();
  }

  close(): void {
    for (const upstream of this.#all) upstream.close();
  }
}

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
  /** The other end of the last connection that it was sent over. */
  peer: string | undefined;
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
    metrics.upstreamRetries.inc({ upstream: upstream.name });
    return this.#use(next);
  }

  /** Notes that the address may receive part of the request from now on. */
  begun(peer: string | undefined): void {
    this.sent = true;
    this.peer = peer ?? this.#address?.origin;
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
