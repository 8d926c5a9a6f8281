import type { ConnectionOptions } from 'node:tls';
import { Redis, type RedisOptions, ReplyError } from 'ioredis';
import {
  parseAddress,
  parseRedisUrl,
  type RedisAddress,
  type RedisNode,
} from '../../domain/redis-address.js';
import { ConnectionFailed } from '../../util/system-error.js';
import { tlsOptions } from '../tls.js';
import { addressText } from './agreement.js';
import type { RedisSettings } from './settings.js';

export type RedisConnectionOptions = Omit<RedisOptions, 'replyMapping'>;

const CONNECT_TIMEOUT_MS = 2_000;
/**
 * How long closing an abandoned connection may take, in milliseconds. The other side may
 * be frozen or cut off silently.
 */
const DISCONNECT_TIMEOUT_MS = 50;
/** How often to reconnect to a watcher that is unreachable, in milliseconds. */
const RECONNECT_MS = 250;

/**
 * Returns the options for every connection. The library's defaults would queue commands while Redis
 * is unreachable and resend commands after a reconnect (a counted failure would count twice). They
 * would also wait for a reply without a limit.
 */
function commonOptions(settings: RedisSettings): RedisConnectionOptions {
  return {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    // Nothing would handle its failure, and subscribers subscribe again on each new connection.
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    // It prints a warning if the user lacks `INFO`; `open` has a check of its own.
    enableReadyCheck: false,
    commandTimeout: settings.command_timeout,
    connectTimeout: CONNECT_TIMEOUT_MS,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    // A connection stays with one server for its life; its holder replaces a lost one.
    retryStrategy: () => null,
    // The library surfaces pushed invalidations only with RESP2.
    protocol: 2,
    connectionName: 'latchkey',
    disableClientInfo: true,
    ...(settings.username === null ? {} : { username: settings.username }),
    ...(settings.password === null ? {} : { password: settings.password }),
  };
}

/**
 * Creates a connection to one server, which `connect()` opens. Once it is lost, it stays closed.
 *
 * @param more options for this kind of connection
 */
export function connectionTo(
  node: RedisNode,
  settings: RedisSettings,
  more: RedisConnectionOptions = {},
): Redis {
  const options = { ...commonOptions(settings), ...node, ...tlsOf(node, settings) };
  return silent(new Redis({ ...options, lazyConnect: true, ...more }));
}

/**
 * Opens a connection.
 *
 * @throws ConnectionFailed with the cause, which the library's own error omits
 */
export async function open(connection: Redis): Promise<void> {
  const { host = '', port = 0 } = connection.options;
  let cause: Error | undefined;
  const note = (error: Error): void => void (cause ??= inWords(error));
  connection.on('error', note);
  try {
    await connection.connect();
    await refuseLoading(connection);
  } catch (error) {
    const isReply = error instanceof ReplyError || error instanceof Loading;
    throw new ConnectionFailed(
      addressText({ host, port }),
      cause ?? (isReply ? (error as Error) : undefined),
    );
  } finally {
    connection.off('error', note);
  }
}

class Loading extends Error {}

/** @throws Loading while the server loads its data, and refuses most commands */
async function refuseLoading(connection: Redis): Promise<void> {
  if (/^loading:1/m.test(await connection.info('persistence')))
    throw new Loading('the server is loading its data');
}

/**
 * Creates a connection to a sentinel. It reconnects whenever it is lost. Sentinels do not have the
 * store's user, so it sends no credentials.
 */
export function connectionToSentinel(address: RedisAddress, settings: RedisSettings, timeout: number): Redis {
  return watcher(address, { ...settings, username: null, password: null }, timeout);
}

/**
 * Creates a connection to a cluster node, for questions about the
 * cluster. It reconnects whenever lost.
 */
export function connectionToClusterNode(address: RedisAddress, settings: RedisSettings, timeout: number): Redis {
  return watcher(address, settings, timeout);
} // prettier-ignore

function watcher(address: RedisAddress, settings: RedisSettings, timeout: number): Redis {
  const redis = new Redis({
    ...commonOptions(settings),
    ...address,
    ...tlsOf(address, settings),
    commandTimeout: timeout,
    connectTimeout: timeout,
    retryStrategy: () => {
      try {
        // The certificates may have been renewed since the connection was opened.
        Object.assign(redis.options, tlsOf(address, settings));
      } catch {
        // They are being replaced; the earlier ones may still be accepted.
      }
      return RECONNECT_MS;
    },
  });
  return silent(redis);
}

/** Why a connection that reconnects by itself was last lost or not opened. */
const lastErrors = new WeakMap<Redis, Error>();

/**
 * Keeps error events as causes. Commands report their own errors; without a listener, each would be
 * printed.
 */
function silent(redis: Redis): Redis {
  redis.on('connect', () => lastErrors.delete(redis));
  return redis.on('error', (error: Error) => lastErrors.set(redis, inWords(error)));
}

/** Replaces the library's error about bytes of another protocol. */
function inWords(error: Error): Error {
  if (!error.message.startsWith('Unknown RESP type')) return error;
  return new Error('the server does not speak the Redis protocol; is TLS or the port wrong?', {
    cause: error,
  });
}

/**
 * Handles the failed question to a sentinel or cluster node: reconnects after a timeout, because a
 * connection that was cut off silently would not answer for minutes.
 *
 * @returns the failure with the server's address and the cause, which the library's error omits
 */
export function questionFailed(connection: Redis, error: unknown): ConnectionFailed {
  if (connection.status === 'ready' && error instanceof Error && error.message === 'Command timed out')
    connection.disconnect(true);
  const { host = '', port = 0 } = connection.options;
  const cause = lastErrors.get(connection) ?? (isUnsent(error) ? undefined : (error as Error));
  return new ConnectionFailed(addressText({ host, port }), cause);
}

/** Whether the library refused a command at once because it has no connection. */
export function isUnsent(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("Stream isn't writeable");
}

/** Parses an address that was validated with the configuration. */
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

/** Returns the TLS option for a connection to a server; nothing without TLS. */
function tlsOf({ host, tls }: RedisNode, settings: RedisSettings): { tls?: ConnectionOptions } {
  return settings.tls === null && tls === undefined ? {} : { tls: tlsOptions(settings.tls, host) };
}
