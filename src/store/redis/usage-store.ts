import type { UsageStore } from '../usage-store.js';
import { batches } from './batches.js';
import type { RedisClient } from './client.js';
import type { Reads } from './reads.js';
import { useRows } from './records.js';

export function redisUsageStore(client: RedisClient, reads: Reads): UsageStore {
  return {
    recordUses: async (uses) => {
      const rows = [...useRows('token', uses.tokens), ...useRows('session', uses.sessions)];
      for (const some of batches(rows)) await client.script('recordUses', ...some.flat());
    },
    takeOtpStep: async (userId, step) => (await client.script('takeOtpStep', userId, step)) === 1,
    getOtpStep: async (userId) => Number((await reads.text(`otp:${userId}`)) ?? -1),
    countWrite: async (userId, hour) => (await client.script('countWrite', userId, hour)) as number,
    leaseRate: async (tokenId, { count, per }, want) => {
      const answer = (await client.script('leaseRate', tokenId, count, per, want)) as [number, string];
      return { granted: answer[0], retryAfter: Number(answer[1]) };
    },
  };
}
