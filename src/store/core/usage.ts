/** Last uses, one-time passwords, counts of writes and of requests; and the keys that sign assertions. */
import { EXPIRY } from './indexes.js';
import { takeFrom } from '../../domain/token.js';
import { mapMaybe } from '../../util/async.js';
import { HOUR_MS } from '../../util/time.js';
import type { SigningKeyStore } from '../store.js';
import { encode } from '../records.js';
import { type UsageStore, WRITES_KEPT_MS } from '../usage-store.js';
import { keyOf, OTP_STEP, RATE, SESSION, SESSION_USE, SIGNING_KEYS, TOKEN_ID, USE, WRITES } from './kinds.js';
import type { Touch } from './kv.js';
import { Transactor, valueAt } from './transaction.js';

export function usageStore(transactor: Transactor): UsageStore {
  const { kv } = transactor;
  const urgent = new Transactor(kv.urgent);
  return {
    recordUses: async ({ tokens, sessions }) => {
      const touches: Touch[] = [];
      for (const [id, use] of tokens)
        touches.push({ key: keyOf(USE, id), at: use.at, value: encode(use), of: keyOf(TOKEN_ID, id) });
      for (const [digest, use] of sessions)
        touches.push({
          key: keyOf(SESSION_USE, digest),
          at: use.at,
          value: encode(use),
          of: keyOf(SESSION, digest),
        });
      await kv.touch(touches);
    },
    takeOtpStep: async (userId, step) =>
      transactor.transact(
        async (tx) => {
          if (((await tx.get(OTP_STEP, userId))?.step ?? -1) >= step) return false;
          tx.put(OTP_STEP, userId, { step });
          return true;
        },
        { guard: `otp:${userId}` },
      ),
    getOtpStep: (userId) => mapMaybe(valueAt(kv, OTP_STEP, userId), (used) => used?.step ?? -1),
    countWrite: async (userId, hour) =>
      transactor.transact(
        async (tx) => {
          const known = await tx.get(WRITES, userId);
          const isCurrent = known !== undefined && (known.hour === hour || known.hour === hour + HOUR_MS);
          const next = isCurrent ? { ...known, count: known.count + 1 } : { hour, count: 1 };
          tx.put(WRITES, userId, next);
          tx.link(EXPIRY, keyOf(WRITES, userId), next.hour + WRITES_KEPT_MS);
          return next.count;
        },
        { guard: `writes:${userId}` },
      ),
    leaseRate: async (tokenId, rate, want) =>
      urgent.transact(
        async (tx) => {
          const before = (await tx.get(RATE, tokenId))?.fullAt ?? 0;
          const { granted, state, retryAfter } = takeFrom(before, rate, want, await kv.clock());
          // A state beyond an empty bucket (see takeFrom) is replaced: it would never refill.
          if (granted > 0 || state < before) {
            tx.put(RATE, tokenId, { fullAt: state });
            // A full bucket is equivalent to none.
            tx.link(EXPIRY, keyOf(RATE, tokenId), Math.ceil(state));
          }
          return { granted, retryAfter };
        },
        { guard: `rate:${tokenId}`, isReserved: true },
      ),
  };
}

const ALL = 'all';

export function signingKeyStore(transactor: Transactor): SigningKeyStore {
  return {
    get: () => valueAt(transactor.kv, SIGNING_KEYS, ALL),
    replace: async (next) =>
      transactor.transact(async (tx) => {
        if (((await tx.get(SIGNING_KEYS, ALL))?.revision ?? 0) !== next.revision - 1) return false;
        tx.put(SIGNING_KEYS, ALL, next);
        return true;
      }),
    remove: async () =>
      transactor.transact(
        async (tx) => {
          if (!(await tx.has(SIGNING_KEYS, ALL))) return false;
          tx.remove(SIGNING_KEYS, ALL);
          return true;
        },
        { isReserved: true },
      ),
  };
}
