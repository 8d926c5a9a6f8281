import { checkServerIdentity } from 'node:tls';
import type { ClientBase, ClientConfig, QueryArrayConfig } from 'pg';
import { parsePostgresUrl } from '../../domain/urls.js';
import { ConnectionFailed } from '../../util/system-error.js';
import { tlsOptions } from '../tls.js';
import { AT_STANDBY } from './failures.js';
import type { PostgresSettings } from './settings.js';

/** Timeout for a connection, in milliseconds. */
const CONNECT_TIMEOUT_MS = 2_000;

/** Returns the options of a connection, with the TLS files as they are now. */
export function connectionOptions(settings: PostgresSettings, url = settings.url): ClientConfig {
  const server = parsePostgresUrl(url);
  if (server === undefined) throw new RangeError('a URL of PostgreSQL that was not checked');
  const { host, port, database, user, password = settings.password, tls } = server;
  const name = settings.tls?.server_name ?? null;
  const ssl = {
    ...tlsOptions(settings.tls, host),
    // The library names the host to the server.
    ...(name === null ? {} : { checkServerIdentity: (_: string, certificate: Certificate) => checkServerIdentity(name, certificate) }),
  }; // prettier-ignore
  return {
    host,
    port,
    database,
    ...(user === undefined ? {} : { user }),
    ...(password === null ? {} : { password }),
    ssl: tls || settings.tls !== null ? ssl : false,
    application_name: 'latchkey',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
  };
}

type Certificate = Parameters<typeof checkServerIdentity>[1];

/**
 * Wraps an error of a connection attempt, which does not name the server.
 *
 * @param config of the connection
 */
export function asConnectionFailed({ host, port }: ClientConfig, error: unknown): ConnectionFailed {
  const { message, code } = error as NodeJS.ErrnoException;
  const address = `${host}:${port}`;
  if (/timeout/i.test(message)) return new ConnectionFailed(address, undefined);
  // An error of the server has a code that says less than its message.
  const isSystem = /^(?:E|CERT_|DEPTH_|SELF_|UNABLE_)/.test(code ?? '');
  return new ConnectionFailed(address, isSystem ? (error as Error) : new Error(message, { cause: error }));
}

/** Refuses a server that only repeats another one: what it holds may be old. */
export async function refuseStandby(connection: ClientBase, timeout: number): Promise<void> {
  const { rows } = await connection.query({
    text: 'SELECT pg_is_in_recovery()',
    rowMode: 'array',
    query_timeout: timeout,
  } as QueryArrayConfig);
  if (rows[0]?.[0] !== false) throw new Error(AT_STANDBY);
}
