/** Rotation of tokens, and the reports of overlaps that ended. */
import { OVERLAPS, tokensOf } from './indexes.js';
import { isDeepStrictEqual } from 'node:util';
import type { Rotation } from '../../domain/token.js';
import { isAsVerified, type VerifiedOwner } from '../../domain/user.js';
import type { EpochMs } from '../../util/time.js';
import type { TokenLimits, TokenRotation, TokenStore, TokenWithUse } from '../token-store.js';
import type { Events } from './events.js';
import { GUARD, USE, USER } from './kinds.js';
import type { Transaction, Transactor } from './transaction.js';
import { addToken, countedOf, makeRoom, readToken, replaceToken } from './token-records.js';

type RotationStore = Pick<TokenStore, 'rotate' | 'countInOverlap' | 'claimEndedOverlaps' | 'finishOverlaps'>;

export function rotationStore(transactor: Transactor, events: Events): RotationStore {
  const { kv } = transactor;
  return {
    rotate: async (rotation, owner, limits, now) =>
      transactor.transact(async (tx) => rotateToken(tx, events, rotation, owner, limits, now), {
        guard: tokensOf(owner.id),
      }),
    countInOverlap: (now) => kv.count(OVERLAPS, now + 1),
    claimEndedOverlaps: async (endedBefore, until, limit) =>
      transactor.transact(async (tx) => claimEnded(tx, endedBefore, until, limit), {
        guard: OVERLAPS,
        isReserved: true,
      }),
    finishOverlaps: async (ids) =>
      transactor.transact(
        async (tx) => {
          for (const id of ids) tx.unlink(OVERLAPS, id);
        },
        { guard: OVERLAPS, isReserved: true },
      ),
  };
}

async function rotateToken(
  tx: Transaction,
  events: Events,
  { before, old, replacement }: Rotation,
  owner: VerifiedOwner,
  { active, stored }: TokenLimits,
  now: EpochMs,
): Promise<TokenRotation> {
  if (!isDeepStrictEqual(await readToken(tx, before.id), before)) return 'changed';
  if (owner.id !== before.userId || !isAsVerified(await tx.get(USER, owner.id), owner))
    return 'owner_changed';
  if (active !== null && (await countedOf(tx, owner.id, now)).inOverlap >= active) return 'limit_reached';
  if (stored !== null && !(await makeRoom(tx, events, owner.id, stored, now))) return 'full';
  await replaceToken(tx, events, before, old);
  await addToken(tx, events, replacement);
  tx.tell(`ends:${old.expiresAt}:${old.id}`);
  return 'rotated';
}

/** Claims overlaps that ended: their scores become the time until which the claim holds. */
async function claimEnded(
  tx: Transaction,
  endedBefore: EpochMs,
  until: EpochMs,
  limit: number,
): Promise<TokenWithUse[]> {
  // One of several callers claims them: each changes this record, and read it before the index.
  await tx.has(GUARD, OVERLAPS);
  const due = await tx.range(OVERLAPS, { to: endedBefore - 1, limit });
  if (due.length === 0) return [];
  tx.put(GUARD, OVERLAPS, {});
  const claimed: TokenWithUse[] = [];
  for (const { name } of due) {
    tx.link(OVERLAPS, name, until);
    const token = await readToken(tx, name);
    if (token !== undefined) claimed.push({ token, use: (await tx.peek(USE, name)) ?? null });
  }
  return claimed;
}
