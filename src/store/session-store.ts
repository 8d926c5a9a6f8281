import type { MaybePromise } from '../domain/maybe-promise.js';
import type { LoginUnderWay, NotedLogout } from '../domain/provider-logout.js';
import type { Session } from '../domain/session.js';
import type { EpochMs } from '../domain/time.js';
import type { User, VerifiedOwner } from '../domain/user.js';

/** A session with its owner, as one look-up gives them. */
export interface SessionWithOwner {
  readonly session: Session;
  readonly owner: User;
}

/** The sessions that ended for the one that was created, or why none was. */
export type SessionCreation = readonly Session[] | 'owner_changed' | 'logged_out';

/** Sessions, and the sudo that a confirmed password grants to a session or token. */
export interface SessionStore {
  find(digest: string): MaybePromise<SessionWithOwner | undefined>;
  listOfUser(userId: string): MaybePromise<Session[]>;
  /**
   * Adds a session unless its owner is not as verified any more. When the owner has `maxPerUser` others already (null: no
   * limit), those that were used longest ago end. The checks and the writes are one step.
   *
   * @param login the login at a provider that the session is for, which a noted logout may have ended
   * @returns the sessions that ended
   */
  create(
    session: Session,
    owner: VerifiedOwner,
    maxPerUser: number | null,
    login?: LoginUnderWay,
  ): Promise<SessionCreation>;
  /** Notes logouts of providers until a time, for logins that are under way. */
  noteLogouts(logouts: readonly NotedLogout[], until: EpochMs): Promise<void>;
  /** Ends a session. Returns whether it was there. */
  end(digest: string): Promise<boolean>;
  /** Ends the sessions of a user, all but one when `except` names its digest. Returns how many. */
  endOfUser(userId: string, except?: string): Promise<number>;

  /**
   * Grants sudo to a credential until a time, unless its user is not as verified any more, in one step.
   *
   * @param credentialId id of a token or session of that user
   */
  grantSudo(
    owner: VerifiedOwner,
    credentialId: string,
    until: EpochMs,
    now: EpochMs,
  ): Promise<'granted' | 'owner_changed'>;
  /** Whether the sudo of this user and credential is active at `now`. */
  hasSudo(userId: string, credentialId: string, now: EpochMs): MaybePromise<boolean>;
}
