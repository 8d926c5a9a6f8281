import type { MaybePromise } from '../domain/maybe-promise.js';
import type { Session } from '../domain/session.js';
import type { SigningKeys } from '../domain/signing-key.js';
import type { EpochMs } from '../domain/time.js';
import type { SessionUse, Token, TokenUse } from '../domain/token.js';
import { Unavailable } from '../domain/unavailable.js';
import type { Customer, Service, User, VerifiedOwner } from '../domain/user.js';
import type { AttemptLimit, Settlement } from './attempts.js';

/** A token with its owner, as one look-up gives them. */
export interface TokenWithOwner {
  readonly token: Token;
  readonly owner: User;
}

/** A session with its owner, as one look-up gives them. */
export interface SessionWithOwner {
  readonly session: Session;
  readonly owner: User;
}

/** A token and its last use; null when it was never used. */
export interface TokenWithUse {
  readonly token: Token;
  readonly use: TokenUse | null;
}

/** How many tokens of one user there may be; null is no limit. */
export interface TokenLimits {
  /** Of those that are not expired. */
  readonly active: number | null;
  /** Of all that are kept; the expired ones that ended first make room. */
  readonly stored: number | null;
}

/** Uses of tokens and sessions since the last write, by token id and by session digest. */
export interface Uses {
  readonly tokens: ReadonlyMap<string, TokenUse>;
  readonly sessions: ReadonlyMap<string, SessionUse>;
}

/** Records to write and remove together: all of them or none. */
export interface Changes {
  readonly customers?: readonly Customer[];
  readonly services?: readonly Service[];
  /** Written whole; a user whose `passwordHash` or `otpSecret` changes, or who becomes locked, loses all sessions and sudos. */
  readonly users?: readonly User[];
  /** Ids of users whose `passwordHash` is a new one of the same password: they keep sessions and sudos. */
  readonly rehashed?: readonly string[];
  /** Tokens to add. One whose digest is known already, or was revoked, is left alone. */
  readonly tokens?: readonly Token[];
  /** Tokens to take away by id, without remembering them as revoked: the same digest may be added again. */
  readonly removeTokens?: readonly string[];
  /** A customer whose users and services do not all go, or move, in the same change makes the whole change fail. */
  readonly removeCustomers?: readonly string[];
  readonly removeServices?: readonly string[];
  /** A user goes with sessions and expired tokens; active tokens make the whole change fail. */
  readonly removeUsers?: readonly string[];
  /**
   * What the changes were worked out from: the `updatedAt` of users as they were read, null for one that was not
   * there. When one is different by now, nothing is written.
   */
  readonly basedOn?: ReadonlyMap<string, EpochMs | null>;
}

/** Why a change was refused; nothing of it was written. */
export type ChangeRefused =
  | {
      readonly reason: 'active_tokens';
      /** Every user who was to be removed and has some. */
      readonly users: readonly { readonly userId: string; readonly tokenIds: readonly string[] }[];
    }
  | { readonly reason: 'login_taken'; readonly login: string; readonly userId: string }
  | { readonly reason: 'unknown_customer'; readonly customerId: string }
  /** A customer to remove who would leave users or services behind. */
  | { readonly reason: 'customer_in_use'; readonly customerId: string }
  /** The owner of a token to add. */
  | { readonly reason: 'unknown_user'; readonly userId: string }
  | { readonly reason: 'changed_meanwhile'; readonly userId: string };

/**
 * Where accounts, tokens and sessions are kept.
 *
 * Every implementation passes the same test (`test/store/contract.ts`). What all of them promise:
 *
 * - A write that resolved is durable; a write that was refused or threw changed nothing, unless it threw
 *   {@link OutcomeUnknown}: then it may have been made.
 * - A revocation that resolved is seen by the next look-up of every process on the same store.
 * - Secrets are known by digest only.
 * - A store that can't answer throws {@link StoreUnavailable}; it never answers "not there" instead.
 *
 * Look-ups return `undefined` for what is not there. They judge nothing: expired tokens, ended sessions
 * and locked owners are returned as they are.
 */
export interface Store {
  findToken(digest: string): MaybePromise<TokenWithOwner | undefined>;
  findSession(digest: string): MaybePromise<SessionWithOwner | undefined>;
  /** Whether any legacy key exists; while none does, values without a token's form need no look-up. */
  hasLegacyKeys(): MaybePromise<boolean>;

