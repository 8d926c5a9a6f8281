import { setTimeout as sleep } from 'node:timers/promises';
import { checkServerIdentity } from 'node:tls';
import {
  type ClientBase,
  type ClientConfig,
  DatabaseError,
  Pool,
  type PoolClient,
  type QueryArrayConfig,
} from 'pg';
import type { Config } from '../../config/schema/config.js';
import { newId } from '../../domain/secret.js';
import { inTime } from '../../util/async.js';
import { MAX_TIMER_MS } from '../../util/time.js';
import type { Changing } from '../core/kv.js';
import { OutcomeUnknown, StoreUnavailable } from '../faults.js';
import { Schema } from './schema.js';
import { parsePostgresUrl } from '../../domain/urls.js';
import { ConnectionFailed } from '../../util/system-error.js';
import { tlsOptions } from '../tls.js';

/** The settings of `store` with `type: postgres` that concern its connections. */
export type PostgresSettings = Omit<Extract<Config['store'], { type: 'postgres' }>, 'type' | 'sealing_key'>;

/** Timeout of a change, as a multiple of that of a query: giving it up late costs less. */
const CHANGE_TIMES = 4;
/** How long to ask about an unanswered change, and how often, in milliseconds. */
const CONFIRM_MS = 5_000;
const CONFIRM_AGAIN_MS = 100;
const IDLE_MS = 60_000;
/**
 * How long an unanswered connection is kept, in milliseconds. A busy server answers late, and opening
 * another connection would keep it busier.
 */
const ABANDONED_MS = 10_000;

type Row = readonly unknown[];

/** Runs statements over a bounded number of connections. Every failure is a {@link StoreUnavailable}. */
export class PostgresClient {
  readonly settings: PostgresSettings;
  readonly schema: Schema;
  /** Makes each change of this process. */
  changing: Changing = async (_, make) => make();
  readonly #pool: Pool;
  readonly #changeTimeout: number;
  /** Why the server could not be reached at the latest attempt. */
  #fault: StoreUnavailable | undefined;
  #isTrying = false;

  constructor(settings: PostgresSettings) {
    this.settings = settings;
    this.schema = new Schema(settings.schema);
    this.#changeTimeout = Math.min(settings.command_timeout * CHANGE_TIMES, MAX_TIMER_MS);
    this.#pool = new Pool({
      ...connectionOptions(settings),
      max: settings.connections,
      idleTimeoutMillis: IDLE_MS,
      // oxlint-disable-next-line typescript/no-misused-promises -- the pool waits for it
      onConnect: async (connection) => refuseStandby(connection, settings.command_timeout),
    });
    // A connection that is lost while nobody uses it, or before its first query, is replaced.
    this.#pool.on('error', () => undefined);
    this.#pool.on('connect', (connection) => connection.on('error', () => undefined));
  }

  /**
   * Runs a statement that may run twice.
   *
   * @throws StoreUnavailable
   */
  async query(text: string, values: readonly unknown[] = [], timeout?: number): Promise<readonly Row[]> {
    try {
      return await this.#run(await this.#connection(), text, values, timeout);
    } catch (error) {
      // The server may have been restarted since the connection was last used.
      if (error instanceof StoreUnavailable || isRefused(error) || error instanceof TimedOut)
        throw asUnavailable(error);
    }
    return this.#run(await this.#connection(), text, values, timeout).catch((error: unknown) => {
      throw asUnavailable(error);
    });
  }

  /**
   * Makes a change once. If its reply is lost, the server is asked whether it was made; from then on, it
   * cannot be made any more.
   *
   * @param values the arguments of the function, without the mark
   * @returns the revision; null if a record has another one than expected
   * @throws StoreUnavailable; OutcomeUnknown if it was sent and its outcome is unknown
   */
  async commit(values: readonly unknown[]): Promise<string | null> {
    const mark = newId();
    const all = [mark, ...values];
    const text = `SELECT ${this.schema.commit}(${all.map((_, i) => `$${i + 1}`).join()})`;
    const connection = await this.#connection();
    try {
      const [row] = await this.#run(connection, text, all, this.#changeTimeout);
      return (row?.[0] ?? null) as string | null;
    } catch (error) {
      if (CONFLICTS.includes(codeOf(error))) return null;
      if (isRefused(error)) throw asUnavailable(error);
      return this.#settle(mark, error);
    }
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }

  /** Determines the outcome of a change whose reply did not arrive. @param cause why it did not */
  async #settle(mark: string, cause: unknown): Promise<string> {
    for (const until = performance.now() + CONFIRM_MS; performance.now() < until;) {
      const [row] = await this.query(this.schema.giveUp, [mark], this.#changeTimeout).catch(() => []);
      if (row?.[0] === '0') throw asUnavailable(cause);
      if (row !== undefined) return row[0] as string;
      await sleep(CONFIRM_AGAIN_MS);
    }
    throw new OutcomeUnknown(reasonOf(cause), { cause });
  }

  /**
   * Returns a free connection. While the server cannot be reached, one attempt at a time finds out
   * whether it is back, and all others fail at once.
   */
  async #connection(): Promise<PoolClient> {
    if (this.#fault !== undefined && this.#isTrying) throw this.#fault;
    this.#isTrying = true;
    try {
      const { options, idleCount, totalCount } = this.#pool;
      // The certificates may have been renewed.
      if (idleCount === 0 && totalCount < options.max && options.ssl !== false)
        options.ssl = connectionOptions(this.settings).ssl ?? false;
      const connection = await this.#pool.connect();
      this.#fault = undefined;
      return connection;
    } catch (error) {
      const { options, totalCount } = this.#pool;
      if (totalCount >= options.max)
        throw new StoreUnavailable(`PostgreSQL is unavailable (all ${options.max} connections are in use)`);
      throw (this.#fault = asUnavailable(asConnectionFailed(options, error)));
    } finally {
      this.#isTrying = false;
    }
  }

  /** Runs a statement, and frees its connection when the answer arrives, even if that is too late. */
  async #run(
    connection: PoolClient,
    text: string,
    values: readonly unknown[],
    timeout = this.settings.command_timeout,
  ): Promise<readonly Row[]> {
    const answer = connection.query<unknown[]>({
      text,
      // Without values, a text may contain several statements.
      ...(values.length === 0 ? {} : { values: [...values] }),
      rowMode: 'array',
      query_timeout: Math.max(timeout, ABANDONED_MS),
    } as QueryArrayConfig);
    answer.then(
      () => connection.release(),
      // One that was lost, unanswered, or is to a standby now is of no use any more.
      (error: unknown) => connection.release(!isRefused(error) || codeOf(error) === READ_ONLY),
    );
    return (await inTime(answer, timeout, () => new TimedOut())).rows;
  }
}

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
async function refuseStandby(connection: ClientBase, timeout: number): Promise<void> {
  const { rows } = await connection.query({
    text: 'SELECT pg_is_in_recovery()',
    rowMode: 'array',
    query_timeout: timeout,
  } as QueryArrayConfig);
  if (rows[0]?.[0] !== false) throw new Error(AT_STANDBY);
}

