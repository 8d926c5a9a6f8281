import type { MaybePromise } from '../domain/maybe-promise.js';
import type { Session } from '../domain/session.js';
import type { EpochMs } from '../domain/time.js';
import type { User, VerifiedOwner } from '../domain/user.js';

/** A session with its owner, as one look-up gives them. */
export interface SessionWithOwner {
  readonly session: Session;
  readonly owner: User;
}

/** Sessions, and the sudo that a confirmed password grants to a session or token. */
export interface SessionStore {
  find(digest: string): MaybePromise<SessionWithOwner | undefined>;
  listOfUser(userId: string): MaybePromise<Session[]>;
  /**
   * Adds a session unless its owner is not as verified any more. When the owner has `maxPerUser` others already (null: no
   * limit), those that were used longest ago end. The check and the writes are one step.
   *
   * @returns the sessions that ended
   */
  create(
    session: Session,
    owner: VerifiedOwner,
    maxPerUser: number | null,
  ): Promise<readonly Session[] | 'owner_changed'>;
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
