import type { Redis } from 'ioredis';
import { newId } from '../../domain/secret.js';
import type { RedisClient } from './client.js';
import { connectionTo, nodeOf, open } from './connect.js';
import { LEASE_MS, readHistory, readIdentity } from './identity.js';
import type { MasterSession } from './session.js';
import type { RedisSettings } from './settings.js';

/** The channel on which Redis announces changed keys to RESP2 clients. */
const CHANNEL = '__redis__:invalidate';
/** How often both connections are pinged, in milliseconds. */
const HEARTBEAT_MS = 250;
/** How long the cache is trusted after the latest proof; longer where a failover is bridged. */
const COVER_MS = LEASE_MS;
const COVER_BY_FAILOVER_MS = 1_900;
const FIRST_RETRY_MS = 50;
const MAX_RETRY_MS = 250;
/** How often a write is sent that has to come back over the link, and how long it may take. */
const PROBE_MS = 2_000;
const PROBE_LOST_MS = 6_000;
/** How long the first probe may take, in milliseconds. Nothing is cached before it is back. */
const FIRST_PROBE_MS = 1_000;
const NOT_UP_MS = 5_000;

export interface InvalidationEvents {
  /** Every change is received from now on, for certain until a time (`performance.now()`). */
  readonly up: (until: number) => void;
  /** Changes are still received: both connections answered and the master is confirmed. */
  readonly alive: (until: number) => void;
  readonly lost: (reason: string) => void;
  readonly failed: () => void;
  /** The link has been down for some seconds; called once until it is up. */
  readonly notUp: (cause: Error) => void;
  /** How far Redis's clock is ahead of this one, in milliseconds; measured with each probe. */
  readonly skew: (ms: number) => void;
  /** Changed keys, without the prefix; null if any key may have changed (FLUSHALL). */
  readonly changed: (names: readonly string[] | null) => void;
}

/**
 * `CLIENT TRACKING` in broadcast mode on one connection, redirected to a subscriber on another: the
 * library does not surface the pushes of RESP3. A write over the session must come back over it.
 */
export class InvalidationLink {
  readonly #client: RedisClient;
  readonly #settings: RedisSettings;
  readonly #names: readonly string[];
  readonly #events: InvalidationEvents;
  readonly #probeName = `link_probe:${newId()}`;
  #probes = 0;
  #probed: () => void = () => undefined;
  #closed = false;
  #abort: (reason: string) => void = () => undefined;

  constructor(client: RedisClient, settings: RedisSettings, names: readonly string[], events: InvalidationEvents) {
    this.#client = client;
    this.#settings = settings;
    this.#names = names;
    this.#events = events;
    void this.#run();
  } // prettier-ignore

  close(): void {
    this.#closed = true;
    this.#abort('closed');
  }

