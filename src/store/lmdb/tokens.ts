import type { EpochMs } from '../../util/time.js';
import { idsAfter, isExpired, outermost, type Token, type TokenUse } from '../../domain/token.js';
import { encode } from '../records.js';
import { nameOfChange } from '../revocations.js';
import {
  type FurtherChanges,
  namesOfRevoked,
  type TokenChange,
  type TokenLimits,
  type TokenRevocation,
  type TokenUpdate,
} from '../token-store.js';
import { countIndex, type Databases, indexRange, isKey } from './databases.js';
import { noteEnded } from './ended-log.js';
import { isAsVerified, type VerifiedOwner } from '../../domain/user.js';
import { queueCreated, queueRemoved, queueReplaced, queueTokenEvent } from './webhook-events.js';
import { readToken, readUser } from './read.js';

/**
 * As bytes: it is read for every key that is no access token, and the store
 * writes strings into its keys slowly.
 */
const LEGACY_COUNT = Buffer.from('legacy_keys');

/** Whether a digest belongs neither to a token nor to a revoked legacy key. */
export function isNewDigest(dbs: Databases, digest: string): boolean {
  return !dbs.tokens.doesExist(digest) && !dbs.revoked.doesExist(digest);
}

export function countLegacyKeys(dbs: Databases): number {
  return dbs.meta.get(LEGACY_COUNT) ?? 0;
}

/** Counts all tokens and legacy keys, including expired ones. */
export function countTokens(dbs: Databases): number {
  return (dbs.tokens.getStats() as { entryCount: number }).entryCount;
}

/** Adds a token with its indexes. Run it in a write transaction. */
export function addToken(dbs: Databases, token: Token): void {
  putIndexed(dbs, token);
  queueCreated(dbs, token);
}

function putIndexed(dbs: Databases, token: Token): void {
  dbs.tokens.putSync(token.digest, encode(token));
  dbs.tokenIds.putSync(token.id, token.digest);
  dbs.tokensOf.putSync([token.userId, token.id], token.expiresAt);
  if (token.expiresAt !== null) dbs.expiry.putSync([token.expiresAt, 'token', token.id], true);
  if (token.kind === 'legacy_key') dbs.meta.putSync(LEGACY_COUNT, countLegacyKeys(dbs) + 1);
  if (token.predecessorId !== undefined) dbs.successors.putSync(token.id, true);
  if (token.declared) dbs.declared.putSync(token.id, true);
  if (token.rotated && token.expiresAt !== null) dbs.overlaps.putSync(token.id, token.expiresAt);
}

/** Removes a token with its indexes and its last use. Run it in a write transaction. */
export function removeToken(dbs: Databases, token: Token): void {
  queueRemoved(dbs, token);
  dbs.uses.removeSync(token.id);
  dbs.warned.removeSync(token.id);
  dbs.tokenIds.removeSync(token.id);
  dbs.successors.removeSync(token.id);
  dbs.declared.removeSync(token.id);
  removeIndexed(dbs, token);
}

/** Replaces a token's record and keeps its last use. Run it in a write transaction. */
export function replaceToken(dbs: Databases, before: Token, token: Token): void {
  removeIndexed(dbs, before);
  putIndexed(dbs, token);
  queueReplaced(dbs, before, token);
}

function removeIndexed(dbs: Databases, token: Token): void {
  dbs.tokens.removeSync(token.digest);
  dbs.overlaps.removeSync(token.id);
  dbs.tokensOf.removeSync([token.userId, token.id]);
  if (token.expiresAt !== null) dbs.expiry.removeSync([token.expiresAt, 'token', token.id]);
  if (token.kind === 'legacy_key') dbs.meta.putSync(LEGACY_COUNT, countLegacyKeys(dbs) - 1);
}

/** Adds a token within the owner's limits. Run it in a write transaction. */
export function createToken(
  dbs: Databases,
  token: Token,
  owner: VerifiedOwner,
  { active, stored }: TokenLimits,
  now: EpochMs,
): 'created' | 'limit_reached' | 'full' | 'owner_changed' {
  if (!isAsVerified(readUser(dbs, owner.id), owner)) return 'owner_changed';
  if (active !== null && countedTokensOf(dbs, token.userId, now).counted >= active) return 'limit_reached';
  if (stored !== null && !removeExcess(dbs, token.userId, stored, now)) return 'full';
  addToken(dbs, token);
  return 'created';
}

