import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { isIP } from 'node:net';
import { buildConnector, Pool } from 'undici';
import { Standing } from './standing.js';

/** Files (PEM) of a TLS client and the name that the other side's certificate must hold. */
export interface TlsSettings {
  readonly ca: string | null;
  readonly cert: string | null;
  readonly key: string | null;
  readonly server_name: string | null;
}

/** What one address of an upstream is reached with; times in milliseconds. */
export interface AddressSettings {
  readonly connect_timeout: number;
  readonly response_timeout: number;
  readonly idle_timeout: number;
  readonly max_connections: number;
  readonly tls: TlsSettings | null;
}

/** A connection serves so many requests, so that a busy one too learns when its host name leads elsewhere. */
const MAX_REQUESTS_ON_CONNECTION = 1_000;

/** One address of an upstream: its connections, and how it fares. */
export class Address {
  /** Scheme, host and port; what it is called in logs and metrics. */
  readonly origin: string;
  /** Host and port as a Host field holds them. */
  readonly host: string;
  /** Path that is put in front of every target; no slash at its end. */
  readonly prefix: string;
  readonly pool: Pool;
  readonly standing = new Standing();
  /** Requests and WebSockets that it has now. */
  pending = 0;
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
      headersTimeout: settings.response_timeout,
      bodyTimeout: settings.idle_timeout,
      maxRequestsPerClient: MAX_REQUESTS_ON_CONNECTION,
    });
  }

  /** Opens a connection of its own: TLS is verified by then. It fails after `connect_timeout`. */
  connect(callback: (error: Error | null, socket: Socket | null) => void): void {
    const { protocol, hostname, port } = this.#url;
    const target = { protocol, hostname: hostname.replace(/^\[|\]$/g, ''), port };
    // With an error there is no second argument, whatever the types say.
    this.#connector(target, (error, socket) => callback(error, (socket as Socket | undefined) ?? null));
  }
}

/**
 * The one way to a connection. The name that is sent to the other side (SNI) and looked for in its certificate follows from the
 * configuration only, never from a request; an IP address is looked for as such.
 */
function createConnector(url: URL, { connect_timeout, tls }: AddressSettings): buildConnector.connector {
  const read = (file: string | null | undefined) => (file == null ? undefined : readFileSync(file));
  const [ca, cert, key] = [read(tls?.ca), read(tls?.cert), read(tls?.key)];
  const connector = buildConnector({
    timeout: connect_timeout,
    rejectUnauthorized: true,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  });
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const serverName = tls?.server_name ?? (isIP(host) === 0 ? host : undefined);
  return (options, callback) => {
    const { servername: _, ...rest } = options;
    connector(serverName === undefined ? { ...rest, host } : { ...rest, servername: serverName }, callback);
  };
}
