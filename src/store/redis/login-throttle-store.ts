import { digestOf } from '../../domain/secret.js';
import type { AttemptLimit } from '../attempts.js';
import type { LoginThrottleStore } from '../login-throttle-store.js';
import type { RedisClient } from './client.js';

export function redisLoginThrottleStore(client: RedisClient): LoginThrottleStore {
  return {
    heldUntil: async (limits, now) =>
      Number(await client.script('attemptHeldUntil', limitsText(limits), now)),
    reserve: async (limits, now) => Number(await client.script('reserveAttempt', limitsText(limits), now)),
    settle: async ({ clear, release, remember }, now) => {
      const known =
        remember === undefined ? {} : { remember: { ...remember, account: digestOf(remember.account) } };
      const settlement = { clear: clear.map(digestOf), release: release.map(digestOf), ...known };
      await client.script('settleAttempt', JSON.stringify(settlement), now);
    },
    listKnownAddresses: async (account, now) =>
      (await client.script('knownAddresses', digestOf(account), now)) as string[],
  };
}

/** Limits as a script takes them. */
function limitsText(limits: readonly AttemptLimit[]): string {
  return JSON.stringify(limits.map((limit) => ({ ...limit, key: digestOf(limit.key) })));
}
