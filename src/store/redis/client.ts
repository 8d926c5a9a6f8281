import { setTimeout as sleep } from 'node:timers/promises';
import { type Redis, ReplyError } from 'ioredis';
import { newId } from '../../domain/secret.js';
import { OutcomeUnknown, StoreUnavailable } from '../faults.js';
import type { WebhookSubscription } from '../webhook-store.js';
import { Acknowledgement } from './acknowledge.js';
import { asUnavailable, endIfLost, findsNothing, mayHaveArrived, reasonOf } from './failures.js';
import { BEGIN } from './maintenance-scripts.js';
import { answerIn, CONFIRM, GIVEN_UP, MARK_MS } from './marks.js';
import { type Adopt, Master } from './master.js';
import { runScript, type Scripts, scriptsFor } from './run-script.js';
import { endsSomething, isChange, type ScriptName } from './scripts.js';
import type { MasterSession } from './session.js';
import type { RedisSettings } from './settings.js';

/** A start waits this long for the first connection and goes on without it. */
const FIRST_CONNECTION_MS = 2_000;
/** A change may take so many times as long as a read: giving one up late costs less than not knowing what became of it. */
const CHANGE_TIMES = 4;
/** A change without an answer is asked for during this time, this often. */
const CONFIRM_MS = 5_000;
const CONFIRM_AGAIN_MS = 100;
/**
 * Where another server can become the master, whatever is no look-up waits this long for it: a failover takes two to four
 * seconds, and who creates or revokes something would only ask again.
 */
const PATIENCE_MS = 5_000;
/** Asked for each request, or again and again: those get an answer at once. */
const IMPATIENT: ReadonlySet<ScriptName> = new Set([
  'find',
  'leaseRate',
  'probe',
  'probeWrite',
  'probeLink',
  'fleetBeat',
  'fleetList',
  'fleetAnswer',
  'fleetAnswers',
]);
/** An answer that took longer counts only when the master was confirmed behind it: it may have been stopped meanwhile. */
const PROMPT_MS = 250;

/** What a process does with a master that it begins to use, and with what ended in the store by its own changes. */
export interface ClientEvents {
  /** Called before anything else uses the session. */
  readonly adopt: Adopt;
  /** Names of what a change of this process ended for good (`revocation-scripts.ts`). */
  readonly ended: (names: readonly string[]) => void;
}

/**
 * Runs commands and scripts on the master. Whatever goes wrong is a {@link StoreUnavailable}: never an answer.
 *
 * An answer counts when the server that gave it is confirmed to be the master at that time. A server that leaves several
 * commands without an answer is left. While no master is there, look-ups fail at once, so that nobody waits for a timeout in
 * line; the others wait for the next master where there can be one.
 */
export class RedisClient {
  /** Key prefix in braces: the hash tag that puts all keys in one slot. */
  readonly prefix: string;
  /** What happens with a session, for whoever keeps what was revoked. */
  events: ClientEvents = { adopt: async () => undefined, ended: () => undefined };
  readonly #master: Master;
  #scripts: Scripts = scriptsFor([]);
  readonly #commandTimeout: number;
  readonly #changeTimeout: number;
  /** How long whatever is no look-up may take, milliseconds. */
  readonly #patience: number;
  readonly #acknowledgement: Acknowledgement | null;