const AT_STANDBY = 'the server is a standby';
const EMPTY = 'the store is empty: start a server or run "latchkey apply" to begin one, or restore it';

const FAULTS: Readonly<Record<string, string>> = {
  '42501': 'the PostgreSQL user lacks a permission of those in docs/storage.md',
  // The mark of a change that was given up is there.
  '23505': 'the change was given up',
};
/** Codes of a missing schema, table or function. */
const MISSING = ['3F000', '42P01', '42883'];
/** Codes of changes that met others in a way that one of them has to be repeated. */
const CONFLICTS = ['40001', '40P01'];
/** Code of a write on a server that only repeats another one by now. */
const READ_ONLY = '25006';

/** The code of an error that the server sent. */
export function codeOf(error: unknown): string {
  return (error instanceof DatabaseError ? error.code : undefined) ?? '';
}

/**
 * Whether the server refused a statement, which therefore changed nothing. If it ends the connection
 * (classes 08 and 57P), it may have made the change before.
 */
function isRefused(error: unknown): boolean {
  return /^(?!08|57P)./.test(codeOf(error));
}

/** Whether there is no such schema or table. */
export function isMissing(error: unknown): boolean {
  return MISSING.includes(codeOf(error));
}

/** The server did not answer in time. */
class TimedOut extends Error {
  override readonly message = 'no response in time';
}

/** Converts an error into the one that a caller of the store gets. */
function asUnavailable(error: unknown): StoreUnavailable {
  if (error instanceof StoreUnavailable) return error;
  if (isMissing(error)) return new StoreUnavailable(EMPTY, { cause: error });
  const fault = FAULTS[codeOf(error)] ?? 'PostgreSQL is unavailable';
  return new StoreUnavailable(`${fault} (${reasonOf(error)})`, { cause: error });
}

/** The error of a store whose tables hold nothing, not even its mark. */
export function emptied(): StoreUnavailable {
  return new StoreUnavailable(EMPTY);
}

export function reasonOf(error: unknown): string {
  if (codeOf(error) === READ_ONLY) return AT_STANDBY;
  return error instanceof Error ? error.message : String(error);
}
