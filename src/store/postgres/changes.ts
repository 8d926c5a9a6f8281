import { Client } from 'pg';
import { newId } from '../../domain/secret.js';
import { inTime } from '../../util/async.js';
import { type Attempt, COVER_MS, type Feed, HEARTBEAT_MS, Link } from '../link.js';
import { StoreUnavailable } from '../faults.js';
import { asConnectionFailed, connectionOptions, emptied, type PostgresClient, reasonOf } from './client.js';
import { FEED } from './schema.js';

/**
 * How often it is checked that the queries of this process go to the same server, and how long this may
 * fail, in milliseconds.
 */
const COMPARE_MS = 1_000;
const COMPARE_LOST_MS = 6_000;

/** What a probe begins with. */
const PROBE = 'probe ';
const NO_PROBE =
  'no notification of a test; if store.url leads to a connection pooler, set store.listener_url to the server itself';

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
  readonly #feed: Feed;
  readonly #link: Link;

  constructor(client: PostgresClient, feed: Feed) {
    this.#client = client;
    this.#feed = feed;
    this.#link = new Link(async (attempt) => this.#hold(attempt), feed);
  }

  close(): void {
    this.#link.close();
  }

  async #hold(attempt: Attempt): Promise<void> {
    const { settings } = this.#client;
    const config = connectionOptions(settings, settings.listener_url ?? settings.url);
    const connection = new Client({ ...config, query_timeout: COVER_MS });
    connection.on('error', (error) => attempt.abort(error.message));
    connection.on('end', () => attempt.abort('the connection was closed'));
    let stop: (() => void) | undefined;
    try {
      await connection.connect().catch((error: unknown) => {
        throw asConnectionFailed(config, error);
      });
      stop = await this.#listen(attempt, connection);
      await attempt.lost;
    } finally {
      stop?.();
      connection.end().catch(() => undefined);
    }
  }

  /** Returns a function that stops the checks. */
  async #listen({ up, abort }: Attempt, connection: Client): Promise<() => void> {
    const received = new Notifications((names) => this.#feed.receive(names), abort);
    connection.on('notification', ({ payload = '' }) => received.receive(payload));
    // It fails on a standby.
    await connection.query(`LISTEN "${this.#client.schema.channel}"`);
    await this.#probe(received);
    const askedAt = performance.now();
    const { number, server } = await this.#stateOn(connection);
    received.begin(number);
    await this.#compare(server);
    up(askedAt + COVER_MS);
    return this.#keepChecking(connection, server, received, abort);
  }

  #keepChecking(
    connection: Client,
    server: string,
    received: Notifications,
    abort: Attempt['abort'],
  ): () => void {
    const began = performance.now();
    let [aliveAt, comparedAt, triedAt] = [began, began, began];
    const check = async (): Promise<void> => {
      const now = performance.now();
      if (now - comparedAt > COMPARE_LOST_MS) throw new Error('the store does not answer queries');
      if (now - triedAt >= COMPARE_MS) {
        triedAt = now;
        this.#compare(server).then(
          () => (comparedAt = now),
          (error: unknown) => error instanceof StoreUnavailable || abort(reasonOf(error)),
        );
      }
      const { number } = await this.#stateOn(connection);
      if (number <= received.latest) {
        aliveAt = now;
        this.#feed.emit('alive', now + COVER_MS);
      } else if (now - aliveAt > COVER_MS) throw new Error('notifications do not arrive');
    };
    const heartbeat = setInterval(() => {
      check().catch((error: unknown) => abort(reasonOf(error)));
    }, HEARTBEAT_MS);
    return () => clearInterval(heartbeat);
  }

  /** Checks that what is sent over the connections of queries arrives. */
  async #probe(received: Notifications): Promise<void> {
    const name = newId();
    const arrived = new Promise<void>((resolve) => {
      received.probed = (found) => found === name && resolve();
    });
    const sent = this.#client.query('SELECT pg_notify($1, $2)', [this.#client.schema.channel, PROBE + name]);
    await Promise.all([sent, inTime(arrived, COVER_MS, () => new Error(NO_PROBE))]);
  }

  async #stateOn(connection: Client): Promise<State> {
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
    this.#feed.emit('skew', Number(row[1]) - (sentAt + Date.now()) / 2);
  }
}

/** The notifications that a link receives. */
class Notifications {
  /** Called with the name of each probe, of any process. */
  probed: (name: string) => void = () => undefined;
  readonly #changed: Feed['receive'];
  readonly #abort: Attempt['abort'];
  #latest: number | undefined;

  constructor(changed: Feed['receive'], abort: Attempt['abort']) {
    this.#changed = changed;
    this.#abort = abort;
  }

  get latest(): number {
    return this.#latest ?? 0;
  }

  /** Expects all later ones. Earlier ones may still arrive. */
  begin(number: number): void {
    this.#latest = Math.max(this.latest, number);
  }

  receive(payload: string): void {
    if (payload.startsWith(PROBE)) {
      this.probed(payload.slice(PROBE.length));
      return;
    }
    const [, number = '', text = ''] = /^(\d+) (\[.*\])$/s.exec(payload) ?? [];
    if (this.#latest !== undefined && Number(number) > this.#latest + 1)
      this.#abort('a notification is missing');
    this.#latest = Math.max(this.latest, Number(number));
    try {
      // null stands for all names.
      const names = JSON.parse(text) as (string | null)[];
      this.#changed(names.includes(null) ? null : (names as string[]));
    } catch {
      this.#abort('a notification is not from Latchkey');
    }
  }
}
