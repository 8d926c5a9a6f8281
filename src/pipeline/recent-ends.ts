import type { Subject } from '../domain/credential.js';
import type { Ended } from '../store/endings.js';

/** What was let in longer ago than this, in milliseconds, has got its answer, or is rechecked as all that lasts. */
const KEPT_MS = 300_000;
const MAX_KEPT = 10_000;

/** What ended lately: a request that was authorized before may become a stream only after. */
export class RecentEnds {
  /** `performance.now()` by what ended, the oldest first. */
  readonly #times = new Map<string, number>();
  /** When the newest ended: nearly every request began later, and then no name is looked up. */
  #latest = -Infinity;

  note(ended: Ended, now: number): void {
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

  /** Whether something of a subject ended since a time. */
  hasEndedSince(subject: Subject | null, time: number): boolean {
    if (this.#latest < time || subject === null) return false;
    return keysOf(subject).some((key) => (this.#times.get(key) ?? -Infinity) >= time);
  }
}

/** How a subject is named when something of it ends. */
export function keysOf(subject: Subject): string[] {
  const user = `user:${subject.user.id}`;
  if (subject.credential === 'session') return [`session:${subject.session.digest}`, user];
  // Neither the user nor the token of a JWT is a record of the store.
  if (subject.credential === 'jwt') return [];
  return [`token:${subject.token.id}`, `digest:${subject.token.digest}`, user];
}
