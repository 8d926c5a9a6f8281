import { setTimeout as sleep } from 'node:timers/promises';
import { OutcomeUnknown } from '../faults.js';
import type { Acknowledgement } from './acknowledge.js';
import { asUnavailable, endIfLost, findsNothing, mayHaveArrived, reasonOf } from './failures.js';
import { answerIn, CONFIRM, GIVEN_UP, MARK_MS } from './marks.js';
import type { Master } from './master.js';
import type { ScriptName } from './scripts.js';
import type { MasterSession } from './session.js';

/** A change without an answer is asked for during this time, this often. */
const CONFIRM_MS = 5_000;
const CONFIRM_AGAIN_MS = 100;
/** An answer that took longer counts only when the master was confirmed behind it: it may have been stopped meanwhile. */
const PROMPT_MS = 250;

/** A script that changes something, and the key that its answer is left in. */
interface Change {
  readonly name: ScriptName;
  readonly mark: string;
  readonly run: (session: MasterSession) => Promise<unknown>;
}

/** Makes changes on the master, each once, and finds out what became of those whose answer does not come. */
export class Changes {
  readonly #master: Master;
  /** How long a change may wait for a master, milliseconds. */
  readonly #patience: number;
  readonly #acknowledgement: Acknowledgement | null;

  constructor(master: Master, patience: number, acknowledgement: Acknowledgement | null) {
    this.#master = master;
    this.#patience = patience;
    this.#acknowledgement = acknowledgement;
  }

  /** @throws StoreUnavailable; OutcomeUnknown when it was sent and nobody knows what became of it */
  async make(change: Change): Promise<unknown> {
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
}

/** The change was given up before it was made. */
class GivenUp extends Error {}
