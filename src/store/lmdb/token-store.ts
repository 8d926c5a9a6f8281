import type { ExpiringToken, TokenStore } from '../token-store.js';
import { countExpired, expiringRange } from './expiry.js';
import type { Lists } from './lists.js';
import type { LookUps } from './look-ups.js';
import { tellExpiring } from './webhook-events.js';
import { readToken, readTokenWithUse } from './read.js';
import { Overlaps, rotateToken } from './rotations.js';
import {
  countLegacyKeys,
  countTokens,
  createToken,
  isNewDigest,
  revokeTokens,
  updateToken,
} from './tokens.js';
import type { Transactions } from './transactions.js';

export function lmdbTokenStore(transactions: Transactions, lookUps: LookUps, lists: Lists): TokenStore {
  const overlaps = new Overlaps(transactions);
  return {
    find: (digest) => transactions.read(() => lookUps.token(digest)),
    get: (id) => transactions.read((dbs) => readTokenWithUse(dbs, id)),
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
          if (outbox.subscriptions.length > 0) tellExpiring(dbs, token);
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
    update: async (token, basedOn) => transactions.remove((dbs) => updateToken(dbs, token, basedOn)),
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
