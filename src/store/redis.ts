import { RedisClient } from './redis/client.js';
import { redisDirectoryStore } from './redis/directory-store.js';
import { redisFleetStore } from './redis/fleet-store.js';
import { redisMaintenance } from './redis/maintenance.js';
import { Reads } from './redis/reads.js';
import { signingKeysFrom, text, useRows } from './redis/records.js';
import { redisRemoveDamaged } from './redis/remove-damaged.js';
import { redisSessionStore } from './redis/session-store.js';
import type { RedisSettings } from './redis/settings.js';
import { redisTokenStore } from './redis/token-store.js';
import { redisWebhookStore } from './redis/webhook-store.js';
import type { Store } from './store.js';
import type { UsageStore } from './usage-store.js';
import { batches } from './redis/batches.js';
import { digestOf, newId } from '../domain/secret.js';
import type { AttemptLimit, LoginThrottleStore } from './login-throttle-store.js';

/** A store that several sidecars share, with its client. */
export interface RedisStore extends Store {
  readonly client: RedisClient;
}

/** Opens the store on Redis or Valkey. The server need not be reachable yet. */
export async function openRedisStore(settings: RedisSettings): Promise<RedisStore> {
  const client = new RedisClient(settings);
  await client.connected();
  return redisStore(client);
}

/**
 * Creates the store on top of a client.
 *
 * Each write is one script, which Redis runs atomically. Whether a write survives a crash of Redis
 * depends on its persistence (`appendonly`); see `docs/storage.md`.
 */
export function redisStore(client: RedisClient): RedisStore {
  const reads = new Reads(client);
  return {
    client,
    tokens: redisTokenStore(client, reads),
    sessions: redisSessionStore(client, reads),
    directory: redisDirectoryStore(client, reads),
    loginThrottle: redisLoginThrottleStore(client),
    usage: redisUsageStore(client, reads),
    signingKeys: {
      get: () => reads.record('signing_keys', signingKeysFrom),
      replace: async (next) => (await client.script('replaceSigningKeys', text(next))) === 1,
      remove: async () => (await client.script('removeSigningKeys')) === 1,
    },
    fleet: redisFleetStore(client),
    webhooks: redisWebhookStore(client),
    maintenance: redisMaintenance(client, reads, redisRemoveDamaged(client, reads)),
  };
}

function redisUsageStore(client: RedisClient, reads: Reads): UsageStore {
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

function redisLoginThrottleStore(client: RedisClient): LoginThrottleStore {
  return {
    blockedUntil: async (limits, now) =>
      Number(await client.script('attemptHeldUntil', limitsText(limits), now)),
    reserve: async (limits, now) =>
      Number(await client.script('reserveAttempt', limitsText(limits), now, newId())),
    settle: async ({ clear, release, remember }, now) => {
      const known =
        remember === undefined ? {} : { remember: { ...remember, account: digestOf(remember.account) } };
      const settlement = { clear: clear.map(digestOf), release: release.map(digestOf), ...known };
      await client.script('settleAttempt', JSON.stringify(settlement), now, newId());
    },
    listKnownAddresses: async (account, now) =>
      (await client.script('knownAddresses', digestOf(account), now)) as string[],
  };
}

/** Serializes limits for a script. */
function limitsText(limits: readonly AttemptLimit[]): string {
  return JSON.stringify(limits.map((limit) => ({ ...limit, key: digestOf(limit.key) })));
}
