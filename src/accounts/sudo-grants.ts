import type { Subject } from '../domain/credential.js';
import type { Session } from '../domain/session.js';
import { type EpochMs, wholeSecond } from '../util/time.js';
import type { VerifiedOwner } from '../domain/user.js';
import type { SessionStore } from '../store/session-store.js';

const LASTS_MS = 5 * 60_000;

/**
 * Lets a credential stand in for the login name after its user confirmed the password.
 *
 * A grant lasts five minutes. It spares only the login name: every password is still checked.
 */
export class SudoGrants {
  readonly #store: Pick<SessionStore, 'grantSudo' | 'hasSudo'>;

  constructor(store: Pick<SessionStore, 'grantSudo' | 'hasSudo'>) {
    this.#store = store;
  }

  /** Returns when a grant that starts now expires: a whole second, as in responses. */
  endOf(now: EpochMs): EpochMs {
    return wholeSecond(now + LASTS_MS);
  }

  /** Grants sudo to a subject's credential, unless its user changed since the verification. */
  async grant(subject: Subject, owner: VerifiedOwner, now: EpochMs): Promise<'granted' | 'owner_changed'> {
    return this.#store.grantSudo(owner, idOf(subject), this.endOf(now), now);
  }

  /**
   * Records that the user of a session logged in at the provider again.
   *
   * For five minutes, this counts as the user's password.
   */
  async noteFreshLogin(session: Session, owner: VerifiedOwner, now: EpochMs): Promise<void> {
    await this.#store.grantSudo(owner, freshId(session), this.endOf(now), now);
  }

  /** Whether a fresh login currently counts as a password; never for a user who has a password. */
  async isFresh(subject: Subject, now: EpochMs): Promise<boolean> {
    if (subject.credential !== 'session' || subject.user.passwordHash !== null) return false;
    return this.#store.hasSudo(subject.user.id, freshId(subject.session), now);
  }

  async isActive(subject: Subject, now: EpochMs): Promise<boolean> {
    return this.#store.hasSudo(subject.user.id, idOf(subject), now);
  }
}

/** Returns an id that differs from the one for sudo grants of the same session. */
function freshId({ id }: Session): string {
  return `fresh-login.${id}`;
}

function idOf(subject: Subject): string {
  return subject.credential === 'session' ? subject.session.id : subject.token.id;
}
