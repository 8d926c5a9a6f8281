/** The processes that serve requests from a store, and their answers to questions. */
import { EXPIRY, keyOf, type Member, PROCESS, QUESTION } from './kinds.js';
import type { EpochMs } from '../../util/time.js';
import type { Kv } from './kv.js';
import { type Transaction, type Transactor, valuesOf } from './transaction.js';

export const HEARTBEAT_MS = 3_000;
export const LIVE_MS = 12_000;

export interface LiveMember extends Member {
  /** Milliseconds since its heartbeat, measured without comparing the clocks of two machines. */
  readonly age: number;
}

/** Live processes, and those that left recently, by the time of their last heartbeat. */
const PROCESSES = 'processes';
const LEFT = 'processes_left';
/** How long the answers to a question are kept, in milliseconds. */
const KEPT_MS = 15_000;
const QUESTIONS = 'questions';
const answersTo = (question: string) => `answers:${question}`;

export type FleetStore = ReturnType<typeof fleetStore>;

export function fleetStore(transactor: Transactor) {
  const { kv } = transactor;
  // Revocations must be confirmed even when little space is left, so these changes are made then, too.
  const change = async (decide: (tx: Transaction, now: EpochMs) => Promise<void>): Promise<void> =>
    transactor.transact(async (tx) => decide(tx, await kv.clock()), { isReserved: true });
  return {
    /** Writes the heartbeat of a process and removes processes that are gone. */
    beat: async (member: Member) =>
      change(async (tx, now) => {
        tx.put(PROCESS, member.id, { ...member, at: now });
        tx.link(PROCESSES, member.id, now);
        tx.unlink(LEFT, member.id);
        for (const index of [PROCESSES, LEFT])
          for (const { name } of await tx.range(index, { to: now - LIVE_MS })) {
            if (name === member.id) continue;
            tx.remove(PROCESS, name);
            tx.unlink(index, name);
          }
      }),
    list: async (): Promise<LiveMember[]> => {
      const now = await kv.clock();
      const live = (await valuesOf(kv, PROCESSES, PROCESS)).filter(({ at }) => at >= now - LIVE_MS);
      return live
        .map(({ at, ...member }) => ({ ...member, age: Math.max(0, now - at) }))
        .toSorted((a, b) => (a.id < b.id ? -1 : 1));
    },
    /** Removes a process that exited, if it is listed. It counts as having answered everything. */
    leave: async (id: string) =>
      change(async (tx, now) => {
        if (!(await tx.has(PROCESS, id))) return;
        tx.remove(PROCESS, id);
        tx.unlink(PROCESSES, id);
        tx.link(LEFT, id, now);
      }),
    /** Asks every process to answer once it has dropped everything that ended before now. */
    ask: async (question: string) =>
      change(async (tx, now) => {
        // All processes are told of changes of this record.
        tx.put(QUESTION, question, {});
        tx.link(QUESTIONS, question, now);
        tx.link(EXPIRY, keyOf(QUESTION, question), now + KEPT_MS);
      }),
    /** Ignored for an unknown question. */
    answer: async (question: string, member: string) =>
      transactor.transact(
        async (tx) => {
          if (await tx.has(QUESTION, question)) tx.link(answersTo(question), member);
        },
        { isReserved: true },
      ),
    /** Returns who answered or left. Who is not listed need not have left: a clock may have been set. */
    answers: async (question: string): Promise<string[]> => {
      const found = [...(await kv.range(answersTo(question), {})), ...(await kv.range(LEFT, {}))];
      return found.map(({ name }) => name);
    },
  };
}

export async function openQuestions(kv: Kv): Promise<string[]> {
  const found = await kv.range(QUESTIONS, { from: (await kv.clock()) - KEPT_MS });
  return found.map(({ name }) => name);
}

export async function removeQuestion(tx: Transaction, question: string): Promise<void> {
  for (const { name } of await tx.range(answersTo(question))) tx.unlink(answersTo(question), name);
  tx.unlink(QUESTIONS, question);
  tx.remove(QUESTION, question);
}
