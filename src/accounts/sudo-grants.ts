import type { Subject } from '../domain/credential.js';
import type { Session } from '../domain/session.js';
import { type EpochMs, wholeSecond } from '../util/time.js';
import type { VerifiedOwner } from '../domain/user.js';
import type { SessionStore } from '../store/core/sessions.js';

const LASTS_MS = 5 * 60_000;

/**
 * For five minutes after its user confirmed the password, a credential stands in for the login name; every
 * password is still checked.
 */
export class SudoGrants {
  readonly #store: Pick<SessionStore, 'grantSudo' | 'hasSudo'>;

  constructor(store: Pick<SessionStore, 'grantSudo' | 'hasSudo'>) {
    this.#store = store;
  }

  /** A whole second, as in responses. */
  endOf(now: EpochMs): EpochMs {
    return wholeSecond(now + LASTS_MS);
  }

  async grant(subject: Subject, owner: VerifiedOwner, now: EpochMs): Promise<'granted' | 'owner_changed'> {
    return this.#store.grantSudo(owner, idOf(subject), this.endOf(now));
  }

  /** For five minutes, a login at the provider counts as the user's password. */
  async noteFreshLogin(session: Session, owner: VerifiedOwner, now: EpochMs): Promise<void> {
    await this.#store.grantSudo(owner, freshId(session), this.endOf(now));
  }

  /** Never for a user who has a password. */
  async isFresh(subject: Subject, now: EpochMs): Promise<boolean> {
    if (subject.credential !== 'session' || subject.user.passwordHash !== null) return false;
    return this.#store.hasSudo(subject.user.id, freshId(subject.session), now);
  }

  async isActive(subject: Subject, now: EpochMs): Promise<boolean> {
    return this.#store.hasSudo(subject.user.id, idOf(subject), now);
  }
}

/** Differs from the id for sudo grants of the same session. */
function freshId({ id }: Session): string {
  return `fresh-login.${id}`;
}

function idOf(subject: Subject): string {
  return subject.credential === 'session' ? subject.session.id : subject.token.id;
}
