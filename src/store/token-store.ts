import type { MaybePromise } from '../domain/maybe-promise.js';
import type { Rotation } from '../domain/rotation.js';
import type { EpochMs } from '../domain/time.js';
import type { Token, TokenUse } from '../domain/token.js';
import type { User, VerifiedOwner } from '../domain/user.js';

/** A token with its owner, as one look-up gives them. */
export interface TokenWithOwner {
  readonly token: Token;
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
  /** Of all that are stored; to add one, the expired ones that ended first are removed. */
  readonly stored: number | null;
}

/** What became of a token to create: `limit_reached` by active ones, `full` by those that are stored. */
export type TokenCreation = 'created' | 'limit_reached' | 'full' | 'owner_changed';

/**
 * The names by which a revoked token is remembered: with any of them it never comes back. Only what a directory file
 * declares can come back.
 */
export function namesOfRevoked({ id, digest, kind, declared }: Token): readonly string[] {
  // A colon is no part of a digest.
  if (declared) return [`id:${id}`, digest];
  return kind === 'legacy_key' ? [digest] : [];
}

/** What became of a rotation: `changed` when the old token is not as it was read, or gone. */
export type TokenRotation = 'rotated' | 'changed' | Exclude<TokenCreation, 'created'>;

/** What became of a token to change: `changed_meanwhile` when its record is not the one that was read. */
export type TokenUpdate = 'updated' | 'not_found' | 'changed_meanwhile';

/** A token by its id, and when it expires. */
export interface ExpiringToken {
  readonly id: string;
  readonly expiresAt: EpochMs;
}

/** API tokens and legacy keys. */
export interface TokenStore {
  find(digest: string): MaybePromise<TokenWithOwner | undefined>;
  get(id: string): MaybePromise<TokenWithUse | undefined>;
  listOfUser(userId: string): MaybePromise<TokenWithUse[]>;
  listOfCustomer(customerId: string): MaybePromise<TokenWithUse[]>;
  /**
   * Whether the users of a customer have so many tokens, expired ones included. Creations meanwhile may be missing. It is
   * cheap while the whole store holds fewer.
   */
  customerHasAtLeast(customerId: string, count: number): MaybePromise<boolean>;
  /**
   * How many tokens and legacy keys are not expired. It is cheap, however many there are, and right after
   * `Maintenance.removeExpired`: a store may take for an expired token what else expired since then.
   */
  countActive(now: EpochMs): MaybePromise<number>;
  /** Tokens that expire after `from`, and at `until` at the latest. Rotated ones, which have a replacement, are left out. */
  listExpiring(from: EpochMs, until: EpochMs): MaybePromise<ExpiringToken[]>;
  /** Which of some tokens nobody claimed for the expiry that they have: whoever claims one tells of it. The check and the claim are one step. */
  claimWarnings(ids: readonly string[], now: EpochMs): Promise<string[]>;

  /** Adds a token unless its owner is not as verified any more or has as many as the limits allow, in one step. */
  create(token: Token, owner: VerifiedOwner, limits: TokenLimits, now: EpochMs): Promise<TokenCreation>;
  /**
   * Adds the replacement and writes the old token, in one step; when that can't be done, neither. A token in its overlap
   * has given its place among the active ones to its replacement, so that there may be as many in their overlap as active.
   */
  rotate(rotation: Rotation, owner: VerifiedOwner, limits: TokenLimits, now: EpochMs): Promise<TokenRotation>;
  /** How many rotated tokens are still accepted. Those that were claimed lately may be among them. */
  countInOverlap(now: EpochMs): MaybePromise<number>;
  /**
   * Rotated tokens whose overlap ended before a time, for one who reports that: nobody else gets them until another time,
   * nor afterwards when they were finished.
   */
  claimEndedOverlaps(endedBefore: EpochMs, until: EpochMs, limit: number): Promise<TokenWithUse[]>;
  /** Their end was reported. */
  finishOverlaps(ids: readonly string[]): Promise<void>;
  /**
   * Replaces a token's record, whose id, digest, owner, kind and expiry stay the same, unless somebody else did since it was
   * read. What restricts it from then on is seen like a revocation, by the next look-up of every process.
   *
   * @param token the new record; its `updatedAt` is later than that of the one before
   * @param basedOn `updatedAt` of the record that was read
   */
  update(token: Token, basedOn: EpochMs): Promise<TokenUpdate>;
  /** Revokes tokens by id, all or none. Returns the ids that are not there; empty when all were revoked. */
  revoke(ids: readonly string[]): Promise<string[]>;

  /** Whether any legacy key exists; while none does, values without a token's form need no look-up. */
  hasLegacyKeys(): MaybePromise<boolean>;
  /** Which of some digests are no token's, nor that of a legacy key that was revoked: those that can be imported. */
  filterNewDigests(digests: readonly string[]): MaybePromise<string[]>;
  /** The tokens that a directory file declares, expired ones included. */
  listDeclared(): MaybePromise<TokenWithUse[]>;
  /** Which of some names ({@link namesOfRevoked}) were revoked. */
  filterRevoked(names: readonly string[]): MaybePromise<string[]>;
  /** Digests and other names ({@link namesOfRevoked}) of what was revoked and must not come back. */
  listRevokedDigests(): MaybePromise<string[]>;
  /** Marks digests and other such names as revoked. */
  addRevokedDigests(digests: readonly string[]): Promise<void>;
}
