import type { LoginThrottleStore } from '../login-throttle-store.js';
import { attemptHeldUntil, readKnownAddresses, reserveAttempt, settleAttempt } from './attempts.js';
import type { Transactions } from './transactions.js';

export function lmdbLoginThrottleStore(transactions: Transactions): LoginThrottleStore {
  return {
    heldUntil: (limits, now) => transactions.read((dbs) => attemptHeldUntil(dbs, limits, now)),
    reserve: async (limits, now) => transactions.write((dbs) => reserveAttempt(dbs, limits, now)),
    settle: async (settlement, now) => transactions.write((dbs) => settleAttempt(dbs, settlement, now)),
    listKnownAddresses: (account, now) =>
      transactions.read((dbs) => readKnownAddresses(dbs, account, now).map(({ address }) => address)),
  };
}
