import type { Subject } from './credential.js';
import type { Session } from './session.js';
import type { Token } from './token.js';
import type { User } from './user.js';

/**
 * Keeps what is made of a subject for as long as its records stay the same. The store gives the same object for a record that did
 * not change; where it doesn't, it is made each time.
 */
export class SubjectMemo<T> {
  readonly #make: (subject: Subject) => T;
  readonly #made = new WeakMap<Token | Session, { readonly user: User; readonly value: T }>();

  /** @param make must look at nothing but the subject's records and what never changes */
  constructor(make: (subject: Subject) => T) {
    this.#make = make;
  }

  of(subject: Subject): T {
    const { user } = subject;
    const record = subject.credential === 'session' ? subject.session : subject.token;
    const known = this.#made.get(record);
    if (known !== undefined && known.user === user) return known.value;
    const value = this.#make(subject);
    this.#made.set(record, { user, value });
    return value;
  }
}
