import { EventEmitter } from 'node:events';
import { performance } from 'node:perf_hooks';
import type { Subject } from '../domain/credential.js';
import { partsIn } from './revocations.js';

/**
 * By `token:ID`, `digest:DIGEST`, `session:DIGEST`, `user:ID`, or `legacy_keys` for whether any exist.
 * `ended`: for good. `changed`: it may no longer be valid.
 */
export type Ended = ReadonlyMap<string, 'ended' | 'changed'>;

/** How long ends are remembered, milliseconds. No request waits longer before it is in progress. */
const KEPT_MS = 300_000;
const MAX_KEPT = 10_000;

interface EndingsEvents {
  /** null: anything may have ended or changed. */
  readonly ended: [what: Ended | null];
  /** Emitted after everything that ended before a question was reported. */
  readonly asked: [question: string];
  readonly resumed: [];
}

/** Tells the listeners of a process, in order, what ends or changes in its store. */
export class Endings extends EventEmitter<EndingsEvents> {
  /** `performance.now()` by what ended, oldest first: a request may be judged before, and begin after. */
  readonly #times = new Map<string, number>();
  /** Time of the newest end. Nearly every request began later, and then no look-up is needed. */
  #latest = -Infinity;

  /** @param concernsVerdicts whether it also concerns requests that were judged but have not begun */
  ended(what: Ended | null, concernsVerdicts = true): void {
    if (what?.size === 0) return;
    if (what !== null && concernsVerdicts) this.#note(what, performance.now());
    this.emit('ended', what);
  }

  /** Whether a verdict of that time (`performance.now()`) may be wrong by now. */
  hasEndedSince(subject: Subject | null, time: number): boolean {
    if (this.#latest < time || subject === null) return false;
    return keysOf(subject).some((key) => (this.#times.get(key) ?? -Infinity) >= time);
  }

  #note(ended: Ended, now: number): void {
    this.#latest = now;
    for (const key of ended.keys()) {
      this.#times.delete(key);
      this.#times.set(key, now);
    }
    for (const [key, time] of this.#times) {
      if (now - time < KEPT_MS && this.#times.size <= MAX_KEPT) return;
      this.#times.delete(key);
    }
  }
}

export function keysOf(subject: Subject): string[] {
  const user = `user:${subject.user.id}`;
  if (subject.credential === 'session') return [`session:${subject.session.digest}`, user];
  // A JWT's user and token are not records in the store.
  if (subject.credential === 'jwt') return [];
  return [`token:${subject.token.id}`, `digest:${subject.token.digest}`, user];
}

/** Maps names as in `revocations.ts` to what ended or changed. */
export function endedByName(names: readonly string[]): Ended {
  const ended = new Map<string, 'ended' | 'changed'>();
  for (const name of names) {
    const { kind, id } = partsIn(name);
    if (kind === 'token' || kind === 'session') ended.set(name, 'ended');
    else if (kind === 'legacy') ended.set(`digest:${id}`, 'ended');
    else if (kind === 'user' || kind === 'operator') note(ended, `user:${id}`);
    else note(ended, `token:${id}`);
  }
  return ended;
}

const LEGACY_KEYS = 'index:legacy_keys';

/** Prefixes of the keys of a networked store that {@link changedByKey} understands. */
export const CHANGED_KEYS = ['token:', 'session:', 'user:', LEGACY_KEYS] as const;

/** Maps changed keys of a networked store, without its prefix, to what may have ended. */
export function changedByKey(names: readonly string[]): Ended {
  const changed = new Map<string, 'changed'>();
  for (const name of names) {
    if (name.startsWith('token:')) changed.set(`digest:${name.slice('token:'.length)}`, 'changed');
    else if (name === LEGACY_KEYS) changed.set('legacy_keys', 'changed');
    else if (CHANGED_KEYS.some((start) => name.startsWith(start))) changed.set(name, 'changed');
  }
  return changed;
}

/** Returns the names with that prefix, without it. */
export function withoutPrefix(prefix: string, names: readonly string[]): string[] {
  return names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
}

function note(ended: Map<string, 'ended' | 'changed'>, key: string): void {
  if (!ended.has(key)) ended.set(key, 'changed');
}
