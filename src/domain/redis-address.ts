import { isHost } from '../util/addresses.js';

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

const DEFAULT_PORT = 6379;

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
  return { host: host.replace(/^\[|\]$/g, ''), port: port === undefined ? DEFAULT_PORT : Number(port) };
}

/** Decodes a part of a URL; undefined if it is not well-formed. */
export function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
