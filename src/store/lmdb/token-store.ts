import type { ExpiringToken, TokenLimits, TokenRotation, TokenStore, TokenWithUse } from '../token-store.js';
import { countExpired } from './expiry.js';
import { expiringRange } from './expiry-range.js';
import type { Lists } from './lists.js';
import type { LookUps } from './look-ups.js';
import { queueExpiring } from './webhook-events.js';
import { readToken, readTokenWithUse, readUser } from './read.js';
import {
  addToken,
  countedTokensOf,
  countLegacyKeys,
  countTokens,
  createToken,
  familyOf,
  isNewDigest,
  removeExcess,
  replaceToken,
  revokeTokens,
  updateToken,
} from './tokens.js';
import type { Transactions } from './transactions.js';
import { isDeepStrictEqual } from 'node:util';
import type { Rotation } from '../../domain/rotation.js';
import type { EpochMs } from '../../util/time.js';
import { isAsVerified, type VerifiedOwner } from '../../domain/user.js';
import type { Databases } from './databases.js';

export function lmdbTokenStore(transactions: Transactions, lookUps: LookUps, lists: Lists): TokenStore {
  const overlaps = new Overlaps(transactions);
  return {
    find: (digest) => transactions.read(() => lookUps.token(digest)),
    get: (id) => transactions.read((dbs) => readTokenWithUse(dbs, id)),
    family: (id, limit) => transactions.read((dbs) => readFamily(dbs, id, limit)),
    listOfUser: (userId) => lists.tokens([userId]),
    listOfCustomer: (customerId) => lists.tokensOfCustomer(customerId),
    customerHasAtLeast: async (customerId, count) => {
      if (transactions.read(countTokens) < count) return false;
      return (await lists.countTokens(customerId)) >= count;
    },
    countActive: (now) => transactions.read((dbs) => countTokens(dbs) - countExpired(dbs, now)),
    listExpiring: async (from, until) => {
      const found: ExpiringToken[] = [];
      await transactions.scan(
        ({ expiry }) => expiry,
        [expiringRange(from, until)],
        ({ overlaps: rotated }, [expiresAt, kind, id]) => {
          if (kind === 'token' && !rotated.doesExist(id)) found.push({ id, expiresAt });
        },
      );
      return found;
    },
    claimWarnings: async (ids) =>
      transactions.write((dbs) => {
        const { warned, outbox } = dbs;
        return ids.filter((id) => {
          const token = readToken(dbs, id);
          const at = token?.expiresAt ?? null;
          if (at === null || warned.get(id) === at) return false;
          warned.putSync(id, at);
          if (outbox.subscriptions.length > 0) queueExpiring(dbs, token);
          return true;
        });
      }),
    create: async (token, owner, limits, now) =>
      transactions.write((dbs) => createToken(dbs, token, owner, limits, now)),
    rotate: async (rotation, owner, limits, now) =>
      transactions.write((dbs) => rotateToken(dbs, rotation, owner, limits, now)),
    countInOverlap: (now) => overlaps.count(now),
    claimEndedOverlaps: (endedBefore, until, limit) => overlaps.claimEnded(endedBefore, until, limit),
    finishOverlaps: (ids) => overlaps.finish(ids),
    // It adds only a few bytes, and suspending must always work.
    update: async (token, basedOn, more = {}) =>
      transactions.remove((dbs) => updateToken(dbs, { token, basedOn }, more)),
    revoke: async (ids) => transactions.remove((dbs) => revokeTokens(dbs, ids)),
    hasLegacyKeys: () => transactions.read(countLegacyKeys) > 0,
    filterNewDigests: (digests) =>
      transactions.read((dbs) => digests.filter((digest) => isNewDigest(dbs, digest))),
    listDeclared: () => lists.declaredTokens(),
    filterRevoked: (names) =>
      transactions.read(({ revoked }) => names.filter((name) => revoked.doesExist(name))),
    listRevokedDigests: () => lists.keys('revoked'),
    addRevokedDigests: async (digests) =>
      transactions.remove(({ revoked }) => {
        for (const digest of digests) revoked.putSync(digest, true);
      }),
  };
}

function readFamily(dbs: Databases, id: string, limit?: number): TokenWithUse[] {
  return readTokens(dbs, familyOf(dbs, id, limit));
}

function readTokens(dbs: Databases, ids: readonly string[]): TokenWithUse[] {
  return ids.map((id) => readTokenWithUse(dbs, id)).filter((found) => found !== undefined);
}

/** Rotates a token within the owner's limits. Run it in a write transaction. */
function rotateToken(
  dbs: Databases,
  { before, old, replacement }: Rotation,
  owner: VerifiedOwner,
  { active, stored }: TokenLimits,
  now: EpochMs,
): TokenRotation {
  if (!isDeepStrictEqual(readToken(dbs, before.id), before)) return 'changed';
  if (owner.id !== before.userId || !isAsVerified(readUser(dbs, owner.id), owner)) return 'owner_changed';
  if (active !== null) {
    const { inOverlap } = countedTokensOf(dbs, owner.id, now);
    if (inOverlap >= active) return 'limit_reached';
  }
  if (stored !== null && !removeExcess(dbs, owner.id, stored, now)) return 'full';
  replaceToken(dbs, before, old);
  addToken(dbs, replacement);
  return 'rotated';
}

/** Rotated tokens and the ends of their overlaps. There are few. */
class Overlaps {
  readonly #transactions: Transactions;

  constructor(transactions: Transactions) {
    this.#transactions = transactions;
  }

  async count(now: EpochMs): Promise<number> {
    return (await this.#ids((at) => at > now, Infinity)).length;
  }

  async claimEnded(endedBefore: EpochMs, until: EpochMs, limit: number): Promise<TokenWithUse[]> {
    const due = await this.#ids((at) => at < endedBefore, limit);
    if (due.length === 0) return [];
    return this.#transactions.write((dbs) => {
      const claimed = due.filter((id) => (dbs.overlaps.get(id) ?? Infinity) < endedBefore);
      for (const id of claimed) dbs.overlaps.putSync(id, until);
      return readTokens(dbs, claimed);
    }, 'removal');
  }

  async finish(ids: readonly string[]): Promise<void> {
    this.#transactions.remove(({ overlaps }) => {
      for (const id of ids) overlaps.removeSync(id);
    });
  }

  async #ids(isWanted: (at: EpochMs) => boolean, limit: number): Promise<string[]> {
    const found: string[] = [];
    await this.#transactions.scan(
      ({ overlaps }) => overlaps,
      [{}],
      ({ overlaps }, id) => {
        if (isWanted(overlaps.get(id) ?? Infinity)) found.push(id);
        return found.length < limit ? undefined : 'stop';
      },
    );
    return found;
  }
}
