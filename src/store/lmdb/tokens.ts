import type { EpochMs } from '../../domain/time.js';
import { isExpired, type Token, type TokenUse } from '../../domain/token.js';
import { encode } from '../records.js';
import { type Databases, listIndex } from './databases.js';
import { readToken, readUse, readUser } from './read.js';

/** As bytes, because every key that is no access token asks for it and a text is written into the store's key slowly. */
const LEGACY_COUNT = Buffer.from('legacy_keys');

/** Whether a token is there and still works. */
export function isActive(token: Token | undefined, now: EpochMs): boolean {
  return token !== undefined && !isExpired(token, now);
}

/** Whether a digest is no token's and no revoked legacy key's. */
export function isNewDigest(dbs: Databases, digest: string): boolean {
  return !dbs.tokens.doesExist(digest) && !dbs.revoked.doesExist(digest);
}

/** How many legacy keys there are. */
export function countLegacyKeys(dbs: Databases): number {
  return dbs.meta.get(LEGACY_COUNT) ?? 0;
}

/** How many tokens and legacy keys there are, expired ones included. */
export function countTokens(dbs: Databases): number {
  return (dbs.tokens.getStats() as { entryCount: number }).entryCount;
}

/** Writes a token with its indexes. Run it in a write transaction. */
export function addToken(dbs: Databases, token: Token): void {
  dbs.tokens.putSync(token.digest, encode(token));
  dbs.tokenIds.putSync(token.id, token.digest);
  dbs.tokensOf.putSync([token.userId, token.id], true);
  if (token.expiresAt !== null) dbs.expiry.putSync([token.expiresAt, 'token', token.id], true);
  if (token.kind === 'legacy_key') dbs.meta.putSync(LEGACY_COUNT, countLegacyKeys(dbs) + 1);
}

/** Removes a token with its indexes and its use. Run it in a write transaction. */
export function removeToken(dbs: Databases, token: Token): void {
  dbs.tokens.removeSync(token.digest);
  dbs.tokenIds.removeSync(token.id);
  dbs.tokensOf.removeSync([token.userId, token.id]);
  dbs.uses.removeSync(token.id);
  if (token.expiresAt !== null) dbs.expiry.removeSync([token.expiresAt, 'token', token.id]);
  if (token.kind === 'legacy_key') dbs.meta.putSync(LEGACY_COUNT, countLegacyKeys(dbs) - 1);
}

/** Adds a token within the owner's limit. Run it in a write transaction. */
export function createToken(
  dbs: Databases,
  token: Token,
  maxPerUser: number | null,
  now: EpochMs,
): 'created' | 'limit_reached' | 'owner_gone' {
  if (readUser(dbs, token.userId) === undefined) return 'owner_gone';
  if (maxPerUser !== null) {
    const active = listIndex(dbs.tokensOf, token.userId).filter((id) => isActive(readToken(dbs, id), now));
    if (active.length >= maxPerUser) return 'limit_reached';
  }
  addToken(dbs, token);
  return 'created';
}

/** Revokes tokens, all or none; returns the ids that are not there. Run it in a write transaction. */
export function revokeTokens(dbs: Databases, ids: readonly string[]): string[] {
  const tokens = new Map(ids.map((id) => [id, readToken(dbs, id)]));
  const missing = [...tokens].filter(([, token]) => token === undefined).map(([id]) => id);
  if (missing.length > 0) return missing;
  for (const token of tokens.values()) {
    if (token === undefined) continue;
    removeToken(dbs, token);
    if (token.kind === 'legacy_key') dbs.revoked.putSync(token.digest, true);
  }
  return [];
}

/** Writes a token's use down unless the token is gone or a newer use is known. */
export function recordTokenUse(dbs: Databases, tokenId: string, use: TokenUse): void {
  if (!dbs.tokenIds.doesExist(tokenId)) return;
  const known = readUse(dbs, tokenId);
  if (known === null || known.at < use.at) dbs.uses.putSync(tokenId, encode(use));
}