  constructor(settings: RedisSettings) {
    this.prefix = `{${settings.prefix}}`;
    const { acknowledge } = settings;
    this.#acknowledgement =
      acknowledge === null ? null : new Acknowledgement(acknowledge, settings.command_timeout);
    this.#commandTimeout = settings.command_timeout;
    this.#changeTimeout = settings.command_timeout * CHANGE_TIMES + (acknowledge?.timeout ?? 0);
    this.#patience =
      settings.sentinel === null && settings.cluster === null ? settings.command_timeout : PATIENCE_MS;
    this.#master = new Master(settings, this.key('meta'), (session, forgetful) =>
      this.events.adopt(session, forgetful),
    );
  }

  /** From now on changes queue the events that these ask for. */
  set subscriptions(subscriptions: readonly WebhookSubscription[]) {
    this.#scripts = scriptsFor(subscriptions);
  }

  /** The connection that commands take now. @throws StoreUnavailable */
  get connection(): Redis {
    const session = this.#master.held;
    if (session === undefined) throw new StoreUnavailable('Redis cannot answer (no master)');
    return session.commands;
  }

  /** The session with the master. @throws StoreUnavailable */
  async session(): Promise<MasterSession> {
    return this.#master.session().catch((error: unknown) => {
      throw asUnavailable(error);
    });
  }

  /** Resolves when the first connection is there, or when a start should not wait for it any longer. */
  async connected(): Promise<void> {
    await this.#master.connected(FIRST_CONNECTION_MS);
  }

  key(name: string): string {
    return this.prefix + name;
  }

  /**
   * Runs a command that may run twice: while there is time, one without an answer is asked again, of the next session where
   * its own has ended.
   *
   * @param patience milliseconds that it may take, and for which a master that was lost is waited for
   * @throws StoreUnavailable
   */
  async command<T>(run: (connection: Redis) => Promise<T>, patience = this.#commandTimeout): Promise<T> {
    const until = performance.now() + patience;
    for (;;) {
      let session: MasterSession | undefined;
      try {
        session = this.#master.held ?? (await this.#master.session(patience));
        const answer = await session.answered(session.commands, run(session.commands));
        if (!session.lease.isHeld()) await session.confirm();
        return answer;
      } catch (error) {
        endIfLost(session, error);
        const mayAnswer = session?.lease.isOver === true || !(error instanceof ReplyError);
        if (session === undefined || !mayAnswer || performance.now() >= until) throw asUnavailable(error);
      }
    }
  }

  /**
   * Runs a script. When the answer of one that changes something does not come, Redis is asked whether it was made, and
   * from then on it can't be made any more; where another server is the master by then, it is made there.
   *
   * @throws StoreUnavailable; OutcomeUnknown when a change was sent and nobody knows what became of it
   */
  async script(name: ScriptName, ...args: (string | number)[]): Promise<unknown> {
    const keys = [this.key('meta')];
    if (!isChange(name))
      return this.command(
        async (connection) => runScript(connection, this.#scripts[name], keys, [this.prefix, ...args]),
        IMPATIENT.has(name) ? this.#commandTimeout : this.#patience,
      );
    const mark = this.key(`done:${newId()}`);
    const script = this.#scripts[name];
    const run = ({ changes }: MasterSession) =>
      runScript(changes, script, [...keys, mark], [this.prefix, ...args], this.#changeTimeout);
    const answer = await this.#change({ name, mark, run });
    if (!endsSomething(name)) return answer;
    const [result, ended] = answer as [unknown, string[]];
    if (ended.length > 0) this.events.ended(ended);
    return result;
  }

  /** Runs a script that changes nothing, or may run twice, on a session that is not in use yet. */
  async scriptOn(session: MasterSession, name: ScriptName, ...args: (string | number)[]): Promise<unknown> {
    return runScript(session.commands, this.#scripts[name], [this.key('meta')], [this.prefix, ...args]);
  }

  async #change(change: Change): Promise<unknown> {
    const until = performance.now() + this.#patience;
    for (;;) {
      let session: MasterSession | undefined;
      let sentAt = performance.now();
      try {
        session = this.#master.held ?? (await this.#master.session(this.#patience));
        sentAt = performance.now();
        const answer = await session.answered(session.changes, change.run(session));
        await this.#acknowledge(session, sentAt);
        return answer;
      } catch (error) {
        endIfLost(session, error);
        if (session !== undefined && mayHaveArrived(error))
          return this.#settle(session, change, sentAt, error);
        if (session?.lease.isOver !== true || performance.now() >= until) throw asUnavailable(error);
      }
    }
  }

  /** A change that was made counts when it was the master that made it, and enough replicas have it. */
  async #acknowledge(session: MasterSession, sentAt: number): Promise<void> {
    await this.#acknowledgement?.wait(session);
    const now = performance.now();
    if (now - sentAt > PROMPT_MS || !session.lease.isHeld()) await session.confirmSince(now);
  }

  /** Finds out what became of a change whose answer did not come. @param cause why it did not */
  async #settle(
    first: MasterSession,
    { name, mark, run }: Change,
    sentAt: number,
    cause: unknown,
  ): Promise<unknown> {
    const until = performance.now() + CONFIRM_MS;
    // That replicas did not confirm it in time is no reason to wait once more.
    if (cause instanceof OutcomeUnknown) throw cause;
    for (;;) {
      try {
        const session = await this.#master.session();
        const askedAt = performance.now();
        const same = session.identity.runId === first.identity.runId;
        const changed = same ? await this.#find(session, mark) : await run(session);
        const isLate = performance.now() - sentAt > MARK_MS / 2;
        if (isLate || (!same && findsNothing(name, changed)))
          throw new OutcomeUnknown(reasonOf(cause), { cause });
        if (changed === GIVEN_UP) {
          await session.confirmSince(askedAt);
          throw new GivenUp();
        }
        await this.#acknowledge(session, askedAt);
        return changed;
      } catch (error) {
        if (error instanceof GivenUp) throw asUnavailable(cause);
        if (error instanceof OutcomeUnknown) throw error;
        if (performance.now() > until) throw new OutcomeUnknown(reasonOf(cause), { cause });
        await sleep(CONFIRM_AGAIN_MS);
      }
    }
  }

  /** What stands in the mark of a change. One that was not made is given up. */
  async #find(session: MasterSession, mark: string): Promise<unknown> {
    const found = (await session.changes.eval(CONFIRM, 1, mark)) as string;
    return found === GIVEN_UP ? GIVEN_UP : answerIn(found);
  }

  /** Writes the mark of a store unless there is one, and returns it. @throws StoreUnavailable */
  async begin(mark: string): Promise<string> {
    const run = (connection: Redis) => connection.eval(BEGIN, 1, this.key('meta'), this.prefix, mark);
    return (await this.command(run)) as string;
  }

  async close(): Promise<void> {
    await this.#master.close();
  }
}

/** A script that changes something, and the key that its answer is left in. */
interface Change {
  readonly name: ScriptName;
  readonly mark: string;
  readonly run: (session: MasterSession) => Promise<unknown>;
}

/** The change was given up before it was made. */
class GivenUp extends Error {}
