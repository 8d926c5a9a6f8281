import type { Config } from '../config/schema/config.js';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { isIP } from 'node:net';
import { buildConnector, type Client, Pool } from 'undici';
import { ActiveCount } from '../domain/active-count.js';
import { Connection } from './connection.js';
import { AddressHealth } from './address-health.js';

/** What one address of an upstream is reached with. */
export type AddressSettings = Pick<
  Config['upstreams'][string],
  'connect_timeout' | 'max_connections' | 'tls'
>;

/** A connection serves so many requests, so that a busy one too learns when its host name leads elsewhere. */
const MAX_REQUESTS_ON_CONNECTION = 1_000;

/** An idle connection is closed after so long, a little before many servers would (5 s), so that no request meets its end. */
const IDLE_MS = 4_000;
/** An upstream that says how long it keeps a connection is believed less so much. */
const HINT_MARGIN_MS = 2_000;
/**
 * Connections close sooner than that by one of so many steps. All those that a burst left idle at once kept every request waiting
 * for 40 ms (256 connections).
 */
const IDLE_STEPS = 50;
const IDLE_STEP_MS = 10;

/** One address of an upstream: its connections, and how it fares. */
export class Address {
  /** Scheme, host and port; what it is called in logs and metrics. */
  readonly origin: string;
  /** Host and port as a Host field holds them. */
  readonly host: string;
  /** Path that is put in front of every target; no slash at its end. */
  readonly prefix: string;
  readonly pool: Pool;
  readonly health = new AddressHealth();
  /** Requests and WebSockets that it has now. */
  readonly active = new ActiveCount();
  /**
   * A constant for undici, which otherwise opens another connection for each other Host field of an https request. The name
   * that is sent and verified is {@link connect}'s.
   */
  readonly poolServerName: string | undefined;
  readonly #connector: buildConnector.connector;
  readonly #url: URL;

  constructor(url: string, settings: AddressSettings) {
    this.#url = new URL(url);
    const { origin, host, protocol, hostname } = this.#url;
    this.origin = origin;
    this.host = host;
    this.prefix = this.#url.pathname.replace(/\/+$/, '');
    this.poolServerName = protocol === 'https:' ? hostname : undefined;
    this.#connector = createConnector(this.#url, settings);
    this.pool = new Pool(origin, {
      connections: settings.max_connections,
      pipelining: 1,
      connect: this.#connector,
      // The handler of a request looks after its timeouts: `fast-timeouts.ts`.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxRequestsPerClient: MAX_REQUESTS_ON_CONNECTION,
      factory: createClient,
    });
  }

  /** Opens a connection of its own: TLS is verified by then. It fails after `connect_timeout`. */
  connect(callback: (opened: Socket | Error) => void): void {
    const { protocol, hostname, port } = this.#url;
    const target = { protocol, hostname: hostname.replace(/^\[|\]$/g, ''), port };
    this.#connector(target, (...[error, socket]) => callback(error ?? socket));
  }
}

function createClient(origin: URL, options: Client.Options): Client {
  const sooner = Math.floor(Math.random() * IDLE_STEPS) * IDLE_STEP_MS;
  return new Connection(origin, {
    ...options,
    keepAliveTimeout: IDLE_MS - sooner,
    keepAliveTimeoutThreshold: HINT_MARGIN_MS + sooner,
  });
}

/**
 * The one way to a connection. The name that is sent to the other side (SNI) and looked for in its certificate follows from the
 * configuration only, never from a request; an IP address is looked for as such.
 */
function createConnector(url: URL, { connect_timeout, tls }: AddressSettings): buildConnector.connector {
  const connector = buildConnector({ timeout: connect_timeout, rejectUnauthorized: true, ...readFiles(tls) });
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const serverName = tls?.server_name ?? (isIP(host) === 0 ? host : undefined);
  return (options, callback) => {
    const { servername: _, ...rest } = options;
    connector(serverName === undefined ? { ...rest, host } : { ...rest, servername: serverName }, callback);
  };
}

function readFiles(tls: AddressSettings['tls']): { ca?: Buffer; cert?: Buffer; key?: Buffer } {
  const { ca = null, cert = null, key = null } = tls ?? {};
  return {
    ...(ca === null ? {} : { ca: readFileSync(ca) }),
    ...(cert === null ? {} : { cert: readFileSync(cert) }),
    ...(key === null ? {} : { key: readFileSync(key) }),
  };
}
