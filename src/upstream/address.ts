import type { Config } from '../config/schema/config.js';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { upstreamUrl } from '../domain/upstream-url.js';
import type { Connect } from './connection.js';
import { connectUnix, tcpConnect, tlsConnect } from './connect.js';
import { ConnectionPool } from './connection-pool.js';
import { http2Opener } from './http2-connect.js';
import { Http2Pool } from './http2-pool.js';
import type { Dispatcher } from './upstream-request.js';

/** What one address of an upstream is reached with. */
export type AddressSettings = Pick<Config['upstreams'][string], 'connect_timeout' | 'tls'> &
  Partial<Pick<Config['upstreams'][string], 'protocol'>>;

/** One address of an upstream: its connections, and how it fares. */
export class Address {
  /** Scheme, host and port, or `unix://` and a path; what it is called in logs and metrics. */
  readonly origin: string;
  /** Host and port as a Host field holds them. */
  readonly host: string;
  /** Path that is put in front of every target; no slash at its end. */
  readonly prefix: string;
  /** Makes connections of their own, for what must not use those of requests. */
  readonly openPool: () => Dispatcher;
  readonly pool: Dispatcher;
  readonly health = new AddressHealth();
  /** Requests and WebSockets that it has now. */
  readonly active = new ActiveCount();
  /** Opens a connection of its own: TLS is verified by then. It fails after `connect_timeout`. */
  readonly connect: Connect;

  constructor(text: string, settings: AddressSettings) {
    const { origin, host, prefix, socketPath, url } = upstreamUrl(text);
    this.origin = origin;
    this.host = host;
    this.prefix = prefix;
    this.connect =
      socketPath === null
        ? hostConnect(url, settings)
        : (callback) => connectUnix(socketPath, settings.connect_timeout, callback);
    this.openPool = poolOpener(this.connect, url, settings);
    this.pool = this.openPool();
  }
}

/** The one way to a connection to a host that speaks HTTP/1.1, or HTTP/2 without TLS. */
function hostConnect(url: URL, settings: AddressSettings): Connect {
  if (url.protocol === 'https:') return secureConnect(url, settings, 'http/1.1');
  const port = url.port === '' ? 80 : Number(url.port);
  return tcpConnect(namesOf(url, null).host, port, settings.connect_timeout);
}

function secureConnect(
  url: URL,
  { connect_timeout, tls }: AddressSettings,
  protocol: 'http/1.1' | 'h2',
): Connect {
  const port = url.port === '' ? 443 : Number(url.port);
  return tlsConnect({ ...namesOf(url, tls), port, ...readFiles(tls) }, protocol, connect_timeout);
}

/**
 * The name that is sent to the other side (SNI) and looked for in its certificate follows from the configuration only, never
 * from a request; an IP address is looked for as such.
 */
function namesOf(url: URL, tls: AddressSettings['tls']): { host: string; servername?: string } {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const servername = tls?.server_name ?? (isIP(host) === 0 ? host : undefined);
  return servername === undefined ? { host } : { host, servername };
}

function poolOpener(connect: Connect, url: URL | null, settings: AddressSettings): () => Dispatcher {
  const { protocol = 'http1', connect_timeout: timeout } = settings;
  if (protocol === 'http1') return () => new ConnectionPool(connect);
  if (protocol === 'h2c' || url === null) return () => new Http2Pool(http2Opener(connect, timeout), 'http');
  const secure = secureConnect(url, settings, 'h2');
  return () => new Http2Pool(http2Opener(secure, timeout), 'https');
}

function readFiles(tls: AddressSettings['tls']): { ca?: Buffer; cert?: Buffer; key?: Buffer } {
  const { ca = null, cert = null, key = null } = tls ?? {};
  return {
    ...(ca === null ? {} : { ca: readFileSync(ca) }),
    ...(cert === null ? {} : { cert: readFileSync(cert) }),
    ...(key === null ? {} : { key: readFileSync(key) }),
  };
}

/** So many failures in a row, without an answer between them, and an address is left out. */
const MAX_FAILURES = 3;
/** How long it is left out at first; each further failure doubles it, up to the longest. */
const FIRST_OUT_MS = 1_000;
const MAX_OUT_MS = 30_000;
/** So many checks in a row with the same result change what is thought of an address. */
const CHECKS = 2;

/**
 * Whether an address is to be used: what became of the requests that it got, and what its health checks say.
 *
 * After failures it is left out for a while. Then one request in each such while is let to it, and an answer brings it back.
 * It knows no clock: times are milliseconds of any clock that never goes back.
 */
export class AddressHealth {
  #failures = 0;
  /** How long it is left out now; 0 while it isn't. */
  #outMs = 0;
  #outUntil = 0;
  #onTrial = false;
  #checkedHealthy = true;
  /** Checks in a row that say the opposite of what is thought; the first check of all is enough by itself. */
  #opposed = CHECKS - 1;

  /** Whether requests are sent to it as if nothing had happened. */
  get usable(): boolean {
    return this.#outMs === 0 && this.#checkedHealthy;
  }

  /** How long it is left out now, in milliseconds; 0 while it isn't, or only its checks fail. */
  get ejectedMs(): number {
    return this.#outMs;
  }

  /** Whether one request may try an address that is left out. It is then up to this request until as long again has passed. */
  tryProbe(now: number): boolean {
    if (this.#outMs === 0 || !this.#checkedHealthy || now < this.#outUntil) return false;
    this.#outUntil = now + this.#outMs;
    this.#onTrial = true;
    return true;
  }

  answered(): void {
    if (this.#failures !== 0) this.#reset();
  }

  /** It could not be connected to, or broke a connection instead of answering. */
  failed(now: number): void {
    this.#failures += 1;
    // What was under way when it was left out says nothing new.
    if (this.#failures < MAX_FAILURES || (this.#outMs > 0 && !this.#onTrial)) return;
    this.#onTrial = false;
    this.#outMs = this.#outMs === 0 ? FIRST_OUT_MS : Math.min(MAX_OUT_MS, this.#outMs * 2);
    this.#outUntil = now + this.#outMs;
  }

  /** What a health check found. A check that brings it back also resets what requests met. */
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
    this.#failures = 0;
    this.#outMs = 0;
    this.#onTrial = false;
  }
}

/** How many of something are under way. It never falls below zero, because each one ends once. */
export class ActiveCount {
  #value = 0;

  get value(): number {
    return this.#value;
  }

  /** Counts one more until it is given back. */
  begin(): Active {
    this.#value += 1;
    return new Active(this.#ended);
  }

  readonly #ended = (): void => {
    this.#value -= 1;
  };
}

/** One of an {@link ActiveCount}. */
export class Active {
  #ended: (() => void) | undefined;

  constructor(ended: () => void) {
    this.#ended = ended;
  }

  /** Ends it. A second call does nothing. */
  end(): void {
    const ended = this.#ended;
    this.#ended = undefined;
    ended?.();
  }
}
