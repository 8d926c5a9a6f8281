import { Command, type Redis, ReplyError } from 'ioredis';
import { newId } from '../../domain/secret.js';
import { MAX_TIMER_MS } from '../../util/time.js';
import type { Changing } from '../core/kv.js';
import { asUnavailable, Changes, endIfLost } from './changes.js';
import { nodeOf, type RedisSettings } from './connect.js';
import { type Adopt, Master } from './master.js';
import { announcementPrefix, isChange, type ScriptName, type Scripts, scriptsFor } from './scripts.js';
import type { MasterSession } from './session.js';

/** How long a start waits for a connection: long enough to learn why there is none. */
const FIRST_CONNECTION_MS = 2_500;
/** A change times out later than a read: giving it up late costs less than an unknown outcome. */
const CHANGE_TIMES = 4;
/** How long everything but look-ups waits for another master: a failover takes two to four seconds. */
const PATIENCE_MS = 5_000;
/** A timeout this late shows that this process stood still; a reply may have arrived meanwhile. */
const STOOD_STILL_MS = 25;
type Argument = string | number;

export interface ClientEvents {
  /** Called before anything else uses the session. */
  readonly adopt: Adopt;
  /** Makes each change of this process. */
  readonly changing: Changing;
}

/**
 * Runs commands and scripts on the master. An answer counts only if its server is confirmed as the
 * master at that time. Without a master, look-ups fail at once; other commands wait for the next one.
 */
export class RedisClient {
  /** Key prefix in braces: the hash tag that puts all keys in one slot. */
  readonly prefix: string;
  events: ClientEvents = { adopt: async () => undefined, changing: async (_, make) => make() };
  readonly #master: Master;
  readonly #database: number;
  readonly #scripts: Scripts;
  readonly #commandTimeout: number;
  readonly #changeTimeout: number;
  readonly #patience: number;
  readonly #changes: Changes;

  constructor(settings: RedisSettings) {
    this.prefix = `{${settings.prefix}}`;
    // Sentinels and clusters have only the first database.
    this.#database = settings.url === null ? 0 : (nodeOf(settings.url).db ?? 0);
    this.#scripts = scriptsFor(this.#database);
    const { acknowledge } = settings;
    this.#commandTimeout = settings.command_timeout;
    this.#changeTimeout = Math.min(
      settings.command_timeout * CHANGE_TIMES + (acknowledge?.timeout ?? 0),
      MAX_TIMER_MS,
    );
    this.#patience =
      settings.sentinel === null && settings.cluster === null ? settings.command_timeout : PATIENCE_MS;
    this.#master = new Master(settings, this.key('meta'), (session, forgetful) =>
      this.events.adopt(session, forgetful),
    );
    this.#changes = new Changes(this.#master, settings);
  }

  get held(): MasterSession | undefined {
    return this.#master.held;
  }

  async session(): Promise<MasterSession> {
    return this.#master.session().catch((error: unknown) => {
      throw asUnavailable(error);
    });
  }

  async connected(): Promise<void> {
    await this.#master.connected(FIRST_CONNECTION_MS);
  }

  /** Prefix, after that of all keys, of the keys that announce revocations by name. */
  get announcementPrefix(): string {
    return announcementPrefix(this.#database);
  }

  key(name: string): string {
    return this.prefix + name;
  }

  /**
   * Runs a command that may run twice: it is repeated while there is time, and has its time once more
   * if this process stood still. @throws StoreUnavailable
   */
  async command<T>(run: (connection: Redis) => Promise<T>, patience = this.#commandTimeout): Promise<T> {
    let until = performance.now() + patience;
    let hasStoodStill = false;
    for (;;) {
      let sentAt = Infinity;
      let session: MasterSession | undefined;
      try {
        session = this.#master.held ?? (await this.#master.session(patience));
        sentAt = performance.now();
        const answer = await session.answered(session.commands, run(session.commands));
        sentAt = Infinity;
        if (!session.isHeld()) await session.confirm();
        return answer;
      } catch (error) {
        endIfLost(session, error);
        const mayAnswer = session?.hasEnded === true || !(error instanceof ReplyError);
        if (session === undefined || !mayAnswer) throw asUnavailable(error);
        const now = performance.now();
        if (now < until) continue;
        if (hasStoodStill || now - sentAt < this.#commandTimeout + STOOD_STILL_MS) throw asUnavailable(error);
        hasStoodStill = true;
        until = now + patience;
      }
    }
  }

  /**
   * Runs a script. If the reply to a change is lost, Redis is asked whether the change was made; from
   * then on, it cannot be made any more. @throws StoreUnavailable, OutcomeUnknown
   */
  async script(name: ScriptName, args: readonly Argument[], isUrgent?: 'urgent'): Promise<unknown> {
    const patience = isUrgent === undefined ? this.#patience : this.#commandTimeout;
    const keys = this.#keysOf(name);
    const [, mark] = keys;
    if (mark === undefined)
      return this.command(async (connection) => this.#run(connection, name, keys, args), patience);
    const run = async ({ changes }: MasterSession) =>
      this.#run(changes, name, keys, args, this.#changeTimeout);
    return this.#changes.make({ mark, run }, patience);
  }

  /** Runs a script on a session that is not in use yet. It must be safe to repeat. */
  async scriptOn(session: MasterSession, name: ScriptName, ...args: Argument[]): Promise<unknown> {
    return this.#run(session.commands, name, this.#keysOf(name), args);
  }

  async close(): Promise<void> {
    await this.#master.close();
  }

  /** The second key of a change is that of its mark. */
  #keysOf(name: ScriptName): string[] {
    const keys = [this.key('meta')];
    return isChange(name) ? [...keys, this.key(`done:${newId()}`)] : keys;
  }

  async #run(
    connection: Redis,
    name: ScriptName,
    keys: readonly string[],
    args: readonly Argument[],
    timeout?: number,
  ): Promise<unknown> {
    const { sha, text } = this.#scripts[name];
    const send = async (how: 'evalsha' | 'eval', script: string) => {
      const all = [script, keys.length, ...keys, this.prefix, ...args];
      const command = new Command(how, all, { replyEncoding: 'utf8' });
      // The first timeout that is set counts.
      if (timeout !== undefined) command.setTimeout(timeout);
      return connection.sendCommand(command);
    };
    try {
      return await send('evalsha', sha);
    } catch (error) {
      // A server that does not know the digest (yet, or after a failover) is sent the text.
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
      return send('eval', text);
    }
  }
}
