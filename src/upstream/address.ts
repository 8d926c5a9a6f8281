import type { Config } from '../config/schema/config.js';
import { upstreamUrl } from '../domain/urls.js';
import { hostOf, portOf } from '../util/addresses.js';
import { readRegularFile } from '../files/files.js';
import { ConnectionPool } from './connection.js';
import { type Connect, plainConnect, tlsConnect } from './connect.js';
import { http2Opener } from './http2-connect.js';
import { Http2Pool } from './http2-pool.js';
import type { Dispatcher, ResponseHandler } from './upstream-request.js';
import { MAX_TIMER_MS } from '../util/time.js';
import { UNFRAMED } from '../http1/write.js';
import { causeOf } from './faults.js';
import { isIP } from 'node:net';
import type { ConnectionOptions } from 'node:tls';

export type AddressSettings = Pick<Config['upstreams'][string], 'connect_timeout' | 'tls'> &
  Partial<Pick<Config['upstreams'][string], 'max_response_head' | 'protocol'>>;

export class Address {
  /** Scheme, host and port, or `unix://` and a path; its name in logs and metrics. */
  readonly origin: string;
  /** Host and port as in a Host field. */
  readonly host: string;
  readonly prefix: string;
  /** Creates a separate pool, for uses that must not share the connections of requests. */
  readonly openPool: () => Dispatcher;
  readonly pool: Dispatcher;
  readonly health = new AddressHealth();
  /** Requests and WebSockets in progress. */
  active = 0;
  /** Opens a new connection, with TLS verified; fails after `connect_timeout`. */
  readonly connect: Connect;

  constructor(text: string, settings: AddressSettings) {
    const { origin, host, prefix, socketPath, url } = upstreamUrl(text);
    const { protocol = 'http1', connect_timeout: timeout, max_response_head: maxHead, tls } = settings;
    this.origin = origin;
    this.host = host;
    this.prefix = prefix;
    if (socketPath !== null) this.connect = plainConnect({ path: socketPath }, timeout);
    else if (url.protocol === 'https:')
      this.connect = tlsConnect(tlsOptions(url, tls), protocol === 'h2' ? 'h2' : 'http/1.1', timeout);
    else this.connect = plainConnect({ host: hostOf(url), port: portOf(url) }, timeout);
    this.openPool = () =>
      protocol === 'http1'
        ? new ConnectionPool(this.connect, maxHead)
        : new Http2Pool(http2Opener(this.connect, timeout, maxHead), protocol === 'h2' ? 'https' : 'http');
    this.pool = this.openPool();
  }
}

function tlsOptions(url: URL, tls: AddressSettings['tls']): ConnectionOptions {
  const host = hostOf(url);
  const { ca = null, cert = null, key = null, server_name: name = null } = tls ?? {};
  // The name for SNI and verification depends on the configuration only, never on a request.
  const servername = name ?? (isIP(host) === 0 ? host : undefined);
  return {
    host,
    port: portOf(url),
    ...(servername === undefined ? {} : { servername }),
    ...(ca === null ? {} : { ca: readRegularFile(ca) }),
    ...(cert === null ? {} : { cert: readRegularFile(cert) }),
    ...(key === null ? {} : { key: readRegularFile(key) }),
  };
}

const MAX_FAILURES = 3;
/** Milliseconds of the first ejection. Each further failure doubles it, up to the maximum. */
const FIRST_OUT_MS = 1_000;
const MAX_OUT_MS = 30_000;
/** Consecutive health checks with the same result that change the state of an address. */
const CHECKS = 2;

/**
 * Passive and active health of one address. Repeated failures eject it for a while; after that, one request
 * per ejection time may probe it, and a response restores it. Times are milliseconds of any monotonic clock.
 */
export class AddressHealth {
  /** Failures since the last response. */
  failures = 0;
  /** Current ejection time in milliseconds; 0 unless ejected. */
  #outMs = 0;
  #outUntil = 0;
  #onTrial = false;
  #checkedHealthy = true;
  /** Consecutive checks that contradict the current state; the very first one is enough by itself. */
  #opposed = CHECKS - 1;

