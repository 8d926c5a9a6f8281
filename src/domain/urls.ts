import { hostOf, isHost } from '../util/addresses.js';

export type UpstreamUrl = {
  /** Scheme, host and port, or `unix://` and the path; one spelling per address. */
  readonly origin: string;
  /**
   * Host and port for the Host header field. HTTP/1.1 requires the field for a socket, too (RFC 9112 3.2).
   */
  readonly host: string;
  readonly prefix: string;
} & ({ readonly socketPath: null; readonly url: URL } | { readonly socketPath: string; readonly url: null });

const SCHEME = 'unix://';
/** Size of `sun_path` on Linux without the trailing NUL; a longer path would be cut. */
const MAX_PATH = 107;
/** Segments without what some programs decode (%), or take for the end (?, #, :) or a user (@). */
const PATH = /^(?:\/(?!\.{1,2}(?:\/|$))[!"$&-.0-9;->A-[\]-~]+)+$/;
export const SOCKET_URL_RULE =
  'unix:// and the absolute path of a socket, like unix:///run/api.sock: at most 107 printable ASCII characters without spaces, "%", "?", "#", ":", "@", "\\" and empty, "." or ".." segments';

/** A Unix socket in any notation: unix:/a, unix://a, http+unix://%2Fa, http://unix:/a:/path, /a. */
const SOCKET_LIKE = /^(?:(?:https?\+)?unix:|https?:\/\/unix:\/|\/)/i;

export function parseUpstreamUrl(text: string): UpstreamUrl | undefined {
  if (text.startsWith(SCHEME)) {
    const socketPath = text.slice(SCHEME.length);
    if (socketPath.length > MAX_PATH || !PATH.test(socketPath)) return undefined;
    return { origin: text, host: 'localhost', prefix: '', socketPath, url: null };
  }
  if (isSocketLike(text) || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const { protocol, origin, host, username, password, search, hash } = url;
  if (!/^https?:$/.test(protocol) || `${username}${password}${search}${hash}` !== '') return undefined;
  return { origin, host, prefix: url.pathname.replace(/\/+$/, ''), socketPath: null, url };
}

/** @throws TypeError if it is not the URL of an upstream */
export function upstreamUrl(text: string): UpstreamUrl {
  const parsed = parseUpstreamUrl(text);
  if (parsed === undefined) throw new TypeError('expected the URL of an upstream');
  return parsed;
}

export function isSocketLike(text: string): boolean {
  return SOCKET_LIKE.test(text);
}

export interface RedisAddress {
  readonly host: string;
  readonly port: number;
}

/** A Redis server with the connection options from its `redis://` or `rediss://` URL. */
export interface RedisNode extends RedisAddress {
  readonly db?: number;
  readonly username?: string;
  readonly password?: string;
  readonly tls?: object;
}

const REDIS_PORT = 6379;

/** Parses `redis[s]://[user:password@]host[:port][/database]`; undefined for anything else. */
export function parseRedisUrl(text: string): RedisNode | undefined {
  if (!/^rediss?:\/\//.test(text) || !URL.canParse(text)) return undefined;
  const { protocol, username, password, host, pathname, search, hash } = new URL(text);
  const address = parseAddress(host);
  const [user, secret] = [decode(username), decode(password)];
  if (address === undefined || user === undefined || secret === undefined) return undefined;
  if (search !== '' || hash !== '' || !/^\/?$|^\/\d{1,5}$/.test(pathname)) return undefined;
  return {
    ...address,
    db: Number(pathname.slice(1)),
    ...(user === '' ? {} : { username: user }),
    ...(secret === '' ? {} : { password: secret }),
    ...(protocol === 'rediss:' ? { tls: {} } : {}),
  };
}

/** Parses `host[:port]`; undefined for anything else. */
export function parseAddress(text: string): RedisAddress | undefined {
  if (!isHost(text)) return undefined;
  const [, host = '', port] = /^(.*?)(?::(\d+))?$/.exec(text) ?? [];
  return { host: hostOf({ hostname: host }), port: port === undefined ? REDIS_PORT : Number(port) };
}

/** A PostgreSQL server with the connection options from its `postgres://` URL. */
export interface PostgresServer {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user?: string;
  readonly password?: string;
  /** Whether it asks for TLS. */
  readonly tls: boolean;
}

const POSTGRES_PORT = 5432;
/** Values of the parameter `sslmode`, and whether they ask for TLS. Certificates are always verified. */
const SSL_MODES: Readonly<Record<string, boolean>> = {
  '': false,
  disable: false,
  require: true,
  'verify-ca': true,
  'verify-full': true,
};

/** Parses `postgres://[user[:password]@]host[:port]/database[?sslmode=MODE]`; undefined for anything else. */
export function parsePostgresUrl(text: string): PostgresServer | undefined {
  if (!/^postgres(?:ql)?:\/\//.test(text) || !URL.canParse(text)) return undefined;
  const { username, password, host, hostname, port, pathname, search, hash } = new URL(text);
  const [user, secret, database] = [decode(username), decode(password), decode(pathname.slice(1))];
  const [, mode = ''] = /^\?sslmode=([a-z-]+)$/.exec(search) ?? [];
  const tls = SSL_MODES[mode];
  if (!isHost(host) || user === undefined || secret === undefined || tls === undefined) return undefined;
  if (!database || database.includes('/') || (mode === '' && search !== '') || hash !== '') return undefined;
  return {
    host: hostOf({ hostname }),
    port: port === '' ? POSTGRES_PORT : Number(port),
    database,
    ...(user === '' ? {} : { user }),
    ...(secret === '' ? {} : { password: secret }),
    tls,
  };
}

/** Decodes a part of a URL; undefined if it is not well-formed. */
function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
