import { outermost } from '../../domain/token.js';
import { nameOfChange } from '../revocations.js';
import type {
  ExpiringToken,
  TokenCreation,
  TokenRotation,
  TokenStore,
  TokenUpdate,
  TokenWithUse,
} from '../token-store.js';
import { DIGEST_PART } from '../records.js';
import { BATCH, batches } from './batches.js';
import type { RedisClient } from './client.js';
import type { Reads } from './reads.js';
import { ownerText, text, tokenFrom, tokensIn, userFrom } from './records.js';

export function redisTokenStore(client: RedisClient, reads: Reads): TokenStore {
  const listOfUser = async (userId: string) => reads.tokens(await reads.members(`tokens:${userId}`));
  return {
    find: async (digest) => {
      const found = (await client.script('find', 'token:', digest)) as [string, string] | null;
      if (found === null) return undefined;
      const token = tokenFrom(found[0], digest.slice(0, DIGEST_PART));
      return { token, owner: userFrom(found[1], token.userId) };
    },
    get: async (id) => (await reads.tokens([id]))[0],
    family: async (id, limit) => {
      const texts = (await client.script('readFamily', id, limit ?? -1)) as string[];
      return tokensIn(texts).slice(0, limit);
    },
    listOfUser,
    listOfCustomer: async (customerId) => {
      const found: TokenWithUse[] = [];
      for (const userId of await reads.members(`users:${customerId}`))
        found.push(...(await listOfUser(userId)));
      return found;
    },
    customerHasAtLeast: async (customerId, count) => {
      if (Number((await reads.text('count:tokens')) ?? 0) < count) return false;
      let missing = count;
      for (const some of batches(await reads.members(`users:${customerId}`)))
        missing -= (await client.script('countTokens', ...some)) as number;
      return missing <= 0;
    },
    countActive: async (now) => (await client.script('countActive', now)) as number,
    listExpiring: async (from, until) => {
      const found: ExpiringToken[] = [];
      for (let offset = 0; ; offset += BATCH) {
        const answer = await client.script('listExpiring', from, until, offset);
        const [count, rows] = answer as [number, string[]];
        for (let i = 0; i < rows.length; i += 2)
          found.push({ id: rows[i] ?? '', expiresAt: Number(rows[i + 1]) });
        if (count < BATCH) return found;
      }
    },
    claimWarnings: async (ids, now) => {
      const claimed: string[] = [];
      for (const some of batches(ids))
        claimed.push(...((await client.script('claimWarnings', now, ...some)) as string[]));
      return claimed;
    },
    create: async (token, owner, { active, stored }, now) => {
      const args = [text(token), ownerText(owner), active ?? '', stored ?? '', now] as const;
      return (await client.script('createToken', ...args)) as TokenCreation;
    },
    rotate: async ({ before, old, replacement }, owner, { active, stored }, now) => {
      const texts = [before, old, replacement].map(text);
      const args = [...texts, ownerText(owner), active ?? '', stored ?? '', now];
      return (await client.script('rotateToken', ...args)) as TokenRotation;
    },
    countInOverlap: async (now) => (await client.script('countInOverlap', now)) as number,
    claimEndedOverlaps: async (endedBefore, until, limit) => {
      return tokensIn((await client.script('claimEndedOverlaps', endedBefore, until, limit)) as string[]);
    },
    finishOverlaps: async (ids) => {
      for (const some of batches(ids)) await client.script('finishOverlaps', ...some);
    },
    update: async (token, basedOn, { others = [], event = '' as const } = {}) => {
      const rows = [{ token, basedOn }, ...others].map((each) => [text(each.token), each.basedOn, nameOfChange(each.token)]);
      return (await client.script('updateToken', event, ...rows.flat())) as TokenUpdate;
    }, // prettier-ignore
    revoke: async (ids) => {
      if (ids.length === 0) return { missing: [], revoked: [] };
      const first = outermost(ids);
      const all = new Set([...first, ...ids]);
      const [missing, revoked] = (await client.script('revoke', first.length, ...all)) as [
        string[],
        string[],
      ];
      return { missing: ids.filter((id) => missing.includes(id)), revoked };
    },
    hasLegacyKeys: async () => Number((await reads.text('legacy_keys')) ?? 0) > 0,
    filterNewDigests: async (digests) => {
      const fresh: string[] = [];
      for (const some of batches(digests))
        fresh.push(...((await client.script('filterNew', ...some)) as string[]));
      return fresh;
    },
    listDeclared: async () => reads.tokens(await reads.members('declared')),
    filterRevoked: async (names) => {
      const found: string[] = [];
      for (const some of batches(names))
        found.push(...((await client.script('filterRevoked', ...some)) as string[]));
      return found;
    },
    listRevokedDigests: () => reads.members('revoked'),
    addRevokedDigests: async (digests) => {
      for (const some of batches(digests)) await client.script('addRevoked', ...some);
    },
  };
}