/**
 * Counts the active tokens of a user: those that count towards a limit, and those in their overlap.
 */
export function countedTokensOf(
  dbs: Databases,
  userId: string,
  now: EpochMs,
): { counted: number; inOverlap: number } {
  const active = activeTokensOf(dbs, userId, now);
  const inOverlap = active.filter((id) => dbs.overlaps.doesExist(id)).length;
  return { counted: active.length - inOverlap, inOverlap };
}

/**
 * Replaces the records of a token and others with ones of the same digest and expiry, all or none.
 * Run it in a write transaction.
 */
export function updateToken(
  dbs: Databases,
  first: TokenChange,
  { others = [], event }: FurtherChanges,
): TokenUpdate {
  const changes = [first, ...others];
  for (const change of changes) {
    const known = readToken(dbs, change.token.id);
    if (known === undefined && change === first) return 'not_found';
    if (known?.updatedAt !== change.basedOn) return 'changed_meanwhile';
  }
  for (const { token } of changes) {
    dbs.tokens.putSync(token.digest, encode(token));
    noteEnded(dbs, nameOfChange(token));
  }
  if (event !== undefined) queueTokenEvent(dbs, event, first.token, Date.now());
  return 'updated';
}

/**
 * Removes a user's expired tokens, earliest expiry first, until one more
 * fits. Returns whether it fits.
 */
export function removeExcess(dbs: Databases, userId: string, stored: number, now: EpochMs): boolean {
  const excess = countIndex(dbs.tokensOf, userId) - stored + 1;
  if (excess <= 0) return true;
  const expired = expiriesOf(dbs, userId).filter((token) => isExpired(token, now));
  if (expired.length < excess) return false;
  expired.sort((a, b) => (a.expiresAt ?? 0) - (b.expiresAt ?? 0));
  for (const { id } of expired.slice(0, excess)) {
    const token = readToken(dbs, id);
    if (token !== undefined) removeToken(dbs, token);
  }
  return true;
}

/** Returns the ids of a user's tokens that have not expired, without reading their records. */
export function activeTokensOf(dbs: Databases, userId: string, now: EpochMs): string[] {
  return expiriesOf(dbs, userId)
    .filter((token) => !isExpired(token, now))
    .map(({ id }) => id);
}

/** Returns when the tokens of a user expire; null for never. */
function expiriesOf(dbs: Databases, userId: string): { id: string; expiresAt: EpochMs | null }[] {
  const range = indexRange(userId);
  if (range === undefined) return [];
  return [...dbs.tokensOf.getRange(range)].map(({ key: [, id], value }) => ({ id, expiresAt: value }));
}

/** Returns the id of a token, unless it is gone, and the ids of those that came from it by rotation. */
export function familyOf(dbs: Databases, id: string, limit?: number): string[] {
  if (!isKey(id)) return [];
  const [start, end] = idsAfter(id);
  const family = [...dbs.successors.getKeys({ start, end, ...(limit === undefined ? {} : { limit }) })];
  return (dbs.tokenIds.doesExist(id) ? [id, ...family] : family).slice(0, limit);
}

/**
 * Revokes tokens and all that came from them, all or none. Run it in a write transaction.
 */
export function revokeTokens(dbs: Databases, ids: readonly string[]): TokenRevocation {
  const missing = ids.filter((id) => familyOf(dbs, id, 1).length === 0);
  if (missing.length > 0) return { missing, revoked: [] };
  const revoked = outermost(ids).flatMap((id) => familyOf(dbs, id));
  for (const id of revoked) {
    const token = readToken(dbs, id);
    if (token !== undefined) revokeToken(dbs, token);
  }
  return { missing, revoked };
}

/** Removes a token for good. Run it in a write transaction. */
export function revokeToken(dbs: Databases, token: Token): void {
  removeToken(dbs, token);
  noteEnded(dbs, `token:${token.id}`);
  for (const name of namesOfRevoked(token)) dbs.revoked.putSync(name, true);
}

/** Records a token's last use, unless the token was removed or a newer use is known. */
export function recordTokenUse(dbs: Databases, tokenId: string, use: TokenUse): void {
  if (!dbs.tokenIds.doesExist(tokenId)) return;
  // A damaged one is replaced.
  if (!((dbs.uses.get(tokenId)?.at ?? 0) >= use.at)) dbs.uses.putSync(tokenId, encode(use));
}
