import type { Redis } from 'ioredis';
import { newId } from '../../domain/secret.js';
import { inTime } from '../../util/async.js';
import type { RedisClient } from './client.js';
import { connectionTo, open, type RedisSettings } from './connect.js';
import { type Attempt, COVER_MS, type Feed, HEARTBEAT_MS, Link } from '../link.js';
import { LEASE_MS, type MasterSession, readHistory, readIdentity } from './session.js';

/** The channel on which Redis announces changed keys to RESP2 clients. */
const CHANNEL = '__redis__:invalidate';
/** How long the cache is trusted after the latest proof where a failover is bridged, milliseconds. */
const COVER_BY_FAILOVER_MS = 1_900;
/** How often a write is sent that has to come back over the link, and how long it may take. */
const PROBE_MS = 2_000;
const PROBE_LOST_MS = 6_000;
/** How long the first probe may take, in milliseconds. Nothing is cached before it is back. */
const FIRST_PROBE_MS = 1_000;
const NO_PROBE = 'no notification of a test write; the link is to another node';

/**
 * `CLIENT TRACKING` in broadcast mode on one connection, redirected to a subscriber on another: the
 * library does not surface the pushes of RESP3. A write over the session must come back over it.
 */
export class InvalidationLink {
  readonly #client: RedisClient;
  readonly #settings: RedisSettings;
  readonly #names: readonly string[];
  readonly #feed: Feed;
  /** The key of which only this link is notified. */
  readonly #probeName = `link_probe:${newId()}`;
  #probes = 0;
  #probed: () => void = () => undefined;
  readonly #link: Link;

  /** @param names prefixes of the keys to be notified of, without the prefix of the store */
  constructor(client: RedisClient, settings: RedisSettings, names: readonly string[], feed: Feed) {
    this.#client = client;
    this.#settings = settings;
    this.#names = names;
    this.#feed = feed;
    this.#link = new Link(async (attempt) => this.#hold(attempt), feed);
  }

  close(): void {
    this.#link.close();
  }

  /** Sets up both connections, and closes them when one of them is lost. */
  async #hold(attempt: Attempt): Promise<void> {
    const session = await this.#client.session();
    const connect = () => connectionTo(session.node, this.#settings, { commandTimeout: LEASE_MS });
    const connections = [connect(), connect()] as const;
    for (const connection of connections)
      connection.once('close', () => attempt.abort('the connection was closed'));
    const removeListener = session.onLost((reason) => attempt.abort(reason));
    try {
      await this.#holdUntilLost(attempt, session, ...connections);
    } finally {
      removeListener();
      for (const connection of connections) connection.disconnect();
    }
  }

  async #holdUntilLost(
    { up, abort, lost }: Attempt,
    session: MasterSession,
    subscriber: Redis,
    tracker: Redis,
  ): Promise<void> {
    // A frozen or unreachable server does not refuse connections.
    const left = lost.then((reason) => Promise.reject(new Error(reason)));
    await Promise.race([left, Promise.all([subscriber, tracker].map(open))]);
    const processes = [await readIdentity(subscriber), await readIdentity(tracker)];
    const id = await subscriber.client('ID');
    // Only this event passes the keys as a list; "message" joins them into one string.
    subscriber.on('messageBuffer', (_channel: Buffer, keys: unknown) => this.#onKeys(keys));
    await subscriber.subscribe(CHANNEL);
    const prefixes = [...this.#names, this.#probeName].flatMap((name) => ['PREFIX', this.#client.key(name)]);
    await tracker.call('CLIENT', 'TRACKING', 'ON', 'REDIRECT', id, 'BCAST', ...prefixes);
    const askedAt = performance.now();
    const back = new Promise<void>((resolve) => (this.#probed = resolve));
    await Promise.all([this.#probe(), inTime(back, FIRST_PROBE_MS, () => new Error(NO_PROBE))]);
    if (processes.some(({ runId }) => runId !== session.identity.runId))
      throw new Error('the link is to another server');
    up(this.#coveredUntil(session, askedAt));
    const stop = this.#keepChecking(session, subscriber, tracker, abort);
    await lost.finally(stop);
  }

  async #probe(): Promise<void> {
    const sentAt = Date.now();
    const time = await this.#client.script('probeLink', [this.#probeName, ++this.#probes], 'urgent');
    const [seconds, micros] = (time as string[]).map(Number) as [number, number];
    // The clock was read about half-way between the request and its reply.
    this.#feed.emit('skew', seconds * 1000 + micros / 1000 - (sentAt + Date.now()) / 2);
  }

  #keepChecking(
    session: MasterSession,
    subscriber: Redis,
    tracker: Redis,
    abort: Attempt['abort'],
  ): () => void {
    let sentAt = performance.now();
    let backAt = sentAt;
    this.#probed = () => (backAt = performance.now());
    const heartbeat = setInterval(() => {
      const now = performance.now();
      if (now - backAt > PROBE_LOST_MS) abort('no notifications of test writes');
      if (now - sentAt >= PROBE_MS) {
        sentAt = now;
        // A failed write is noticed by not coming back.
        this.#probe().catch(() => undefined);
      }
      this.#check(session, subscriber, tracker).catch((error: unknown) => abort(String(error)));
    }, HEARTBEAT_MS);
    return () => clearInterval(heartbeat);
  }

  /** Notifications of earlier changes arrive before the reply to the ping. */
  async #check(session: MasterSession, subscriber: Redis, tracker: Redis): Promise<void> {
    const askedAt = performance.now();
    await Promise.all([subscriber.ping(), readHistory(tracker)]);
    this.#feed.emit('alive', this.#coveredUntil(session, askedAt));
  }

  #coveredUntil({ confirmedAt }: MasterSession, askedAt: number): number {
    const cover = this.#settings.url === null ? COVER_BY_FAILOVER_MS : COVER_MS;
    return Math.min(askedAt, confirmedAt) + cover;
  }

  #onKeys(keys: unknown): void {
    const { length } = this.#client.prefix;
    const names = Array.isArray(keys) ? keys.map((key) => String(key).slice(length)) : null;
    if (names?.includes(this.#probeName) === true) this.#probed();
    if (names === null || names.some((name) => name !== this.#probeName)) this.#feed.receive(names);
  }
}
