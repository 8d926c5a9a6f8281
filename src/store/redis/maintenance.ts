import type { Maintenance } from '../maintenance.js';
import { beginStore, RESTORING } from './begin.js';
import type { RedisClient } from './client.js';
import type { Reads } from './reads.js';

/** Expired records that one script removes: with the largest ones it holds Redis for 5 ms. */
const EXPIRED_BATCH = 100;

export function redisMaintenance(client: RedisClient, reads: Reads): Maintenance {
  return {
    begin: (purpose) => beginStore(client, purpose),
    isRestoring: async () => (await reads.text(RESTORING)) !== null,
    setRestoring: async (restoring) =>
      void (await client.script('setRestoring', RESTORING, restoring ? Date.now() : '')),
    probe: async () => void (await client.script('probe', 'meta')),
    probeWrite: async () => void (await client.script('probeWrite', Date.now())),
    removeExpired: async (now, tokensBefore, limit) => {
      for (let left = limit; left > 0;) {
        const most = Math.min(EXPIRED_BATCH, left);
        const removed = (await client.script('removeExpired', now, tokensBefore, most)) as number;
        left -= removed;
        if (removed < most) return limit - left;
      }
      return limit;
    },
    close: () => client.close(),
  };
}
