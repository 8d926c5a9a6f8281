import { Endings, endedByName } from '../endings.js';
import type { Databases } from './databases.js';
import type { Transactions } from './transactions.js';

/** Maximum number of entries. A process reads them every few milliseconds. */
const KEPT = 1_000;
/** How often a process polls for new entries, in milliseconds; one poll takes 4 µs. */
const POLL_MS = 25;
const QUESTION = 'ask:';
const ANSWER = 'answer:';

/**
 * Appends names of ended or changed credentials (`revocations.ts`), for the other processes. Run it
 * in a write transaction.
 */
export function noteEnded({ ended }: Databases, ...names: readonly string[]): void {
  let last = lastOf(ended);
  for (const name of names) {
    last += 1;
    ended.putSync(last, name);
    ended.removeSync(last - KEPT);
  }
}

/** Appends a question. Run it in a write transaction. */
export function noteQuestion(dbs: Databases, question: string): void {
  noteEnded(dbs, QUESTION + question);
}

/** Appends an answer to a question. Run it in a write transaction. */
export function noteAnswer(dbs: Databases, question: string, member: string): void {
  noteEnded(dbs, `${ANSWER}${question}:${member}`);
}

/** Returns the ids of the processes that recently answered a question. */
export function answersTo({ ended }: Databases, question: string): string[] {
  const start = `${ANSWER}${question}:`;
  const members = new Set<string>();
  for (const { value } of ended.getRange({}))
    if (value.startsWith(start)) members.add(value.slice(start.length));
  return [...members];
}

interface NewEntries {
  readonly names: readonly string[];
  /** False if earlier ones were already removed: anything may have ended. */
  readonly areAll: boolean;
}

/**
 * Notifies a process of what is appended from now on. The embedded store pushes
 * nothing, so the log is polled.
 */
export class EndedLog {
  readonly #transactions: Transactions;
  readonly #endings: Endings;
  readonly #timer: NodeJS.Timeout;
  #last: number;

  constructor(transactions: Transactions, endings: Endings) {
    this.#transactions = transactions;
    this.#endings = endings;
    this.#last = transactions.read(({ ended }) => lastOf(ended));
    this.#timer = setInterval(() => this.#poll(), POLL_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #poll(): void {
    let entries: NewEntries;
    try {
      entries = this.#transactions.read((dbs) => this.#readNew(dbs));
    } catch {
      // While the store cannot be read, requests are refused and open
      // streams end when they are rechecked.
      return;
    }
    this.#report(entries);
  }

  #readNew({ ended }: Databases): NewEntries {
    const last = lastOf(ended);
    if (last === this.#last) return { names: [], areAll: true };
    const from = this.#last;
    const names = [...ended.getRange({ start: from + 1 })].map(({ value }) => value);
    // If they could not be read, the next poll reads them.
    this.#last = last;
    return { names, areAll: last - from <= KEPT };
  }

  /**
   * Reports new entries: first the ended credentials, then the
   * questions, which were asked after them.
   */
  #report({ names, areAll }: NewEntries): void {
    const ended = names.filter((name) => !isQuestionOrAnswer(name));
    this.#endings.ended(areAll ? endedByName(ended) : null);
    for (const name of names) if (name.startsWith(QUESTION)) this.#endings.asked(name.slice(QUESTION.length));
  }
}

function isQuestionOrAnswer(name: string): boolean {
  return name.startsWith(QUESTION) || name.startsWith(ANSWER);
}

function lastOf(ended: Databases['ended']): number {
  const [last = 0] = ended.getKeys({ reverse: true, limit: 1 });
  return last;
}