  getCustomer(id: string): MaybePromise<Customer | undefined>;
  getService(id: string): MaybePromise<Service | undefined>;
  getUser(id: string): MaybePromise<User | undefined>;
  /** Finds a user by login name, upper and lower case alike. */
  getUserByLogin(login: string): MaybePromise<User | undefined>;
  listCustomers(): MaybePromise<Customer[]>;
  listServices(customerId: string): MaybePromise<Service[]>;
  listUsers(customerId: string): MaybePromise<User[]>;
  /** Ids of the users whose `deletionPending` is set. */
  listPendingDeletions(): MaybePromise<string[]>;
  /** Writes a set of records, all or none. Returns `undefined` when it was written. */
  change(changes: Changes, now: EpochMs): Promise<ChangeRefused | undefined>;

  /** What the costliest password hash takes that was ever written ({@link costOfHash}); 0 when none was. */
  getPasswordCost(): MaybePromise<number>;

  /**
   * Adds a token unless its owner is not as verified any more or has as many as the limits allow: `limit_reached` for active
   * ones, `full` for those that are kept. The check and the write are one step.
   */
  createToken(
    token: Token,
    owner: VerifiedOwner,
    limits: TokenLimits,
    now: EpochMs,
  ): Promise<'created' | 'limit_reached' | 'full' | 'owner_changed'>;
  /** Which of some digests are no token's, nor that of a legacy key that was revoked: those that can be imported. */
  filterNewDigests(digests: readonly string[]): MaybePromise<string[]>;
  getToken(id: string): MaybePromise<TokenWithUse | undefined>;
  listTokensOfUser(userId: string): MaybePromise<TokenWithUse[]>;
  listTokensOfCustomer(customerId: string): MaybePromise<TokenWithUse[]>;
  /**
   * Whether the users of a customer have so many tokens, expired ones included. Creations meanwhile may be missing. It is
   * cheap while the whole store holds fewer.
   */
  hasTokensOfCustomer(customerId: string, count: number): MaybePromise<boolean>;
  /** Revokes tokens by id, all or none. Returns the ids that are not there; empty when all were revoked. */
  revokeTokens(ids: readonly string[]): Promise<string[]>;

  /**
   * Adds a session unless its owner is not as verified any more. When the owner has `maxPerUser` others already (null: no
   * limit), those that were used longest ago end. The check and the writes are one step.
   *
   * @returns the sessions that ended
   */
  createSession(
    session: Session,
    owner: VerifiedOwner,
    maxPerUser: number | null,
  ): Promise<readonly Session[] | 'owner_changed'>;
  listSessions(userId: string): MaybePromise<Session[]>;
  /** Ends a session. Returns whether it was there. */
  endSession(digest: string): Promise<boolean>;
  /** Ends the sessions of a user, all but one when `except` names its digest. Returns how many. */
  endSessionsOfUser(userId: string, except?: string): Promise<number>;

  /** Writes down last uses. What is gone by then is skipped, and an older use never replaces a newer one. */
  recordUses(uses: Uses): Promise<void>;

  /**
   * Takes a one-time password's time step, once: true when `step` is later than every step taken
   * before for this user, and false otherwise. The check and the write are one step.
   */
  takeOtpStep(userId: string, step: number): Promise<boolean>;

  /**
   * Counts one more write of a user in an hour and returns how many there are. A new hour begins at 1; while one counts into
   * it whose clock still shows the hour before, that hour is not begun again. The check and the write are one step.
   * @param hour its beginning
   */
  countWrite(userId: string, hour: EpochMs): Promise<number>;

  /** The last step that was taken for a user; -1 when none was. */
  getOtpStep(userId: string): MaybePromise<number>;

  /** Digests of legacy keys that were revoked and must not come back. */
  listRevokedDigests(): MaybePromise<string[]>;
  /** Marks digests as those of revoked legacy keys. */
  addRevokedDigests(digests: readonly string[]): Promise<void>;

