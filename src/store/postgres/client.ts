import { setTimeout as sleep } from 'node:timers/promises';
import { Pool, type PoolClient, type QueryArrayConfig } from 'pg';
import { newId } from '../../domain/secret.js';
import { MAX_TIMER_MS } from '../../util/time.js';
import { OutcomeUnknown, StoreUnavailable } from '../faults.js';
import { asConnectionFailed, connectionOptions, refuseStandby } from './connect.js';
import { asUnavailable, isConflict, isLost, isRefused, reasonOf, TimedOut } from './failures.js';
import { Schema } from './schema.js';
import type { PostgresSettings } from './settings.js';

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
  /** Called with the names of what this process ended for good (`revocations.ts`). */
  ended: (names: readonly string[]) => void = () => undefined;
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
      verify: (connection, done) => {
        refuseStandby(connection, settings.command_timeout).then(() => done(), done);
      },
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
      if (isConflict(error)) return null;
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
      (error: unknown) => connection.release(isLost(error)),
    );
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new TimedOut()), timeout);
    });
    try {
      return (await Promise.race([answer, late])).rows;
    } finally {
      clearTimeout(timer);
    }
  }
}
