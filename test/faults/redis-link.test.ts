import t from 'tap';
import { InvalidationLink } from '../../src/store/redis/invalidation.js';
import { openRedisStore } from '../../src/store/redis.js';
import { client, startFixture } from '../helpers/fixture.js';
import { freshMetrics, send } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { matchLog, until } from '../helpers/until.js';

const SEALING_KEY = 'a1'.repeat(32);

t.test('a link to another node than the one that takes writes does not come up', async (t) => {
  const [writes, other] = [await startRedis(t), await startRedis(t)];
  const store = await openRedisStore(redisSettings({ url: writes.url }));
  await store.maintenance.initialize();
  const events: string[] = [];
  const note = (event: string) => () => void events.push(event);
  const listen = (url: string) =>
    new InvalidationLink(store.client, redisSettings({ url }), ['token:'], {
      up: note('up'),
      alive: () => undefined,
      lost: (reason) => events.push(`lost: ${reason}`),
      failed: note('failed'),
      notUp: (cause) => events.push(`not up: ${cause.message}`),
      skew: () => undefined,
      changed: (names) => events.push(`changed: ${String(names)}`),
    });
  const wrong = listen(other.url);
  t.teardown(() => wrong.close());
  await until(() => events.some((event) => event.startsWith('not up')), 'reported');
  t.same(events.filter((event) => event !== 'failed'), ['not up: no notification of a test write; the link is to another node']);
  t.ok(events.includes('failed'));
  wrong.close();

  events.length = 0;
  const right = listen(writes.url);
  t.teardown(() => right.close());
  await until(() => events.includes('up'), 'the right one');
  writes.cli('SET', '{latchkey:}token:x', '1');
  await until(() => events.includes('changed: token:x'), 'a change');
  t.same(events, ['up', 'changed: token:x'], 'probes are not reported as changes');
  // Tracking ends silently; the connections stay open.
  const ids = writes.cli('CLIENT', 'LIST').split('\n').filter((line) => /flags=\S*B/.test(line));
  t.equal(ids.length, 1, 'the tracking connection');
  await store.client.connection.call('ACL', 'SETUSER', 'default', '-script|load', '-evalsha', '-eval');
  await until(() => events.some((event) => event.startsWith('lost')), 'writes that do not come back');
  t.equal(events.at(-1), 'lost: no notifications of test writes');
  await store.maintenance.close();
}); // prettier-ignore

t.test('warns at start-up about settings that make a fleet unsafe', async (t) => {
  const redis = await startRedis(t);
  redis.cli('ACL', 'SETUSER', 'untracked', 'on', '>secret-of-redis', '~*', '&*', '+@all', '-client|tracking');
  const store = { type: 'redis', sealing_key: SEALING_KEY, url: redis.url };
  const first = await startFixture(t, { store });
  await until(() => first.server.stdout().includes('Redis may lose acknowledged writes'), 'the warning');
  await matchLog(t, first.server, /"reason":"the append-only file is off, [^"]*set appendonly yes"/);
  t.match(await freshMetrics(first.server.admin), /^latchkey_clock_skew_seconds 0(\.0\d*)?$/m);
  redis.cli('CONFIG', 'SET', 'appendonly', 'yes');

  const untracked = { ...store, username: 'untracked', password: 'secret-of-redis' };
  const second = await start(t, writeConfig(temporaryFolder(t), { upstream: first.upstream.url, store: untracked }));
  await until(() => second.stdout().includes('cache invalidation link not established; cache disabled'), 'the warning');
  await matchLog(t, second, /"reason":"NOPERM [^"]*"[^\n]*cache invalidation link not established/);
  const metrics = await freshMetrics(second.admin);
  t.match(metrics, /^latchkey_store_links_up 0$/m);
  t.match(metrics, /^latchkey_invalidation_link_failures_total [1-9]/m);
  t.notMatch(second.stdout(), /may lose/, 'no warning with an append-only file');
  const key = await first.token('superuser');
  t.equal((await send(client(second.url).url, '/service/SVC1', { headers: { 'Service-Key': key } })).status, 200);
}); // prettier-ignore

t.test('reports clock skew', async (t) => {
  const redis = await startRedis(t);
  const store = await openRedisStore(redisSettings({ url: redis.url }));
  await store.maintenance.initialize();
  const skews: number[] = [];
  const nothing = () => undefined;
  const now = Date.now;
  Date.now = () => now() - 60_000;
  t.teardown(() => (Date.now = now));
  const link = new InvalidationLink(store.client, redisSettings({ url: redis.url }), ['token:'], {
    up: nothing, alive: nothing, lost: nothing, failed: nothing, notUp: nothing, changed: nothing,
    skew: (ms) => skews.push(ms),
  });
  const startedAt = performance.now();
  while (skews.length === 0 && performance.now() - startedAt < 5_000) await new Promise((wait) => setTimeout(wait, 20));
  t.ok(Math.abs((skews[0] ?? 0) - 60_000) < 2_000, `${skews[0]} ms`);
  link.close();
  await store.maintenance.close();
}); // prettier-ignore
