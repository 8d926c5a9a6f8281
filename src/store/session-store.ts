import type { MaybePromise } from '../util/async.js';
import type { PendingLogin, RecordedLogout, Session } from '../domain/session.js';
import type { EpochMs } from '../util/time.js';
import type { User, VerifiedOwner } from '../domain/user.js';

export interface SessionWithOwner {
  readonly session: Session;
  readonly owner: User;
}

/** The sessions that ended to make room for the new one, or why none was created. */
export type SessionCreation = readonly Session[] | 'owner_changed' | 'logged_out';

export interface SessionStore {
  find(digest: string): MaybePromise<SessionWithOwner | undefined>;
  listOfUser(userId: string): MaybePromise<Session[]>;
  /**
   * Adds a session unless its owner changed since being verified. Beyond `maxPerUser` others, the least
   * recently used end. @param login for which it is; a recorded logout may have ended it
   * @param ready what else has to succeed first
   */
  create(
    session: Session,
    owner: VerifiedOwner,
    maxPerUser: number | null,
    login?: PendingLogin,
    ready?: Promise<unknown>,
  ): Promise<SessionCreation>;
  /** Records provider logouts until a time, for logins that are in progress. */
  noteLogouts(logouts: readonly RecordedLogout[], until: EpochMs): Promise<void>;
  end(digest: string): Promise<boolean>;
  /** Ends all but `except`. Returns those that ended. */
  endOfUser(userId: string, except?: string): Promise<readonly Session[]>;

  /** Grants sudo to a token or session, unless its user changed since being verified. */
  grantSudo(
    owner: VerifiedOwner,
    credentialId: string,
    until: EpochMs,
    now: EpochMs,
  ): Promise<'granted' | 'owner_changed'>;
  hasSudo(userId: string, credentialId: string, now: EpochMs): MaybePromise<boolean>;
}
