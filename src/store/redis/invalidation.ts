import type { Redis } from 'ioredis';
import type { RedisClient } from './client.js';
import { connectToNodeOf } from './connect.js';
import type { RedisSettings } from './settings.js';

/** Where Redis tells of changed keys to clients that speak RESP2. */
const CHANNEL = '__redis__:invalidate';
/** Both connections are asked this often whether they live; a cut without a sign is found within twice that. */
const HEARTBEAT_MS = 500;
const FIRST_RETRY_MS = 50;
const MAX_RETRY_MS = 1_000;

/** What a link tells its cache. */
export interface InvalidationEvents {
  /** From now on every change is told. What was read before may have changed unseen. */
  readonly armed: () => void;
  /** Changes would still be told: both connections answered. */
  readonly alive: () => void;
  /** Changes are not told any more. */
  readonly lost: (reason: string) => void;
  /** Keys that changed, without the prefix; null when any may have (FLUSHALL). */
  readonly changed: (names: readonly string[] | null) => void;
}

/**
 * The push of changed keys from Redis: `CLIENT TRACKING` in broadcast mode on one connection, redirected to a
 * subscriber on another. The library does not surface the pushes of RESP3, so it takes two.
 *
 * When either connection fails, or is to a node that is no master any more, both are made anew.
 */
export class InvalidationLink {
  readonly #client: RedisClient;
  readonly #settings: RedisSettings;
  readonly #names: readonly string[];
  readonly #events: InvalidationEvents;
  #closed = false;
  #cut: (reason: string) => void = () => undefined;

  /** @param names beginnings of the keys to tell of, without the prefix */
  constructor(client: RedisClient, settings: RedisSettings, names: readonly string[], events: InvalidationEvents) {
    this.#client = client;
    this.#settings = settings;
    this.#names = names;
    this.#events = events;
    void this.#run();
  } // prettier-ignore

  close(): void {
    this.#closed = true;
    this.#cut('closed');
  }

  async #run(): Promise<void> {
    for (let failures = 0; !this.#closed;) {
      const connections: Redis[] = [];
      let armed = false;
      const reason = await this.#hold(connections, () => {
        armed = true;
        failures = 0;
        this.#events.armed();
      }).catch((error: unknown) => (error instanceof Error ? error.message : String(error)));
      for (const connection of connections) connection.disconnect();
      if (armed) this.#events.lost(reason);
      failures += 1;
      await new Promise((wait) =>
        setTimeout(wait, Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** failures)).unref(),
      );
    }
  }

  /** Arms both connections and resolves, to the reason, when one of them is lost. */
  async #hold(connections: Redis[], onArmed: () => void): Promise<string> {
    const [subscriber, tracker] = [await this.#connect(), await this.#connect()];
    connections.push(subscriber, tracker);
    const lost = new Promise<string>((resolve) => {
      this.#cut = resolve;
      for (const connection of connections) connection.once('close', () => resolve('the connection closed'));
    });
    await Promise.all(connections.map((connection) => connection.connect()));
    const id = await subscriber.client('ID');
    // Only this event has the keys as a list; "message" joins them into one text.
    subscriber.on('messageBuffer', (_channel: Buffer, keys: unknown) => this.#tell(keys));
    await subscriber.subscribe(CHANNEL);
    const prefixes = this.#names.flatMap((name) => ['PREFIX', this.#client.key(name)]);
    await tracker.call('CLIENT', 'TRACKING', 'ON', 'REDIRECT', id, 'BCAST', ...prefixes);
    onArmed();
    const heartbeat = setInterval(() => {
      this.#check(subscriber, tracker).catch((error: unknown) => this.#cut(String(error)));
    }, HEARTBEAT_MS);
    return lost.finally(() => clearInterval(heartbeat));
  }

  async #connect(): Promise<Redis> {
    return connectToNodeOf(this.#client.connection, this.#client.key('meta'), this.#settings, {
      lazyConnect: true,
      // This loop makes lost ones anew, because they are armed together.
      retryStrategy: () => null,
      commandTimeout: HEARTBEAT_MS,
      autoResubscribe: false,
    });
  }

  async #check(subscriber: Redis, tracker: Redis): Promise<void> {
    const [, role] = await Promise.all([subscriber.ping(), tracker.role()]);
    if (role[0] === 'master') this.#events.alive();
    else this.#cut('the node is no master any more');
  }

  #tell(keys: unknown): void {
    const { length } = this.#client.prefix;
    this.#events.changed(Array.isArray(keys) ? keys.map((key) => String(key).slice(length)) : null);
  }
}