  async #run(): Promise<void> {
    let downSince = performance.now();
    let reported = false;
    let latest = new Error('still connecting');
    // Connecting may hang or fail, so a timer of its own checks how long the link has been down.
    const watch = setInterval(() => {
      if (reported || performance.now() - downSince < NOT_UP_MS) return;
      reported = true;
      this.#events.notUp(latest);
    }, HEARTBEAT_MS).unref();
    for (let failures = 0; !this.#closed;) {
      const connections: Redis[] = [];
      let isUp = false;
      latest = await this.#hold(connections, (until) => {
        isUp = reported = true;
        failures = 0;
        this.#events.up(until);
      }).then(
        (reason) => new Error(reason),
        (error: unknown) => (error instanceof Error ? error : new Error(String(error))),
      );
      for (const connection of connections) connection.disconnect();
      if (isUp) {
        this.#events.lost(latest.message);
        downSince = performance.now();
        reported = false;
      } else if (!this.#closed) this.#events.failed();
      failures += 1;
      await new Promise((wait) =>
        setTimeout(wait, Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** failures)).unref(),
      );
    }
    clearInterval(watch);
  }

  /** Resolves to the reason when a connection is lost. */
  async #hold(connections: Redis[], onUp: (until: number) => void): Promise<string> {
    const session = await this.#client.session();
    const [subscriber, tracker] = [this.#connectionTo(session), this.#connectionTo(session)];
    connections.push(subscriber, tracker);
    const lost = new Promise<string>((resolve) => {
      this.#abort = resolve;
      for (const connection of connections)
        connection.once('close', () => resolve('the connection was closed'));
    });
    const removeListener = session.onLost((reason) => this.#abort(reason));
    try {
      return await this.#holdUntil(lost, session, subscriber, tracker, onUp);
    } finally {
      removeListener();
    }
  }

  async #holdUntil(
    lost: Promise<string>,
    session: MasterSession,
    subscriber: Redis,
    tracker: Redis,
    onUp: (until: number) => void,
  ): Promise<string> {
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
    await this.#firstProbe();
    if (processes.some(({ runId }) => runId !== session.identity.runId))
      throw new Error('the link is to another server');
    onUp(this.#coveredUntil(session, askedAt));
    const stop = this.#keepChecking(session, subscriber, tracker);
    return lost.finally(stop);
  }

  async #firstProbe(): Promise<void> {
    const back = new Promise<void>((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error('no notification of a test write; the link is to another node')),
        FIRST_PROBE_MS,
      );
      this.#probed = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    await Promise.all([this.#probe(), back]);
  }

  async #probe(): Promise<void> {
    const sentAt = Date.now();
    const time = (await this.#client.script(
      'probeLink',
      [this.#probeName, ++this.#probes],
      'urgent',
    )) as number[];
    const [seconds, micros] = time.map(Number);
    // The clock was read about half-way between the request and its reply.
    if (seconds !== undefined && micros !== undefined)
      this.#events.skew(seconds * 1000 + micros / 1000 - (sentAt + Date.now()) / 2);
  }

  #keepChecking(session: MasterSession, subscriber: Redis, tracker: Redis): () => void {
    let sentAt = performance.now();
    let backAt = sentAt;
    this.#probed = () => (backAt = performance.now());
    const heartbeat = setInterval(() => {
      const now = performance.now();
      if (now - backAt > PROBE_LOST_MS) this.#abort('no notifications of test writes');
      if (now - sentAt >= PROBE_MS) {
        sentAt = now;
        // A failed write is noticed by not coming back.
        this.#probe().catch(() => undefined);
      }
      this.#check(session, subscriber, tracker).catch((error: unknown) => this.#abort(String(error)));
    }, HEARTBEAT_MS);
    return () => clearInterval(heartbeat);
  }

  /** A configured URL is used as it is. */
  #connectionTo({ node }: MasterSession): Redis {
    const { url } = this.#settings;
    return connectionTo(url === null ? node : nodeOf(url), this.#settings, { commandTimeout: LEASE_MS });
  }

  /** Notifications of earlier changes arrive before the reply to the ping. */
  async #check(session: MasterSession, subscriber: Redis, tracker: Redis): Promise<void> {
    const askedAt = performance.now();
    await Promise.all([subscriber.ping(), readHistory(tracker)]);
    this.#events.alive(this.#coveredUntil(session, askedAt));
  }

  #coveredUntil({ lease }: MasterSession, askedAt: number): number {
    const cover = this.#settings.url === null ? COVER_BY_FAILOVER_MS : COVER_MS;
    return Math.min(askedAt, lease.askedAt) + cover;
  }

  #onKeys(keys: unknown): void {
    const { length } = this.#client.prefix;
    const names = Array.isArray(keys) ? keys.map((key) => String(key).slice(length)) : null;
    if (names?.includes(this.#probeName) === true) this.#probed();
    if (names === null || names.some((name) => name !== this.#probeName)) this.#events.changed(names);
  }
}
