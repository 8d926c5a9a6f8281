import type { Config } from '../config/schema/config.js';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { isIP } from 'node:net';
import { buildConnector } from 'undici';
import { ActiveCount } from '../domain/active-count.js';
import { ConnectionPool } from './connection-pool.js';
import { AddressHealth } from './address-health.js';

/** What one address of an upstream is reached with. */
export type AddressSettings = Pick<Config['upstreams'][string], 'connect_timeout' | 'tls'>;

/** One address of an upstream: its connections, and how it fares. */
export class Address {
  /** Scheme, host and port; what it is called in logs and metrics. */
  readonly origin: string;
  /** Host and port as a Host field holds them. */
  readonly host: string;
  /** Path that is put in front of every target; no slash at its end. */
  readonly prefix: string;
  readonly pool: ConnectionPool;
  readonly health = new AddressHealth();
  /** Requests and WebSockets that it has now. */
  readonly active = new ActiveCount();
  readonly #connector: buildConnector.connector;
  readonly #url: URL;

  constructor(url: string, settings: AddressSettings) {
    this.#url = new URL(url);
    const { origin, host } = this.#url;
    this.origin = origin;
    this.host = host;
    this.prefix = this.#url.pathname.replace(/\/+$/, '');
    this.#connector = createConnector(this.#url, settings);
    this.pool = new ConnectionPool((callback) => this.connect(callback));
  }

  /** Opens a connection of its own: TLS is verified by then. It fails after `connect_timeout`. */
  connect(callback: (opened: Socket | Error) => void): void {
    const { protocol, hostname, port } = this.#url;
    const target = { protocol, hostname: hostname.replace(/^\[|\]$/g, ''), port };
    this.#connector(target, (...[error, socket]) => callback(error ?? socket));
  }
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
