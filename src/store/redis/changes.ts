import { setTimeout as sleep } from 'node:timers/promises';
import { OutcomeUnknown } from '../faults.js';
import type { Acknowledgement } from './acknowledge.js';
import { asUnavailable, endIfLost, isConflict, mayHaveExecuted, reasonOf } from './failures.js';
import { answerIn, CONFIRM, GIVEN_UP, MARK_MS } from './marks.js';
import type { Master } from './master.js';
import type { MasterSession } from './session.js';

/** How long to ask about an unanswered change, and how often, in milliseconds. */
const CONFIRM_MS = 5_000;
const CONFIRM_AGAIN_MS = 100;
/** A slower reply counts only if the master is confirmed after it: the server may have stood still. */
const PROMPT_MS = 250;

interface Change {
  readonly mark: string;
  readonly run: (session: MasterSession) => Promise<unknown>;
}

/** Makes each change once on the master, and determines the outcome of those without a reply. */
export class Changes {
  readonly #master: Master;
  readonly #acknowledgement: Acknowledgement | null;

  constructor(master: Master, acknowledgement: Acknowledgement | null) {
    this.#master = master;
    this.#acknowledgement = acknowledgement;
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
        if (session?.lease.hasEnded !== true || performance.now() >= until) throw asUnavailable(error);
      }
    }
  }

  /** Waits until a change counts: enough replicas have it, and its server is confirmed as the master. */
  async #acknowledge(session: MasterSession, sentAt: number): Promise<void> {
    await this.#acknowledgement?.wait(session);
    const now = performance.now();
    if (now - sentAt > PROMPT_MS || !session.lease.isHeld()) await session.confirmSince(now);
  }

  /** @param cause why the reply did not arrive */
  async #settle(
    first: MasterSession,
    { mark, run }: Change,
    sentAt: number,
    cause: unknown,
  ): Promise<unknown> {
    const until = performance.now() + CONFIRM_MS;
    // If replicas did not confirm it in time, do not wait again.
    if (cause instanceof OutcomeUnknown) throw cause;
    for (;;) {
      try {
        const session = await this.#master.session();
        const askedAt = performance.now();
        const same = session.identity.runId === first.identity.runId;
        const changed = same ? await this.#find(session, mark) : await run(session);
        const isLate = performance.now() - sentAt > MARK_MS / 2;
        if (isLate || (!same && isConflict(changed))) throw new OutcomeUnknown(reasonOf(cause), { cause });
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

  /** A change that was not made is given up. */
  async #find(session: MasterSession, mark: string): Promise<unknown> {
    const found = (await session.changes.eval(CONFIRM, 1, mark)) as string;
    return found === GIVEN_UP ? GIVEN_UP : answerIn(found);
  }
}

class GivenUp extends Error {}
