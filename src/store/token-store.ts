import type { MaybePromise } from '../util/async.js';
import type { Rotation } from '../domain/rotation.js';
import type { EpochMs } from '../util/time.js';
import type { Token, TokenUse } from '../domain/token.js';
import type { User, VerifiedOwner } from '../domain/user.js';
import type { WebhookEventType } from '../domain/webhook.js';

/** A token and its owner, as returned by one look-up. */
export interface TokenWithOwner {
  readonly token: Token;
  readonly owner: User;
}

/** A token and its last use; null if it was never used. */
export interface TokenWithUse {
  readonly token: Token;
  readonly use: TokenUse | null;
}

/** Maximum number of tokens per user; null means no limit. */
export interface TokenLimits {
  /** Limit on tokens that have not expired. */
  readonly active: number | null;
  /** Limit on all stored tokens. To add one, the tokens that expired first are removed. */
  readonly stored: number | null;
}

/**
 * The outcome of creating a token. `limit_reached`: too many active tokens;
 * `full`: too many stored tokens.
 */
export type TokenCreation = 'created' | 'limit_reached' | 'full' | 'owner_changed';

/**
 * Returns the names that prevent a revoked token from being added again. Only a directory file
 * could add one again, so other tokens have none.
 */
export function namesOfRevoked({ id, digest, kind, declared }: Token): readonly string[] {
  // Digests contain no colon.
  if (declared) return [`id:${id}`, digest];
  return kind === 'legacy_key' ? [digest] : [];
}

/** The outcome of a rotation. `changed`: the old token was changed or removed since it was read. */
export type TokenRotation = 'rotated' | 'changed' | Exclude<TokenCreation, 'created'>;

/** The outcome of an update. `changed_meanwhile`: the record is not the one that was read. */
export type TokenUpdate = 'updated' | 'not_found' | 'changed_meanwhile';

/** A new record of a token, and `updatedAt` of the record that was read. */
export interface TokenChange {
  readonly token: Token;
  readonly basedOn: EpochMs;
}

/** What goes with the update of a token. */
export interface FurtherChanges {
  readonly others?: readonly TokenChange[];
  readonly event?: WebhookEventType;
}

/** What a revocation reached. If a token is missing, none is revoked. */
export interface TokenRevocation {
  /** Those given ids of which there is neither the token nor one that came from it. */
  readonly missing: readonly string[];
  readonly revoked: readonly string[];
}

/** The id of a token and when it expires. */
export interface ExpiringToken {
  readonly id: string;
  readonly expiresAt: EpochMs;
}

/** API tokens and legacy keys. */
export interface TokenStore {
  find(digest: string): MaybePromise<TokenWithOwner | undefined>;
  get(id: string): MaybePromise<TokenWithUse | undefined>;
  /**
   * Returns a token, unless it is gone, and those that came from it by rotation, in this order: what
   * the store holds at one moment, expired ones included, but no more than `limit`.
   */
  family(id: string, limit?: number): MaybePromise<TokenWithUse[]>;
  listOfUser(userId: string): MaybePromise<TokenWithUse[]>;
  listOfCustomer(customerId: string): MaybePromise<TokenWithUse[]>;
  /**
   * Whether the users of a customer have at least `count` tokens, expired ones included. Concurrent
   * creations may be missed. This is cheap while the whole store holds fewer.
   */
  customerHasAtLeast(customerId: string, count: number): MaybePromise<boolean>;
  /**
   * Counts the tokens and legacy keys that have not expired, cheaply for any number of them. The
   * count is exact right after `Maintenance.removeExpired`. Later, a store may subtract other
   * records that have expired since.
   */
  countActive(now: EpochMs): MaybePromise<number>;
  /**
   * Lists tokens that expire after `from` and no later than `until`. Rotated tokens are left out:
   * they have a replacement.
   */
  listExpiring(from: EpochMs, until: EpochMs): MaybePromise<ExpiringToken[]>;
  /**
   * Claims the expiry warnings of tokens, each once per expiry, and returns the ids that were
   * claimed. Whoever claims a warning reports it. The check and the claim are atomic.
   */
  claimWarnings(ids: readonly string[], now: EpochMs): Promise<string[]>;

  /** Adds a token, unless its owner changed since being verified or a limit is reached. Atomic. */
  create(token: Token, owner: VerifiedOwner, limits: TokenLimits, now: EpochMs): Promise<TokenCreation>;
  /**
   * Adds the replacement and updates the old token, both or neither. The replacement
   * takes the old token's place among the active tokens. So as many tokens may be in
   * their overlap as may be active.
   */
  rotate(rotation: Rotation, owner: VerifiedOwner, limits: TokenLimits, now: EpochMs): Promise<TokenRotation>;
  /** Counts rotated tokens that are still accepted. Recently claimed ones may be included. */
  countInOverlap(now: EpochMs): MaybePromise<number>;
  /**
   * Claims rotated tokens whose overlap ended before a time, for the caller to report. No other
   * caller gets them before `until`, or ever after {@link finishOverlaps}.
   */
  claimEndedOverlaps(endedBefore: EpochMs, until: EpochMs, limit: number): Promise<TokenWithUse[]>;
  /** Marks the end of these overlaps as reported. */
  finishOverlaps(ids: readonly string[]): Promise<void>;
  /**
   * Replaces a token's record unless it changed since it was read. The id, digest, owner, kind and
   * expiry must stay the same. New restrictions take effect like a revocation: with the next
   * look-up of every process.
   *
   * @param token the new record; its `updatedAt` is later than that of the previous one
   * @param basedOn `updatedAt` of the record that was read
   * @param more changes that are made with it or not at all; a webhook event that it causes
   */
  update(token: Token, basedOn: EpochMs, more?: FurtherChanges): Promise<TokenUpdate>;
  /** Revokes tokens by id, with all that came from them by rotation: all of them or none. */
  revoke(ids: readonly string[]): Promise<TokenRevocation>;

  /**
   * Whether any legacy key exists. If none does, values without the
   * form of a token need no look-up.
   */
  hasLegacyKeys(): MaybePromise<boolean>;
  /** Returns the digests that can be imported: not of a token, nor of a revoked legacy key. */
  filterNewDigests(digests: readonly string[]): MaybePromise<string[]>;
  /** Lists the tokens that a directory file declares, expired ones included. */
  listDeclared(): MaybePromise<TokenWithUse[]>;
  /** Returns those of the names ({@link namesOfRevoked}) that were revoked. */
  filterRevoked(names: readonly string[]): MaybePromise<string[]>;
  /** Lists the digests and other names ({@link namesOfRevoked}) that cannot be added again. */
  listRevokedDigests(): MaybePromise<string[]>;
  /** Marks digests and other such names as revoked. */
  addRevokedDigests(digests: readonly string[]): Promise<void>;
}
