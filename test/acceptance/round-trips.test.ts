import { Redis } from 'ioredis';
import t from 'tap';
import { DirectoryApplier } from '../../src/accounts/directory.js';
import type { Config } from '../../src/config/schema/config.js';
import type { Log } from '../../src/observe/log.js';
import { openRedis } from '../../src/server/stores/redis-store.js';
import { Endings } from '../../src/store/endings.js';
import { startInProcess } from '../helpers/in-process.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';

/** The process asks Redis in the background, too, so the lowest of several counts is the request's. */
const TRIES = 5;

/** Counts how often a request waits for Redis: commands that are sent together count once. */
function roundTripsOf() {
  // oxlint-disable-next-line typescript/unbound-method
  const { sendCommand } = Redis.prototype;
  let [depth, open] = [0, 0];
  Redis.prototype.sendCommand = function (this: Redis, ...args: Parameters<typeof sendCommand>) {
    const sent = sendCommand.apply(this, args) as Promise<unknown>;
    if (!/^eval/i.test(args[0].name)) return sent;
    const own = depth + 1;
    open += 1;
    const answered = () => {
      depth = Math.max(depth, own);
      open -= 1;
    };
    sent.then(answered, answered);
    return sent;
  };
  t.teardown(() => void (Redis.prototype.sendCommand = sendCommand));
  return async (work: () => Promise<unknown>, before: () => Promise<unknown> = async () => undefined) => {
    let fewest = Infinity;
    for (let i = 0; i < TRIES; i += 1) {
      await before();
      await until(() => open === 0, 'quiet');
      const start = depth;
      await work();
      fewest = Math.min(fewest, depth - start);
    }
    return fewest;
  };
}

t.test('round trips to Redis', async (t) => {
  const { url } = await startRedis(t);
  const settings = { ...redisSettings({ url }), type: 'redis', revocations: null, sealing_key: null } as const;
  const cache = { size: 100, ttl: 60_000, negative_ttl: 1_000 };
  const log = { info: () => undefined, warn: () => undefined } as unknown as Log;
  const server = { log, onOperation: () => undefined, endings: new Endings() };
  const { store, close } = await openRedis({ cache, on_store_failure: 'deny' } as Config, settings, server);
  t.teardown(close);
  await store.maintenance.initialize();
  const served = await startInProcess(t, {}, {
    opened: ({ passwords, sealer }) => ({ store, directory: new DirectoryApplier(store, { passwords, sealer }) }),
  });
  const roundTrips = roundTripsOf();
  const use = async (key: string) => (await served.request('/service/SVC1', { headers: { 'Service-Key': key } })).status;

  const key = await served.token('engineer');
  await until(async () => (await use(key)) === 200 && (await roundTrips(() => use(key))) === 0, 'a cached request: none');
  let unused = '';
  t.equal(await roundTrips(() => use(unused), async () => { unused = await served.token('engineer'); }), 1, 'a look-up');
  t.equal(await roundTrips(() => served.create('engineer')), 4, 'POST /tokens');
  t.equal(await roundTrips(() => served.login('engineer')), 4, 'POST /login');
  const Cookie = await served.login('superuser');
  let id = '';
  const revoke = async () => served.request(`/tokens/${id}`, { method: 'DELETE', headers: { Cookie } });
  t.equal(await roundTrips(revoke, async () => { id = (await served.create('superuser')).json.id; }), 5, 'DELETE /tokens/ID');
}); // prettier-ignore
