import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { DirectoryApplier } from '../../src/accounts/directory.js';
import type { Config } from '../../src/config/schema/config.js';
import type { Log } from '../../src/observe/log.js';
import type { NetworkedStore, StoreUser } from '../../src/server/stores/networked-store.js';
import { openPostgres } from '../../src/server/stores/postgres-store.js';
import { openRedis } from '../../src/server/stores/redis-store.js';
import { Endings } from '../../src/store/endings.js';
import { PostgresClient } from '../../src/store/postgres/client.js';
import { startInProcess } from '../helpers/in-process.js';
import { postgresSettings, startPostgres } from '../helpers/postgres.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';

/** The process asks Redis in the background, too, so the lowest of several counts is the request's. */
const TRIES = 5;

type Sent = (count: <T>(sent: Promise<T>) => Promise<T>) => void;

const STORES: Record<
  string,
  { open: (t: Test, config: Config, server: StoreUser) => Promise<NetworkedStore>; watch: Sent }
> = {
  redis: {
    open: async (t, config, server) => {
      const settings = redisSettings({ url: (await startRedis(t)).url });
      return openRedis(config, { ...settings, type: 'redis', revocations: null, sealing_key: null }, server);
    },
    watch: (count) => {
      // oxlint-disable-next-line typescript/unbound-method
      const { sendCommand } = Redis.prototype;
      Redis.prototype.sendCommand = function (this: Redis, ...args: Parameters<typeof sendCommand>) {
        const sent = sendCommand.apply(this, args) as Promise<unknown>;
        return /^eval/i.test(args[0].name) ? count(sent) : sent;
      };
      t.teardown(() => void (Redis.prototype.sendCommand = sendCommand));
    },
  },
  postgres: {
    open: async (t, config, server) => {
      const settings = postgresSettings({ url: (await startPostgres(t)).url });
      return openPostgres(config, { ...settings, type: 'postgres', sealing_key: null }, server);
    },
    watch: (count) => {
      // oxlint-disable-next-line typescript/unbound-method
      const { query } = PostgresClient.prototype;
      // oxlint-disable-next-line typescript/unbound-method
      const { commit } = PostgresClient.prototype;
      PostgresClient.prototype.query = function (this: PostgresClient, ...args) {
        return count(query.apply(this, args));
      };
      PostgresClient.prototype.commit = function (this: PostgresClient, ...args) {
        return count(commit.apply(this, args));
      };
      t.teardown(() => void Object.assign(PostgresClient.prototype, { query, commit }));
    },
  },
};

/** Counts how often a request waits for its store: what is sent together counts once. */
function roundTripsOf(watch: Sent) {
  let [depth, open] = [0, 0];
  watch((sent) => {
    const own = depth + 1;
    open += 1;
    const answered = () => {
      depth = Math.max(depth, own);
      open -= 1;
    };
    sent.then(answered, answered);
    return sent;
  });
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

for (const [name, { open, watch }] of Object.entries(STORES)) t.test(`round trips to ${name}`, async (t) => {
  const cache = { size: 100, ttl: 60_000, negative_ttl: 1_000 };
  const log = { info: () => undefined, warn: () => undefined } as unknown as Log;
  const server = { log, endings: new Endings() };
  const { store, close } = await open(t, { cache, on_store_failure: 'deny' } as Config, server);
  t.teardown(close);
  await store.maintenance.initialize();
  const served = await startInProcess(t, {}, {
    opened: ({ passwords, sealer }) => ({ store, directory: new DirectoryApplier(store, { passwords, sealer }) }),
  });
  const roundTrips = roundTripsOf(watch);
  const use = async (key: string) => (await served.request('/service/SVC1', { headers: { 'Service-Key': key } })).status;

  const key = await served.token('engineer');
  await until(async () => (await use(key)) === 200 && (await roundTrips(() => use(key))) === 0, 'a cached request: none');
  let unused = '';
  t.equal(await roundTrips(() => use(unused), async () => { unused = await served.token('engineer'); }), 1, 'a look-up');
  t.equal(await roundTrips(() => served.create('engineer')), 3, 'POST /tokens');
  t.equal(await roundTrips(() => served.login('engineer')), 4, 'POST /login');
  const Cookie = await served.login('superuser');
  let id = '';
  const revoke = async () => served.request(`/tokens/${id}`, { method: 'DELETE', headers: { Cookie } });
  t.equal(await roundTrips(revoke, async () => { id = (await served.create('superuser')).json.id; }), 2, 'DELETE /tokens/ID');
}); // prettier-ignore
