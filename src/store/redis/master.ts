import { setTimeout as sleep } from 'node:timers/promises';
import { WakeableSleep } from '../../domain/wakeable-sleep.js';
import { addressText, type AgreedMaster, type Watchers } from './agreement.js';
import { type Identity, isAnotherHistory } from './identity.js';
import { MasterSession } from './session.js';
import type { RedisSettings } from './settings.js';
import { ClusterNodes } from './cluster-nodes.js';
import { nodeOf } from './connect.js';
import { Sentinels } from './sentinels.js';

/** The next try to find the master comes after this time, then after longer ones. */
const FIRST_RETRY_MS = 25;
const MAX_RETRY_MS = 250;

/**
 * Called with a session before anything else uses it.
 *
 * @param forgetful the server may have forgotten what this process knows: it is the first one, another one, or its history went back
 */
export type Adopt = (session: MasterSession, forgetful: boolean) => Promise<void>;

/** Finds the master of a store, holds the session with it, and finds the next one when that is over. */
export class Master {
  readonly #settings: RedisSettings;
  readonly #watchers: Watchers;
  readonly #adopt: Adopt;
  readonly #waiting = new Set<() => void>();
  #current: MasterSession | undefined;
  #known: Identity | undefined;
  #lostAt = -Infinity;
  /** Why there is no session. */
  #reason = new Error('it is being connected');
  #closed = false;
  readonly #rest = new WakeableSleep();
  /** Gives up a server that is being connected when it is no longer the one that is agreed on. */
  #reconsider: () => void = () => undefined;

  /** @param key any key of the store */
  constructor(settings: RedisSettings, key: string, adopt: Adopt) {
    this.#settings = settings;
    this.#adopt = adopt;
    this.#watchers = watchersOf(settings, key, () => this.#ask());
    void this.#run();
  }

  /** The session, if it is confirmed now. */
  get held(): MasterSession | undefined {
    return this.#current?.lease.isHeld() === true ? this.#current : undefined;
  }

  /**
   * The session with the master, confirmed. One that was lost a moment ago is waited for.
   *
   * @param patience milliseconds since the loss, by default as long as a command may take
   * @throws Error when none is there or it is not confirmed
   */
  async session(patience = this.#settings.command_timeout): Promise<MasterSession> {
    // One that is over stays the current one until `#run` has heard of it, which waits for the same.
    if (this.#current?.lease.isOver === true) await this.#current.lost;
    const until = this.#lostAt + patience;
    if (this.#current === undefined && performance.now() < until) await this.#next(until - performance.now());
    const session = this.#current;
    if (session === undefined) throw new Error(`no master: ${this.#reason.message}`, { cause: this.#reason });
    if (!session.lease.isHeld()) await this.#confirmed(session);
    return session;
  }

  /** Waits for a confirmation as long as a command may take. */
  async #confirmed(session: MasterSession): Promise<void> {
    const timer = new AbortController();
    const late = sleep(this.#settings.command_timeout, undefined, timer).then(() => {
      throw new Error('the master was not confirmed in time');
    });
    try {
      await Promise.race([session.confirm(), late]);
    } finally {
      timer.abort();
      late.catch(() => undefined);
    }
  }

  /** Resolves when a session is there, or after a time in milliseconds. */
  async connected(ms: number): Promise<void> {
    if (this.#current === undefined) await this.#next(ms);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const session = this.#current;
    if (session !== undefined) {
      await session.commands.quit().catch(() => undefined);
      session.end('closed');
    }
    this.#watchers.close();
    this.#rest.wake();
  }

  async #run(): Promise<void> {
    for (let attempts = 0; !this.#closed; attempts += 1) {
      try {
        const session = await this.#open();
        attempts = 0;
        this.#current = session;
        for (const resolve of this.#waiting) resolve();
        this.#reason = new Error(await session.lost);
        this.#known = session.identity;
        this.#current = undefined;
        this.#lostAt = performance.now();
      } catch (error) {
        this.#reason = error instanceof Error ? error : new Error(String(error));
      }
      if (!this.#closed) await this.#rest.sleep(Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** attempts));
    }
  }

  async #open(): Promise<MasterSession> {
    const session = await this.#connect(await this.#watchers.findMaster());
    const forgetful = this.#known === undefined || isAnotherHistory(session.identity, this.#known);
    try {
      await this.#adopt(session, forgetful);
      if (this.#closed) throw new Error('closed');
    } catch (error) {
      session.end('it was not adopted');
      throw error;
    }
    return session;
  }

  /** Connects to a server, for as long as it is the one that is agreed on: one that was cut off without a sign takes seconds. */
  async #connect(master: AgreedMaster): Promise<MasterSession> {
    const over = new AbortController();
    this.#reconsider = () => {
      this.#watchers.findMaster().then(
        (now) => {
          if (addressText(now.node) !== addressText(master.node)) over.abort();
        },
        () => undefined,
      );
    };
    const timer = setInterval(this.#reconsider, MAX_RETRY_MS).unref();
    try {
      return await MasterSession.open(master, this.#settings, this.#watchers, over.signal);
    } finally {
      clearInterval(timer);
      this.#reconsider = () => undefined;
    }
  }

  /** Another master may have been chosen. */
  #ask(): void {
    this.#current?.reconsider();
    this.#reconsider();
    this.#rest.wake();
  }

  async #next(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.#waiting.add(done);
    });
  }
}

/**
 * Those who know the master of a store: sentinels, the nodes of a cluster, or the configuration.
 *
 * @param key any key of the store, which all are in one slot of a cluster
 * @param onChange called when they may have chosen another one
 */
function watchersOf(settings: RedisSettings, key: string, onChange: () => void): Watchers {
  if (settings.sentinel !== null) return new Sentinels(settings.sentinel, settings, onChange);
  if (settings.cluster !== null) return new ClusterNodes(settings.cluster, settings, key);
  const master = { node: nodeOf(settings.url), epoch: 0 };
  return { findMaster: async () => master, close: () => undefined };
}
