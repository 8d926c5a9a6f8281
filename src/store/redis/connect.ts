import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import type { RedisSettings } from './settings.js';

/** One connection, or those to the nodes of a cluster. */
export type RedisConnection = Redis | Cluster;

/** Options of a connection. */
export type RedisConnectionOptions = Omit<RedisOptions, 'replyMapping'>;

const CONNECT_TIMEOUT_MS = 2_000;
const MAX_RECONNECT_MS = 1_000;
const FIRST_RECONNECT_MS = 50;

/**
 * Options for every connection. The library's defaults would queue commands while Redis is away, send commands
 * twice after a reconnect (a counted failure would count double), and wait for an answer without end.
 */
function commonOptions(settings: RedisSettings): RedisConnectionOptions {
  return {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: settings.command_timeout,
    connectTimeout: CONNECT_TIMEOUT_MS,
    retryStrategy: reconnectDelay,
    // A failover leaves connections to what is a replica by now.
    reconnectOnError: (error) => error.message.startsWith('READONLY'),
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
 * Opens a connection. It goes on trying until it is closed; a command meanwhile fails at once.
 *
 * @param more options of a connection of its own kind
 */
export function connect(settings: RedisSettings, more: RedisConnectionOptions = {}): RedisConnection {
  const options = { ...commonOptions(settings), ...more };
  const { url, cluster, sentinel } = settings;
  const connection =
    cluster !== null
      ? new Cluster(cluster.map(hostAndPort), {
          enableOfflineQueue: false,
          redisOptions: options,
          clusterRetryStrategy: reconnectDelay,
          slotsRefreshTimeout: CONNECT_TIMEOUT_MS,
          maxRedirections: 4,
        })
      : sentinel !== null
        ? new Redis({
            ...options,
            name: sentinel.master,
            sentinels: sentinel.nodes.map(hostAndPort),
            sentinelRetryStrategy: reconnectDelay,
          })
        : new Redis(url ?? '', options);
  // Faults are told by the commands that they meet; without a listener each would be printed.
  connection.on('error', () => undefined);
  return connection;
}

/** Opens a connection of its own to the node that holds a key: an invalidation link is made with one node. */
export async function connectToNodeOf(
  connection: RedisConnection,
  key: string,
  settings: RedisSettings,
  more: RedisConnectionOptions,
): Promise<Redis> {
  if (!(connection instanceof Cluster)) return connect(settings, more) as Redis;
  const slot = await connection.cluster('KEYSLOT', key);
  for (const [from, to, node] of await connection.cluster('SLOTS')) {
    if (slot < from || slot > to || node === undefined) continue;
    const [host, port] = node;
    const link = new Redis({ ...commonOptions(settings), ...more, host, port });
    link.on('error', () => undefined);
    return link;
  }
  throw new Error('no node of the cluster holds the slot');
}

function reconnectDelay(times: number): number {
  return Math.min(FIRST_RECONNECT_MS * times, MAX_RECONNECT_MS);
}

function hostAndPort(text: string): { host: string; port: number } {
  const { hostname, port } = new URL(`redis://${text}`);
  return { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? 6379 : Number(port) };
}

function tlsOptions({ ca, cert, key, server_name: name }: NonNullable<RedisSettings['tls']>): ConnectionOptions {
  return {
    ...(ca === null ? {} : { ca: readFileSync(ca) }),
    ...(cert === null ? {} : { cert: readFileSync(cert) }),
    ...(key === null ? {} : { key: readFileSync(key) }),
    ...(name === null ? {} : { servername: name }),
  };
} // prettier-ignore
