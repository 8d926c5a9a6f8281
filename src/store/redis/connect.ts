import type { ConnectionOptions } from 'node:tls';
import { Redis, type RedisOptions, ReplyError } from 'ioredis';
import type { Config } from '../../config/schema/config.js';
import { parseAddress, parseRedisUrl, type RedisAddress, type RedisNode } from '../../domain/urls.js';
import { ConnectionFailed } from '../../util/system-error.js';
import { tlsOptions } from '../tls.js';

/** One of `url`, `cluster` and `sentinel` is set. */
export type RedisSettings = Omit<
  Extract<Config['store'], { type: 'redis' }>,
  'type' | 'revocations' | 'sealing_key'
>;

export type RedisConnectionOptions = Omit<RedisOptions, 'replyMapping'>;

const CONNECT_TIMEOUT_MS = 2_000;
/** Closing an abandoned connection may hang: the other side may be frozen. */
const DISCONNECT_TIMEOUT_MS = 50;
const RECONNECT_MS = 250;

/**
 * The library would queue commands while Redis is unreachable, resend them after a reconnect (a
 * failure would count twice) and wait for a reply without a limit.
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

/** Creates a connection that `connect()` opens. Once it is lost, it stays closed. */
export function connectionTo(
  node: RedisNode,
  settings: RedisSettings,
  more: RedisConnectionOptions = {},
): Redis {
  const options = { ...commonOptions(settings), ...node, ...tlsOf(node, settings) };
  return silent(new Redis({ ...options, lazyConnect: true, ...more }));
}

/** @throws ConnectionFailed with the cause, which the library's own error omits */
export async function open(connection: Redis): Promise<void> {
  const { host = '', port = 0 } = connection.options;
  let cause: Error | undefined;
  const note = (error: Error): void => void (cause ??= inWords(error));
  connection.on('error', note);
  try {
    await connection.connect();
    await refuseLoading(connection);
  } catch (error) {
    const reply = error instanceof ReplyError ? (error as Error) : undefined;
    throw new ConnectionFailed(addressText({ host, port }), cause ?? reply);
  } finally {
    connection.off('error', note);
  }
}

async function refuseLoading(connection: Redis): Promise<void> {
  if (/^loading:1/m.test(await connection.info('persistence')))
    throw new ReplyError('the server is loading its data');
}

/** Creates a connection that opens itself, and again when it is lost. */
export function connectionToElector(address: RedisAddress, settings: RedisSettings, timeout: number): Redis {
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

const lastErrors = new WeakMap<Redis, Error>();

/** Commands report their own errors; without a listener, each would be printed too. */
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
 * Reconnects after a timeout: a connection that was cut off silently would not answer for minutes.
 * Returns the failure with its cause, which the library's error omits.
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

function tlsOf({ host, tls }: RedisNode, settings: RedisSettings): { tls?: ConnectionOptions } {
  return settings.tls === null && tls === undefined ? {} : { tls: tlsOptions(settings.tls, host) };
}

export function addressText({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${host}:${port}`;
}
