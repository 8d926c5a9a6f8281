import { setTimeout as sleep } from 'node:timers/promises';
import { Command, ReplyError } from 'ioredis';
import { OutcomeUnknown, RecordUnreadable, StoreUnavailable } from '../faults.js';
import { answerIn, CONFIRM, DAMAGED, GIVEN_UP, MARK_MS, PARTLY } from './scripts.js';
import type { Master } from './master.js';
import type { MasterSession } from './session.js';
import { MAX_TIMER_MS } from '../../util/time.js';
import { isUnsent, type RedisSettings } from './connect.js';

/** How long to ask about an unanswered change, and how often, in milliseconds. */
const CONFIRM_MS = 5_000;
const CONFIRM_AGAIN_MS = 100;
/** A slower reply counts only if the master is confirmed after it: the server may have stood still. */
const PROMPT_MS = 250;

/** The number of replicas that must have a change, and how long to wait for them (milliseconds). */
type AcknowledgeSettings = NonNullable<RedisSettings['acknowledge']>;

interface Change {
  readonly mark: string;
  readonly run: (session: MasterSession) => Promise<unknown>;
}

/** Makes each change once on the master, and determines the outcome of those without a reply. */
export class Changes {
  readonly #master: Master;
  readonly #settings: Pick<RedisSettings, 'acknowledge' | 'command_timeout'>;
  /** The count of replicas that is asked for next. */
  readonly #due = new WeakMap<MasterSession, Promise<number>>();

  constructor(master: Master, settings: Pick<RedisSettings, 'acknowledge' | 'command_timeout'>) {
    this.#master = master;
    this.#settings = settings;
  }

  /**
   * @param patience how long it may wait for a master, in milliseconds
   * @throws StoreUnavailable; OutcomeUnknown if it was sent and its outcome is unknown
   */
  async make(change: Change, patience: number): Promise<unknown> {
    const until = performance.now() + patience;
    for (;;) {
      let session: MasterSession | undefined;
      let sentAt = performance.now();
      let hasExecuted = false;
      try {
        session = this.#master.held ?? (await this.#master.session(patience));
        sentAt = performance.now();
        const answer = await session.answered(session.changes, change.run(session));
        hasExecuted = true;
        await this.#acknowledge(session, sentAt);
        return answer;
      } catch (error) {
        endIfLost(session, error);
        if (session !== undefined && (hasExecuted || mayHaveExecuted(error)))
          return this.#settle(session, change, sentAt, error);
        if (session?.hasEnded !== true || performance.now() >= until) throw asUnavailable(error);
      }
    }
  }

  /** Waits until a change counts: enough replicas have it, and its server is confirmed as the master. */
  async #acknowledge(session: MasterSession, sentAt: number): Promise<void> {
    const { acknowledge } = this.#settings;
    if (acknowledge !== null) {
      const due = this.#due.get(session) ?? this.#countReplicas(session, acknowledge);
      this.#due.set(session, due);
      const count = await due;
      if (count < acknowledge.replicas)
        throw new OutcomeUnknown(`${count} of ${acknowledge.replicas} replicas acknowledged it`);
    }
    const now = performance.now();
    if (now - sentAt > PROMPT_MS || !session.isHeld()) await session.confirmSince(now);
  }

  /** `WAIT` covers everything that was written on its connection before. */
  async #countReplicas(session: MasterSession, { replicas, timeout }: AcknowledgeSettings): Promise<number> {
    // Let all replies of one packet share the command.
    await new Promise((resolve) => setImmediate(resolve));
    this.#due.delete(session);
    const command = new Command('wait', [replicas, timeout]);
    command.setTimeout(Math.min(timeout + this.#settings.command_timeout, MAX_TIMER_MS));
    return session.changes.sendCommand(command) as Promise<number>;
  }

  /** @param cause why the reply did not arrive */
  async #settle(
    first: MasterSession,
    { mark, run }: Change,
    sentAt: number,
    cause: unknown,
  ): Promise<unknown> {
    const until = performance.now() + CONFIRM_MS;
    const notMade = asUnavailable(cause);
    // If replicas did not confirm it in time, do not wait again.
    if (cause instanceof OutcomeUnknown) throw cause;
    for (;;) {
      try {
        const session = await this.#master.session();
        const askedAt = performance.now();
        const same = session.identity.runId === first.identity.runId;
        const changed = same ? await this.#find(session, mark) : await run(session);
        const isLate = performance.now() - sentAt > MARK_MS / 2;
        // On another master, it may have met its own effect.
        if (isLate || (!same && changed === '')) throw new OutcomeUnknown(reasonOf(cause), { cause });
        if (changed === GIVEN_UP) {
          await session.confirmSince(askedAt);
          throw notMade;
        }
        await this.#acknowledge(session, askedAt);
        return changed;
      } catch (error) {
        if (error === notMade || error instanceof OutcomeUnknown) throw error;
        if (performance.now() > until) throw new OutcomeUnknown(reasonOf(cause), { cause });
        await sleep(CONFIRM_AGAIN_MS);
      }
    }
  }

  /** A change that was not made is given up. */
  async #find(session: MasterSession, mark: string): Promise<unknown> {
    const found = (await session.changes.eval(CONFIRM, 1, mark)) as string;
    return found === GIVEN_UP ? GIVEN_UP : answerIn(found);
  }
}

export function endIfLost(session: MasterSession | undefined, error: unknown): void {
  if (error instanceof ReplyError && /^(READONLY|MOVED|ASK) /.test((error as Error).message))
    session?.end(`it is no longer the master: ${(error as Error).message}`);
  // The library reports the closed connection only in a later turn of the event loop.
  else if (isUnsent(error) || session?.commands.status !== 'ready' || session.changes.status !== 'ready')
    session?.end('the connection was closed');
}

const FORBIDDEN = 'the Redis user lacks a permission of those in docs/storage.md';

const FAILED_SCRIPT = new RegExp(`^(${DAMAGED}|${PARTLY})(\\S+) (.*)$`, 's');

/** Whether Redis may have executed a command although it sent no reply. */
function mayHaveExecuted(error: unknown): boolean {
  return !(error instanceof ReplyError || isUnsent(error));
}

export function asUnavailable(error: unknown): StoreUnavailable {
  if (error instanceof StoreUnavailable) return error;
  // Our own scripts refuse with a complete sentence.
  if (error instanceof Error && error.message.startsWith('LATCHKEY ')) {
    return new StoreUnavailable(error.message.slice('LATCHKEY '.length));
  }
  const [, report, key, reason] =
    FAILED_SCRIPT.exec(error instanceof ReplyError ? reasonOf(error) : '') ?? [];
  if (report === PARTLY) {
    const hint = isForbidden(error) ? `${FORBIDDEN}: ` : '';
    return new OutcomeUnknown(`it failed in the middle, at the key ${key}: ${hint}${reason}`, {
      cause: error,
    });
  }
  if (report === DAMAGED)
    return new RecordUnreadable(`the key ${key} in Redis is damaged (${reason})`, { cause: error });
  const fault = isForbidden(error) ? FORBIDDEN : 'Redis is unavailable';
  return new StoreUnavailable(`${fault} (${reasonOf(error)})`, { cause: error });
}

/** Whether Redis refused a command, maybe while the connection was opened. */
function isForbidden(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause instanceof ReplyError && /\bNOPERM |can't run this command/.test(cause.message)) return true;
  return false;
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
