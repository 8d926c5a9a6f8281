import type { MaybePromise } from '../util/async.js';
import type { Rotation, Token, TokenUse } from '../domain/token.js';
import type { EpochMs } from '../util/time.js';
import type { User, VerifiedOwner } from '../domain/user.js';
import type { WebhookEventType } from '../domain/webhook.js';

export interface TokenWithOwner {
  readonly token: Token;
  readonly owner: User;
}

/** `use` is null if it was never used. */
export interface TokenWithUse {
  readonly token: Token;
  readonly use: TokenUse | null;
}

/** null: no limit. */
export interface TokenLimits {
  /** Limit on tokens that have not expired. */
  readonly active: number | null;
  /** Limit on all stored tokens. To add one, the tokens that expired first are removed. */
  readonly stored: number | null;
  /** Limit on all stored tokens of the users of a customer, as {@link TokenStore.customerHasAtLeast}. */
  readonly ofCustomer?: { readonly id: string; readonly most: number };
}

export type TokenCreation = 'created' | 'limit_reached' | 'full' | 'customer_full' | 'owner_changed';

/** Names that keep a revoked token from being added again, which only a directory file could do. */
export function namesOfRevoked({ id, digest, kind, declared }: Token): readonly string[] {
  // Digests contain no colon.
  if (declared) return [`id:${id}`, digest];
  return kind === 'legacy_key' ? [digest] : [];
}

/** The outcome of a rotation. `changed`: the old token was changed or removed since it was read. */
export type TokenRotation = 'rotated' | 'changed' | Exclude<TokenCreation, 'created' | 'customer_full'>;

export type TokenUpdate = 'updated' | 'not_found' | 'changed_meanwhile';

export interface TokenChange {
  readonly token: Token;
  readonly basedOn: EpochMs;
}

export interface FurtherChanges {
  readonly others?: readonly TokenChange[];
  readonly event?: WebhookEventType;
}

/**
 * Gets what is about to be revoked, by given id, before it is; again if it has changed meanwhile.
 */
export type OnFound = (families: ReadonlyMap<string, readonly TokenWithUse[]>) => void;

/** What a revocation reached. If a token is missing, none is revoked. */
export interface TokenRevocation {
  /** Those given ids of which there is neither the token nor one that came from it. */
  readonly missing: readonly string[];
  readonly revoked: readonly string[];
}

export interface ExpiringToken {
  readonly id: string;
  readonly expiresAt: EpochMs;
}

export interface TokenStore {
  find(digest: string): MaybePromise<TokenWithOwner | undefined>;
  get(id: string): MaybePromise<TokenWithUse | undefined>;
  getWithOwner(
    id: string,
  ): MaybePromise<{ readonly found: TokenWithUse; readonly owner: User | undefined } | undefined>;
  /** Returns a token, unless it is gone, and those that came from it by rotation, expired ones included. */
  family(id: string, limit?: number): MaybePromise<TokenWithUse[]>;
  listOfUser(userId: string): MaybePromise<TokenWithUse[]>;
  listOfCustomer(customerId: string): MaybePromise<TokenWithUse[]>;
  /** Expired ones count. Cheap while the whole store holds fewer; concurrent creations may be missed. */
  customerHasAtLeast(customerId: string, count: number): MaybePromise<boolean>;
  /** Exact right after `Maintenance.removeExpired`. */
  countActive(now: EpochMs): MaybePromise<number>;
  /** Those that expire after `from` and no later than `until`, without rotated ones. */
  listExpiring(from: EpochMs, until: EpochMs): MaybePromise<ExpiringToken[]>;
  /** Claims expiry warnings, each once per expiry; whoever claims one reports it. */
  claimWarnings(ids: readonly string[], now: EpochMs): Promise<string[]>;

  /** Adds a token, unless its owner changed since being verified or a limit is reached. Atomic. */
  create(token: Token, owner: VerifiedOwner, limits: TokenLimits, now: EpochMs): Promise<TokenCreation>;
  /** Adds the replacement, which takes the old token's place among the active ones, and updates the old. */
  rotate(rotation: Rotation, owner: VerifiedOwner, limits: TokenLimits, now: EpochMs): Promise<TokenRotation>;
  /** Counts rotated tokens that are still accepted. Recently claimed ones may be included. */
  countInOverlap(now: EpochMs): MaybePromise<number>;
  /** For the caller to report; no other one gets them before `until`, or after {@link finishOverlaps}. */
  claimEndedOverlaps(endedBefore: EpochMs, until: EpochMs, limit: number): Promise<TokenWithUse[]>;
  finishOverlaps(ids: readonly string[]): Promise<void>;
  /**
   * Replaces a record unless it changed since `basedOn`. Id, digest, owner, kind and expiry must stay.
   * @param more made with it or not at all
   */
  update(token: Token, basedOn: EpochMs, more?: FurtherChanges): Promise<TokenUpdate>;
  /** Revokes tokens by id, with all that came from them by rotation: all of them or none. */
  revoke(ids: readonly string[], onFound?: OnFound): Promise<TokenRevocation>;

  /** If none exists, values without the form of a token need no look-up. */
  hasLegacyKeys(): MaybePromise<boolean>;
  /** Returns the digests that can be imported: not of a token, nor of a revoked legacy key. */
  filterNewDigests(digests: readonly string[]): MaybePromise<string[]>;
  listDeclared(): MaybePromise<TokenWithUse[]>;
  /** Returns those of the names ({@link namesOfRevoked}) that were revoked. */
  filterRevoked(names: readonly string[]): MaybePromise<string[]>;
  listRevokedDigests(): MaybePromise<string[]>;
  addRevokedDigests(digests: readonly string[]): Promise<void>;
}
