import type { Config } from '../config/schema/config.js';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { buildConnector } from 'undici';
import { ActiveCount } from '../domain/active-count.js';
import { upstreamUrl } from '../domain/upstream-url.js';
import { ConnectionPool } from './connection-pool.js';
import type { Connect } from './connection.js';
import { AddressHealth } from './address-health.js';
import { connectUnix } from './unix-connect.js';

/** What one address of an upstream is reached with. */
export type AddressSettings = Pick<Config['upstreams'][string], 'connect_timeout' | 'tls'>;

/** One address of an upstream: its connections, and how it fares. */
export class Address {
  /** Scheme, host and port, or `unix://` and a path; what it is called in logs and metrics. */
  readonly origin: string;
  /** Host and port as a Host field holds them. */
  readonly host: string;
  /** Path that is put in front of every target; no slash at its end. */
  readonly prefix: string;
  readonly pool: ConnectionPool;
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
    this.pool = new ConnectionPool(this.connect);
  }
}

/**
 * The one way to a connection to a host. The name that is sent to the other side (SNI) and looked for in its certificate follows
 * from the configuration only, never from a request; an IP address is looked for as such.
 */
function hostConnect({ protocol, hostname, port }: URL, { connect_timeout, tls }: AddressSettings): Connect {
  const connector = buildConnector({ timeout: connect_timeout, rejectUnauthorized: true, ...readFiles(tls) });
  const host = hostname.replace(/^\[|\]$/g, '');
  const serverName = tls?.server_name ?? (isIP(host) === 0 ? host : undefined);
  const name = serverName === undefined ? { host } : { servername: serverName };
  const target = { protocol, hostname: host, port, ...name };
  return (callback) => connector(target, (...[error, socket]) => callback(error ?? socket));
}

function readFiles(tls: AddressSettings['tls']): { ca?: Buffer; cert?: Buffer; key?: Buffer } {
  const { ca = null, cert = null, key = null } = tls ?? {};
  return {
    ...(ca === null ? {} : { ca: readFileSync(ca) }),
    ...(cert === null ? {} : { cert: readFileSync(cert) }),
    ...(key === null ? {} : { key: readFileSync(key) }),
  };
}
