import { keyOf, QUESTION } from '../core/kinds.js';
import type { Key } from '../core/kv.js';
import { CHANGED_KEYS, changedByKey, type Ended, type Endings, endedByName } from '../endings.js';
import type { Environment } from './environment.js';

const KEPT = 1_000;
/** How often a process polls for new entries, in milliseconds. */
const POLL_MS = 25;

/** Distinguishes keys of records that changed from names of what ended (`revocations.ts`). */
const CHANGED = 'key:';
const QUESTIONS = keyOf(QUESTION, '');

export function entryFor(key: Key, existed: boolean, isRemoved: boolean): string | undefined {
  const isQuestion = !isRemoved && key.startsWith(QUESTIONS);
  const mayEnd = existed && CHANGED_KEYS.some((start) => key.startsWith(start));
  return isQuestion || mayEnd ? CHANGED + key : undefined;
}

export function appendEnded({ ended }: Environment, names: readonly string[]): void {
  if (names.length === 0) return;
  let last = lastOf(ended);
  for (const name of names) {
    last += 1;
    ended.putSync(last, name);
    ended.removeSync(last - KEPT);
  }
}

interface NewEntries {
  readonly names: readonly string[];
  /** False if earlier ones were already removed: anything may have ended. */
  readonly areAll: boolean;
}

export class EndedLog {
  readonly #env: Environment;
  readonly #endings: Endings;
  readonly #timer: NodeJS.Timeout;
  #last: number;

  constructor(env: Environment, endings: Endings) {
    this.#env = env;
    this.#endings = endings;
    this.#last = lastOf(env.ended);
    this.#timer = setInterval(() => this.#poll(), POLL_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #poll(): void {
    let entries: NewEntries;
    try {
      this.#env.root.resetReadTxn();
      entries = this.#readNew();
    } catch {
      // While the store cannot be read, requests are refused and open streams end when they are
      // rechecked.
      return;
    }
    this.#report(entries);
  }

  #readNew(): NewEntries {
    const { ended } = this.#env;
    const last = lastOf(ended);
    if (last === this.#last) return { names: [], areAll: true };
    const from = this.#last;
    const names = [...ended.getRange({ start: from + 1 })].map(({ value }) => value);
    // If they could not be read, the next poll reads them.
    this.#last = last;
    return { names, areAll: last - from <= KEPT };
  }

  /** Reports new entries: first what ended, then the questions, which were asked after it. */
  #report({ names, areAll }: NewEntries): void {
    const ended = names.filter((name) => !name.startsWith(CHANGED));
    const keys = names.filter((name) => name.startsWith(CHANGED)).map((name) => name.slice(CHANGED.length));
    const all: Ended = new Map([...changedByKey(keys), ...endedByName(ended)]);
    this.#endings.ended(areAll ? all : null);
    for (const key of keys) if (key.startsWith(QUESTIONS)) this.#endings.asked(key.slice(QUESTIONS.length));
  }
}

function lastOf(ended: Environment['ended']): number {
  const [last = 0] = ended.getKeys({ reverse: true, limit: 1 });
  return last;
}