  get usable(): boolean {
    return this.#outMs === 0 && this.#checkedHealthy;
  }

  /**
   * Whether one request may probe an ejected address; no other may until the ejection time has passed again.
   */
  tryProbe(now: number): boolean {
    if (this.#outMs === 0 || !this.#checkedHealthy || now < this.#outUntil) return false;
    this.#outUntil = now + this.#outMs;
    this.#onTrial = true;
    return true;
  }

  answered(): void {
    if (this.failures !== 0) this.#reset();
  }

  /** Notes a failed connection attempt, or a connection that broke before the response. */
  failed(now: number): void {
    this.failures += 1;
    // Requests sent before the ejection say nothing new.
    if (this.failures < MAX_FAILURES || (this.#outMs > 0 && !this.#onTrial)) return;
    this.#onTrial = false;
    this.#outMs = this.#outMs === 0 ? FIRST_OUT_MS : Math.min(MAX_OUT_MS, this.#outMs * 2);
    this.#outUntil = now + this.#outMs;
  }

  /** A check that restores the address resets its failures, too. */
  checked(healthy: boolean): void {
    if (healthy === this.#checkedHealthy) {
      this.#opposed = 0;
      return;
    }
    this.#opposed += 1;
    if (this.#opposed < CHECKS) return;
    this.#opposed = 0;
    this.#checkedHealthy = healthy;
    if (healthy) this.#reset();
  }

  #reset(): void {
    this.failures = 0;
    this.#outMs = 0;
    this.#onTrial = false;
  }
}

type Settings = NonNullable<Config['upstreams'][string]['health_check']>;

const FIRST_WITHIN_MS = 1_000;
/** Random variation of the interval, as a fraction, so that processes do not check in step. */
const JITTER = 0.1;
const FIELDS: readonly string[] = ['User-Agent', 'latchkey-health-check'];

/**
 * Checks an address periodically, each time over a connection of its own: so it detects whether new ones are
 * accepted. A redirect counts as a response.
 * @param found called after each check with what is wrong; undefined when healthy
 * @returns a function that stops the checks
 */
export function startHealthChecks(
  address: Pick<Address, 'openPool'>,
  host: string,
  { path, timeout, interval }: Settings,
  found: (fault: string | undefined) => void,
): () => void {
  const request = {
    method: 'GET',
    target: path,
    host,
    fields: FIELDS,
    body: undefined,
    length: UNFRAMED,
    closes: true,
  };
  let timer: NodeJS.Timeout | undefined;
  let pool: Dispatcher | undefined;
  let isStopped = false;
  const probe = async (): Promise<string | undefined> =>
    new Promise((resolve) => {
      const opened = address.openPool();
      pool = opened;
      const finish = (fault: string | undefined): void => {
        clearTimeout(limit);
        resolve(fault);
        opened.destroy();
      };
      const limit = setTimeout(
        () => finish(`health check failed: no response within ${timeout} ms`),
        timeout,
      );
      opened.dispatch(request, statusReader(finish));
    });
  const after = (ms: number): void => {
    timer = setTimeout(() => {
      void probe().then((fault) => {
        if (isStopped) return;
        found(fault);
        after(Math.min(interval * (1 - JITTER + 2 * JITTER * Math.random()), MAX_TIMER_MS));
      });
    }, ms).unref();
  };
  after(Math.min(FIRST_WITHIN_MS, interval) * Math.random());
  return () => {
    isStopped = true;
    clearTimeout(timer);
    pool?.destroy();
  };
}

function ignore(): void {}

/** Reads the status of a response, and ignores the rest. */
function statusReader(finish: (fault: string | undefined) => void): ResponseHandler {
  return {
    connection: undefined,
    onRequestStart: ignore,
    onInformational: ignore,
    onResponseStart: (status) => finish(status < 400 ? undefined : `health check responded with ${status}`),
    onReadEnd: ignore,
    onResponseData: ignore,
    onResponseEnd: ignore,
    onResponseError: (error) => finish(`health check failed: ${causeOf(error)}`),
  };
}
