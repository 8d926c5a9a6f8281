import pg from 'pg';
import { type Attempt, COVER_MS, HEARTBEAT_MS, Link, type LinkEvents } from '../link.js';
import { StoreUnavailable } from '../faults.js';
import type { PostgresClient } from './client.js';
import { asConnectionFailed, connectionOptions } from './connect.js';
import { emptied, reasonOf } from './failures.js';
import { FEED } from './schema.js';

/**
 * How often it is checked that the queries of this process go to the same server, and how long this may
 * fail, in milliseconds.
 */
const COMPARE_MS = 1_000;
const COMPARE_LOST_MS = 6_000;

/** When the server was started tells one from another. */
const SERVER = 'extract(epoch FROM pg_postmaster_start_time())::text';

/** The state of the feed, and which server process reports it. */
interface State {
  /** The number of the latest notification. */
  readonly number: number;
  readonly server: string;
}

/**
 * Receives notifications of changes: `LISTEN` on a connection of its own, because a connection pooler
 * does not keep one for a process.
 *
 * Notifications are numbered in the order in which they are sent. The cache is covered by each
 * question to the server up to whose answer all numbers have arrived; a gap ends the link.
 */
export class ChangesLink {
  readonly #client: PostgresClient;
  readonly #events: LinkEvents;
  readonly #link: Link;

  constructor(client: PostgresClient, events: LinkEvents) {
    this.#client = client;
    this.#events = events;
    this.#link = new Link(async (attempt) => this.#hold(attempt), events);
  }

  close(): void {
    this.#link.close();
  }

  async #hold(attempt: Attempt): Promise<void> {
    const { settings } = this.#client;
    const config = connectionOptions(settings, settings.listener_url ?? settings.url);
    const connection = new pg.Client({ ...config, query_timeout: COVER_MS });
    connection.on('error', (error) => attempt.abort(error.message));
    connection.on('end', () => attempt.abort('the connection was closed'));
    let stop: () => void = () => undefined;
    try {
      await connection.connect().catch((error: unknown) => {
        throw asConnectionFailed(config, error);
      });
      stop = await this.#listen(attempt, connection);
      await attempt.lost;
    } finally {
      stop();
      connection.end().catch(() => undefined);
    }
  }

  /** Returns a function that stops the checks. */
  async #listen({ up, abort }: Attempt, connection: pg.Client): Promise<() => void> {
    const { schema } = this.#client;
    let latest: number | undefined;
    connection.on('notification', ({ payload = '' }) => {
      const [, number = '', names = '[null]'] = /^(\d+) (.*)$/s.exec(payload) ?? [];
      if (latest !== undefined && Number(number) > latest + 1) abort('a notification is missing');
      latest = Math.max(latest ?? 0, Number(number));
      this.#notified(JSON.parse(names) as (string | null)[]);
    });
    // LISTEN fails on a standby.
    await connection.query(`LISTEN "${schema.channel}"`);
    const askedAt = performance.now();
    const { number, server } = await this.#stateOn(connection);
    // What was sent since LISTEN may still arrive, with earlier numbers.
    latest = Math.max(latest ?? 0, number);
    await this.#compare(server);
    up(askedAt + COVER_MS);
    let [aliveAt, comparedAt, triedAt] = [askedAt, askedAt, askedAt];
    const check = async (): Promise<void> => {
      const now = performance.now();
      if (now - comparedAt > COMPARE_LOST_MS) throw new Error('the store does not answer queries');
      if (now - triedAt >= COMPARE_MS) {
        triedAt = now;
        this.#compare(server).then(
          () => (comparedAt = now),
          (error: unknown) => error instanceof StoreUnavailable || abort(String(error)),
        );
      }
      const state = await this.#stateOn(connection);
      if (state.number > (latest ?? 0) && now - aliveAt > COVER_MS)
        throw new Error('notifications do not arrive');
      if (state.number > (latest ?? 0)) return;
      aliveAt = now;
      this.#events.alive(now + COVER_MS);
    };
    const heartbeat = setInterval(() => {
      check().catch((error: unknown) => abort(reasonOf(error)));
    }, HEARTBEAT_MS);
    return () => clearInterval(heartbeat);
  }

  async #stateOn(connection: pg.Client): Promise<State> {
    const { records } = this.#client.schema;
    const { rows } = await connection.query<[string, string]>({
      text: `SELECT rev, ${SERVER} FROM ${records} WHERE key = '${FEED}'`,
      rowMode: 'array',
    });
    if (rows[0] === undefined) throw emptied();
    return { number: Number(rows[0][0]), server: rows[0][1] };
  }

  /** Checks that queries go to the same server, and measures its clock. */
  async #compare(server: string): Promise<void> {
    const sentAt = Date.now();
    const [row] = await this.#client.query(`SELECT ${SERVER}, extract(epoch FROM clock_timestamp()) * 1000`);
    if (row?.[0] !== server) throw new Error('the link is to another server');
    // The clock was read about half-way between the request and its reply.
    this.#events.skew(Number(row[1]) - (sentAt + Date.now()) / 2);
  }

  #notified(names: readonly (string | null)[]): void {
    const known = names.filter((name) => name !== null);
    this.#events.changed(known.length === names.length ? known : null);
  }
}
