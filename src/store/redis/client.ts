import { type Redis, ReplyError } from 'ioredis';
import { newId } from '../../domain/secret.js';
import { StoreUnavailable } from '../faults.js';
import type { WebhookSubscription } from '../webhook-store.js';
import { Acknowledgement } from './acknowledge.js';
import { Changes } from './changes.js';
import { asUnavailable, endIfLost } from './failures.js';
import { BEGIN } from './maintenance-scripts.js';
import { type Adopt, Master } from './master.js';
import { endsSomething, isChange, runScript, type ScriptName, type Scripts, scriptsFor } from './scripts.js';
import type { MasterSession } from './session.js';
import type { RedisSettings } from './settings.js';

/** A start waits this long for the first connection and goes on without it. */
const FIRST_CONNECTION_MS = 2_000;
/** A change may take so many times as long as a read: giving one up late costs less than not knowing what became of it. */
const CHANGE_TIMES = 4;
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
  readonly #changes: Changes;

  constructor(settings: RedisSettings) {
    this.prefix = `{${settings.prefix}}`;
    const { acknowledge } = settings;
    this.#commandTimeout = settings.command_timeout;
    this.#changeTimeout = settings.command_timeout * CHANGE_TIMES + (acknowledge?.timeout ?? 0);
    this.#patience =
      settings.sentinel === null && settings.cluster === null ? settings.command_timeout : PATIENCE_MS;
    this.#master = new Master(settings, this.key('meta'), (session, forgetful) =>
      this.events.adopt(session, forgetful),
    );
    this.#changes = new Changes(
      this.#master,
      this.#patience,
      acknowledge === null ? null : new Acknowledgement(acknowledge, settings.command_timeout),
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
    const answer = await this.#changes.make({ name, mark, run });
    if (!endsSomething(name)) return answer;
    const [result, ended] = answer as [unknown, string[]];
    if (ended.length > 0) this.events.ended(ended);
    return result;
  }

  /** Runs a script that changes nothing, or may run twice, on a session that is not in use yet. */
  async scriptOn(session: MasterSession, name: ScriptName, ...args: (string | number)[]): Promise<unknown> {
    return runScript(session.commands, this.#scripts[name], [this.key('meta')], [this.prefix, ...args]);
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
