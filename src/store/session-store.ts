import type { MaybePromise } from '../util/async.js';
import type { PendingLogin, RecordedLogout } from '../domain/provider-logout.js';
import type { Session } from '../domain/session.js';
import type { EpochMs } from '../util/time.js';
import type { User, VerifiedOwner } from '../domain/user.js';

/** A session and its owner, as returned by one look-up. */
export interface SessionWithOwner {
  readonly session: Session;
  readonly owner: User;
}

/** The sessions that ended to make room for the new one, or why none was created. */
export type SessionCreation = readonly Session[] | 'owner_changed' | 'logged_out';

/** Sessions, and the sudo grants that a session or token gets for a confirmed password. */
export interface SessionStore {
  find(digest: string): MaybePromise<SessionWithOwner | undefined>;
  listOfUser(userId: string): MaybePromise<Session[]>;
  /**
   * Adds a session, unless its owner changed since being verified. If the owner already has
   * `maxPerUser` other sessions (null: no limit), the least recently used ones end. The checks and
   * the writes are atomic.
   *
   * @param login the provider login that the session is for, which a recorded logout may have ended
   * @returns the sessions that ended
   */
  create(
    session: Session,
    owner: VerifiedOwner,
    maxPerUser: number | null,
    login?: PendingLogin,
  ): Promise<SessionCreation>;
  /** Records provider logouts until a time, for logins that are in progress. */
  noteLogouts(logouts: readonly RecordedLogout[], until: EpochMs): Promise<void>;
  /** Ends a session. Returns whether it existed. */
  end(digest: string): Promise<boolean>;
  /**
   * Ends the sessions of a user, except the one with the digest `except`. Returns those that ended;
   * sessions that cannot be read end too.
   */
  endOfUser(userId: string, except?: string): Promise<readonly Session[]>;

  /**
   * Grants sudo to a credential until a time, unless its user changed since being verified. Atomic.
   *
   * @param credentialId id of a token or session of that user
   */
  grantSudo(
    owner: VerifiedOwner,
    credentialId: string,
    until: EpochMs,
    now: EpochMs,
  ): Promise<'granted' | 'owner_changed'>;
  /** Whether this user's credential has an active sudo grant at `now`. */
  hasSudo(userId: string, credentialId: string, now: EpochMs): MaybePromise<boolean>;
}