  /** Until when a login attempt has to wait; 0 when it need not. */
  attemptHeldUntil(limits: readonly AttemptLimit[], now: EpochMs): MaybePromise<EpochMs>;
  /**
   * Counts a login attempt under each limit, before anybody looks at its password, and returns 0; when it has to wait, it
   * returns until when and counts nothing. The check and the write are one step.
   */
  reserveAttempt(limits: readonly AttemptLimit[], now: EpochMs): Promise<EpochMs>;
  /** Takes a reserved attempt back where it was none of guessing, in one step. */
  settleAttempt(settlement: Settlement, now: EpochMs): Promise<void>;
  /** Addresses that an account logged in from and that are not forgotten by `now`, in no order. */
  listKnownAddresses(account: string, now: EpochMs): MaybePromise<string[]>;

  /**
   * Notes that a user confirmed the password with a credential, until a time, unless the user is not as verified any more.
   * The check and the write are one step.
   *
   * @param credentialId id of a token or session of that user
   */
  grantSudo(
    owner: VerifiedOwner,
    credentialId: string,
    until: EpochMs,
    now: EpochMs,
  ): Promise<'granted' | 'owner_changed'>;
  /** Whether a confirmation of the password by this user and credential is not over by `now`. */
  hasSudo(userId: string, credentialId: string, now: EpochMs): MaybePromise<boolean>;

  /** The keys that sign assertions; `undefined` when none were made. */
  getSigningKeys(): MaybePromise<SigningKeys | undefined>;
  /**
   * Writes the signing keys when those that are there have the revision before, or none are there and the revision is 1.
   * Returns whether it wrote. The check and the write are one step.
   */
  replaceSigningKeys(next: SigningKeys): Promise<boolean>;
  /** Removes the signing keys, readable or not. Returns whether some were there. */
  removeSigningKeys(): Promise<boolean>;

  /**
   * How many tokens and legacy keys are not expired. It is cheap, however many there are, and right behind
   * {@link removeExpired}: a store may take for an expired token what else expired since then.
   */
  countActiveTokens(now: EpochMs): MaybePromise<number>;

  /**
   * Removes what nobody can use any more: sessions past their end or idle, tokens that expired before
   * `tokensBefore`, forgotten login attempts and addresses, sudos that are over. Removes at most `limit` records and returns how many.
   */
  removeExpired(now: EpochMs, tokensBefore: EpochMs, limit: number): Promise<number>;

  /**
   * Begins the store when there is none yet, and checks that this Latchkey can use it. Whoever starts calls it once;
   * a worker that is replaced does not, so that a store that was emptied is noticed and not begun anew.
   *
   * @param purpose of one who brings an unfinished restore to its end; everyone else is refused such a store
   * @throws StoreUnusable when it can't be used as it is; {@link StoreUnavailable} when it can't answer
   */
  begin(purpose?: 'restore'): Promise<void>;
  /** Whether records of another store are being written into this one, or were until that was interrupted. */
  isRestoring(): MaybePromise<boolean>;
  /** Notes that such a restore begins, or is done. */
  setRestoring(restoring: boolean): Promise<void>;
  /** Resolves when the store answers, throws {@link StoreUnavailable} otherwise. */
  probe(): Promise<void>;
  /** Resolves when the store takes a write, to a key that nothing else uses; throws {@link StoreUnavailable} otherwise. */
  probeWrite(): Promise<void>;
  /** Waits for what is being written and closes. */
  close(): Promise<void>;
}

/** The store is not what it has to be, and an operator has to fix it. */
export class StoreUnusable extends Error {
  readonly code = 'STORE_UNUSABLE';
}

/** What {@link Store.begin} says of a store that holds a part of another one. */
export const UNFINISHED_RESTORE =
  'the store holds a part of a backup or of another store, because writing it was interrupted; run "latchkey store restore" or "latchkey store copy" again';

/** The store can't answer now. */
export class StoreUnavailable extends Unavailable {
  constructor(
    message: string,
    options?: ErrorOptions,
    refusal: 'store_unavailable' | 'outcome_unknown' = 'store_unavailable',
  ) {
    super({ refusal }, message, options);
    this.name = 'StoreUnavailable';
  }
}

/**
 * A change was sent and its answer did not come, and the store could not be asked in time whether it was made. It is
 * neither done nor undone: the answer says that.
 */
export class OutcomeUnknown extends StoreUnavailable {
  constructor(reason: string, options?: ErrorOptions) {
    super(`the change is not confirmed; it may have been applied (${reason})`, options, 'outcome_unknown');
    this.name = 'OutcomeUnknown';
  }
}

/** A record is damaged, or written by a newer Latchkey. It is never taken for "not there". */
export class RecordUnreadable extends StoreUnavailable {}
