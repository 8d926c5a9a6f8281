import { inTime, WakeableSleep } from '../../util/async.js';
import { type AgreedMaster, ClusterNodes, type MasterElectors, Sentinels } from './electors.js';
import { addressText, nodeOf, type RedisSettings } from './connect.js';
import { type Identity, isAnotherHistory, MasterSession } from './session.js';

const FIRST_RETRY_MS = 25;
const MAX_RETRY_MS = 250;

/** @param forgetful whether the server may have lost what this process knows */
export type Adopt = (session: MasterSession, forgetful: boolean) => Promise<void>;

/** Finds the master of a store and holds a session with it; when that ends, finds the next one. */
export class Master {
  readonly #settings: RedisSettings;
  readonly #electors: MasterElectors;
  readonly #adopt: Adopt;
  #opened: () => void = () => undefined;
  #opening = this.#nextOpening();
  #current: MasterSession | undefined;
  #known: Identity | undefined;
  #lostAt = -Infinity;
  #reason = new Error('still connecting');
  #closed = false;
  readonly #retrySleep = new WakeableSleep();
  /** Abandons the server being connected if it is no longer the agreed master. */
  #reconsider: () => void = () => undefined;

  /** @param key any key of the store */
  constructor(settings: RedisSettings, key: string, adopt: Adopt) {
    this.#settings = settings;
    this.#adopt = adopt;
    this.#electors = electorsOf(settings, key, () => this.#recheck());
    void this.#run();
  }

  get held(): MasterSession | undefined {
    return this.#current?.isHeld() === true ? this.#current : undefined;
  }

  /**
   * Returns a confirmed session; waits for the next one if it was just lost.
   * @param patience milliseconds since the loss
   */
  async session(patience = this.#settings.command_timeout): Promise<MasterSession> {
    // A session that ended stays current until `#run`, which waits for the same promise, notices.
    if (this.#current?.hasEnded === true) await this.#current.lost;
    const until = this.#lostAt + patience;
    await this.connected(until - performance.now());
    const session = this.#current;
    if (session === undefined) throw new Error(`no master: ${this.#reason.message}`, { cause: this.#reason });
    if (!session.isHeld())
      await inTime(
        session.confirm(),
        this.#settings.command_timeout,
        () => new Error('the master was not confirmed in time'),
      );
    return session;
  }

  /** Waits for a session, or the end of that time. */
  async connected(ms: number): Promise<void> {
    if (this.#current === undefined && ms > 0)
      await inTime(this.#opening, ms, () => this.#reason).catch(() => undefined);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const session = this.#current;
    if (session !== undefined) {
      await session.commands.quit().catch(() => undefined);
      session.end('closed');
    }
    this.#electors.close();
    this.#retrySleep.wake();
  }

  async #run(): Promise<void> {
    for (let attempts = 0; !this.#closed; attempts += 1) {
      try {
        const session = await this.#open();
        attempts = 0;
        this.#current = session;
        this.#opened();
        this.#reason = new Error(await session.lost);
        this.#known = session.identity;
        this.#current = undefined;
        this.#opening = this.#nextOpening();
        this.#lostAt = performance.now();
      } catch (error) {
        this.#reason = error instanceof Error ? error : new Error(String(error));
      }
      if (!this.#closed) await this.#retrySleep.sleep(Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** attempts));
    }
  }

  async #open(): Promise<MasterSession> {
    const session = await this.#connect(await this.#electors.findMaster());
    const forgetful = this.#known === undefined || isAnotherHistory(session.identity, this.#known);
    try {
      await this.#adopt(session, forgetful);
      if (this.#closed) throw new Error('closed');
    } catch (error) {
      session.end('not adopted');
      throw error;
    }
    return session;
  }

  /** Gives up once it is no longer the agreed master: a server that was cut off takes seconds to fail. */
  async #connect(master: AgreedMaster): Promise<MasterSession> {
    const cancellation = new AbortController();
    this.#reconsider = () => {
      this.#electors.findMaster().then(
        (now) => {
          if (addressText(now.node) !== addressText(master.node)) cancellation.abort();
        },
        () => undefined,
      );
    };
    const timer = setInterval(this.#reconsider, MAX_RETRY_MS).unref();
    try {
      return await MasterSession.open(master, this.#settings, this.#electors, cancellation.signal);
    } finally {
      clearInterval(timer);
      this.#reconsider = () => undefined;
    }
  }

  #recheck(): void {
    this.#current?.reconsider();
    this.#reconsider();
    this.#retrySleep.wake();
  }

  async #nextOpening(): Promise<void> {
    return new Promise((resolve) => (this.#opened = resolve));
  }
}

/** @param key any key of the store: all are in one slot of a cluster */
function electorsOf(settings: RedisSettings, key: string, onChange: () => void): MasterElectors {
  if (settings.sentinel !== null) return new Sentinels(settings.sentinel, settings, onChange);
  if (settings.cluster !== null) return new ClusterNodes(settings.cluster, settings, key);
  const master = { node: nodeOf(settings.url), epoch: 0 };
  return { findMaster: async () => master, close: () => undefined };
}
