import type { Subject } from '../domain/credential.js';
import type { Session } from '../domain/session.js';
import { type EpochMs, wholeSecond } from '../domain/time.js';
import type { VerifiedOwner } from '../domain/user.js';
import type { SessionStore } from '../store/session-store.js';

const LASTS_MS = 5 * 60_000;

/**
 * For five minutes after a user confirmed the password with a credential, that credential says whose password the next
 * one is. It spares the login name and nothing else: every password is checked as ever.
 */
export class SudoGrants {
  readonly #store: Pick<SessionStore, 'grantSudo' | 'hasSudo'>;

  constructor(store: Pick<SessionStore, 'grantSudo' | 'hasSudo'>) {
    this.#store = store;
  }

  /** When a sudo that begins now is over: a whole second, as answers show it. */
  endOf(now: EpochMs): EpochMs {
    return wholeSecond(now + LASTS_MS);
  }

  /** Begins one for the credential of a subject whose password was right, unless its user changed since. */
  async grant(subject: Subject, owner: VerifiedOwner, now: EpochMs): Promise<'granted' | 'owner_changed'> {
    return this.#store.grantSudo(owner, idOf(subject), this.endOf(now), now);
  }

  /** Notes that a provider asked for the login of a session anew. For five minutes that counts as its user's password. */
  async noteFreshLogin(session: Session, owner: VerifiedOwner, now: EpochMs): Promise<void> {
    await this.#store.grantSudo(owner, freshId(session), this.endOf(now), now);
  }

  /** Whether the login of a subject counts as a password now: never for somebody who has one. */
  async isFresh(subject: Subject, now: EpochMs): Promise<boolean> {
    if (subject.credential !== 'session' || subject.user.passwordHash !== null) return false;
    return this.#store.hasSudo(subject.user.id, freshId(subject.session), now);
  }

  async isActive(subject: Subject, now: EpochMs): Promise<boolean> {
    return this.#store.hasSudo(subject.user.id, idOf(subject), now);
  }
}

/** Beside the sudo of the same session. */
function freshId({ id }: Session): string {
  return `fresh-login.${id}`;
}

function idOf(subject: Subject): string {
  return subject.credential === 'session' ? subject.session.id : subject.token.id;
}
