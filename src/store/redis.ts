import { Events } from './core/events.js';
import { coreStore } from './core/store.js';
import { RedisClient } from './redis/client.js';
import { RedisKv } from './redis/kv.js';
import { initializeStore } from './redis/maintenance.js';
import type { RedisSettings } from './redis/settings.js';
import { measured, type OnOperation } from './measured.js';
import type { Store } from './store.js';

export interface RedisStore extends Store {
  readonly client: RedisClient;
  readonly kv: RedisKv;
  readonly events: Events;
}

/** Opens the store on Redis or Valkey. The server need not be reachable yet. */
export async function openRedisStore(settings: RedisSettings): Promise<RedisStore> {
  const client = new RedisClient(settings);
  await client.connected();
  return redisStore(client);
}

/** Whether a change survives a crash of Redis depends on `appendonly`; see `docs/storage.md`. */
export function redisStore(client: RedisClient, onOperation?: OnOperation): RedisStore {
  const events = new Events();
  const kv = RedisKv.of(client);
  const store = coreStore(onOperation === undefined ? kv : measured(kv, onOperation), events);
  return {
    ...store,
    client,
    kv,
    events,
    maintenance: {
      ...store.maintenance,
      initialize: async (purpose) => {
        await initializeStore(client);
        await store.maintenance.initialize(purpose);
      },
      probe: async () => void (await client.script('probe', [], 'urgent')),
      probeWrite: async () => void (await client.script('probeWrite', [Date.now()], 'urgent')),
    },
  };
}
