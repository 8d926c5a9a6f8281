import t from 'tap';
import { configSchema } from '../../src/config/schema/config.js';
import { servedFromCacheMs } from '../../src/server/stores/open-store.js';

const REDIS = { type: 'redis', url: 'redis://127.0.0.1:6379/0' };
const SERVING = { serve_cached_for: '60s' };

t.test('only a cache of a networked store serves requests while the store is unavailable', async (t) => {
  const cases: readonly [what: string, settings: object, ms: number][] = [
    ['Redis', { store: REDIS, on_store_failure: SERVING }, 60_000],
    ['Redis that denies', { store: REDIS, on_store_failure: 'deny' }, 0],
    ['Redis without a cache', { store: REDIS, on_store_failure: SERVING, cache: { size: 0 } }, 0],
    ['LMDB', { on_store_failure: SERVING }, 0],
    ['the defaults', {}, 0],
  ];
  for (const [what, settings, ms] of cases)
    t.equal(servedFromCacheMs(configSchema.parse(settings)), ms, what);
});
