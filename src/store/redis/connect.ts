import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { Redis, type RedisOptions } from 'ioredis';
import {
  parseAddress,
  parseRedisUrl,
  type RedisAddress,
  type RedisNode,
} from '../../domain/redis-address.js';
import { ConnectionFailed } from '../../domain/system-error.js';
import { addressText } from './agreement.js';
import type { RedisSettings } from './settings.js';

export type RedisConnectionOptions = Omit<RedisOptions, 'replyMapping'>;

const CONNECT_TIMEOUT_MS = 2_000;
/** A connection that is given up is closed after this time, also when the other side is frozen or was cut off without a sign. */
const DISCONNECT_TIMEOUT_MS = 50;
/** A watcher that is away is tried this often. */
const RECONNECT_MS = 250;

/**
 * Options for every connection. The library's defaults would queue commands while Redis is away, send commands
 * twice after a reconnect (a counted failure would count double), and wait for an answer without end.
 */
function commonOptions(settings: RedisSettings): RedisConnectionOptions {
  return {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    // Nobody would handle its failure, and whoever subscribes does so at each new connection.
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    commandTimeout: settings.command_timeout,
    connectTimeout: CONNECT_TIMEOUT_MS,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    // A connection is with one server for its life; what is lost is made anew by whoever holds it.
    retryStrategy: () => null,
    // Server-pushed invalidation is only surfaced by the library with RESP2.
    protocol: 2,
    connectionName: 'latchkey',
    disableClientInfo: true,
    ...(settings.username === null ? {} : { username: settings.username }),
    ...(settings.password === null ? {} : { password: settings.password }),
    ...(settings.tls === null ? {} : { tls: tlsOptions(settings.tls) }),
  };
}

/**
 * A connection to one server, which `connect()` opens. Once it is lost, it stays closed.
 *
 * @param more options of a connection of its own kind
 */
export function connectionTo(
  node: RedisNode,
  settings: RedisSettings,
  more: RedisConnectionOptions = {},
): Redis {
  return silent(new Redis({ ...ofNode(node, commonOptions(settings)), lazyConnect: true, ...more }));
}

/** Opens a connection. @throws ConnectionFailed with what went wrong, of which the library's own error says nothing */
export async function open(connection: Redis): Promise<void> {
  const { host = '', port = 0 } = connection.options;
  let cause: Error | undefined;
  const note = (error: Error): void => void (cause ??= error);
  connection.on('error', note);
  try {
    await connection.connect();
  } catch {
    throw new ConnectionFailed(addressText({ host, port }), cause);
  } finally {
    connection.off('error', note);
  }
}

/** A connection to a sentinel: it has no users of the store, and is opened anew whenever it is lost. */
export function connectionToSentinel(address: RedisAddress, settings: RedisSettings, timeout: number): Redis {
  const { username: _, password: __, ...common } = commonOptions(settings);
  return silent(new Redis({ ...common, ...address, ...watching(timeout), enableReadyCheck: false }));
}

/** A connection to a node of a cluster, to ask it about the cluster; it is opened anew whenever it is lost. */
export function connectionToClusterNode(address: RedisAddress, settings: RedisSettings, timeout: number): Redis {
  return silent(new Redis({ ...commonOptions(settings), ...address, ...watching(timeout), enableReadyCheck: false }));
} // prettier-ignore

function watching(timeout: number): RedisConnectionOptions {
  return { commandTimeout: timeout, connectTimeout: timeout, retryStrategy: () => RECONNECT_MS };
}

/** Commands report the faults that they meet; without a listener each would be printed. */
function silent(redis: Redis): Redis {
  return redis.on('error', () => undefined);
}

/** The URL's own user and password go before those beside it; the settings of TLS make more of a `rediss://`. */
function ofNode({ tls, ...node }: RedisNode, options: RedisConnectionOptions): RedisConnectionOptions {
  return { ...(tls === undefined ? {} : { tls }), ...options, ...node };
}

/** Addresses and URLs are those that the configuration was checked with. */
export function hostAndPort(text: string): RedisAddress {
  const address = parseAddress(text);
  if (address === undefined) throw new RangeError('an address of Redis that was not checked');
  return address;
}

export function nodeOf(url: string | null): RedisNode {
  const node = parseRedisUrl(url ?? '');
  if (node === undefined) throw new RangeError('a URL of Redis that was not checked');
  return node;
}

function tlsOptions({ ca, cert, key, server_name: name }: NonNullable<RedisSettings['tls']>): ConnectionOptions {
  return {
    ...(ca === null ? {} : { ca: readFileSync(ca) }),
    ...(cert === null ? {} : { cert: readFileSync(cert) }),
    ...(key === null ? {} : { key: readFileSync(key) }),
    ...(name === null ? {} : { servername: name }),
  };
} // prettier-ignore
