import { takeFrom } from '../../domain/rate.js';
import { HOUR_MS } from '../../domain/time.js';
import type { UsageStore } from '../usage-store.js';
import { recordTokenUse } from './tokens.js';
import type { Transactions } from './transactions.js';
import { recordSessionUse } from './session-store.js';

export function lmdbUsageStore(transactions: Transactions): UsageStore {
  return {
    recordUses: async ({ tokens, sessions }) => {
      await transactions.writeInParts([...tokens], (dbs, [id, use]) => recordTokenUse(dbs, id, use));
      await transactions.writeInParts([...sessions], (dbs, [digest, use]) =>
        recordSessionUse(dbs, digest, use),
      );
    },
    takeOtpStep: async (userId, step) =>
      transactions.write(({ otpSteps }) => {
        if ((otpSteps.get(userId) ?? -1) >= step) return false;
        otpSteps.putSync(userId, step);
        return true;
      }),
    getOtpStep: (userId) => transactions.read(({ otpSteps }) => otpSteps.get(userId) ?? -1),
    countWrite: async (userId, hour) =>
      transactions.write(({ writes }) => {
        const known = writes.get(userId);
        const isCurrent = known !== undefined && (known.hour === hour || known.hour === hour + HOUR_MS);
        const next = isCurrent ? { hour: known.hour, count: known.count + 1 } : { hour, count: 1 };
        writes.putSync(userId, next);
        return next.count;
      }),
    // It replaces a number, so it continues when space is low.
    leaseRate: async (tokenId, rate, want) =>
      transactions.remove(({ rates }) => {
        const { granted, state, retryAfter } = takeFrom(rates.get(tokenId) ?? 0, rate, want, Date.now());
        if (granted > 0) rates.putSync(tokenId, state);
        return { granted, retryAfter };
      }),
  };
}
