import { RedisClient } from './redis/client.js';
import { redisDirectoryStore } from './redis/directory-store.js';
import { redisFleetStore } from './redis/fleet-store.js';
import { redisLoginThrottleStore } from './redis/login-throttle-store.js';
import { redisMaintenance } from './redis/maintenance.js';
import { Reads } from './redis/reads.js';
import { signingKeysFrom, text } from './redis/records.js';
import { redisSessionStore } from './redis/session-store.js';
import type { RedisSettings } from './redis/settings.js';
import { redisTokenStore } from './redis/token-store.js';
import { redisUsageStore } from './redis/usage-store.js';
import { redisWebhookStore } from './redis/webhook-store.js';
import type { Store } from './store.js';

/** The store that several sidecars share, with the client that it uses. */
export interface RedisStore extends Store {
  readonly client: RedisClient;
}

/** Opens the store on Redis or Valkey. It does not need the server to be there yet. */
export async function openRedisStore(settings: RedisSettings): Promise<RedisStore> {
  const client = new RedisClient(settings);
  await client.connected();
  return redisStore(client);
}

/**
 * The store behind a client.
 *
 * A write is one script, which Redis runs as one step. Whether it survives a crash of Redis is a matter of its own
 * persistence (`appendonly`); see `docs/storage.md`.
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
    maintenance: redisMaintenance(client, reads),
  };
}
