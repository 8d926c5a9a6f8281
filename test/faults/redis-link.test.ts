import t from 'tap';
import type { Config } from '../../src/config/schema/config.js';
import type { Log } from '../../src/observe/log.js';
import { openRedis } from '../../src/server/stores/redis-store.js';
import { Endings } from '../../src/store/endings.js';
import { Feed } from '../../src/store/link.js';
import { InvalidationLink } from '../../src/store/redis/invalidation.js';
import { openRedisStore } from '../../src/store/redis.js';
import { client, startFixture } from '../helpers/fixture.js';
import { freePort } from '../helpers/free-port.mjs';
import { freshMetrics, send } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { startProxy } from '../helpers/proxy.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { matchLog, until } from '../helpers/until.js';
import { BASE, createToken, NOW, token, user } from '../store/contract/records.js';

const SEALING_KEY = 'a1'.repeat(32);

t.test('a link to another node than the one that takes writes does not come up', async (t) => {
  const [writes, other] = [await startRedis(t), await startRedis(t)];
  const balancer = await startProxy(t, Number(new URL(writes.url).port));
  const settings = redisSettings({ url: balancer.url });
  const store = await openRedisStore(settings);
  await store.maintenance.initialize();
  const events: string[] = [];
  const note = (event: string) => () => void events.push(event);
  const feed = new Feed('ended:')
    .on('up', note('up'))
    .on('lost', (reason) => events.push(`lost: ${reason}`))
    .on('failed', note('failed'))
    .on('notUp', (cause) => events.push(`not up: ${cause.message}`))
    .on('changed', (keys) => events.push(`changed: ${String(keys)}`));
  const listen = (url: string) => {
    balancer.redirect(Number(new URL(url).port));
    return new InvalidationLink(store.client, settings, ['token:'], feed);
  };
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
  await store.client.held!.commands.call('ACL', 'SETUSER', 'default', '-script|load', '-evalsha', '-eval');
  await until(() => events.some((event) => event.startsWith('lost')), 'writes that do not come back');
  t.ok(events.includes('lost: no notifications of test writes'));
  await store.maintenance.close();
}); // prettier-ignore

t.test('a link comes up although the memory of Redis is full', async (t) => {
  const redis = await startRedis(t);
  const store = await openRedisStore(redisSettings({ url: redis.url }));
  t.teardown(() => store.maintenance.close());
  await store.maintenance.initialize();
  await store.directory.change(BASE, NOW);
  redis.cli('CONFIG', 'SET', 'maxmemory', '1');
  await t.rejects(createToken(store, token('T'), null, NOW), /OOM/);
  const events: string[] = [];
  const feed = new Feed('ended:').on('up', () => events.push('up')).on('failed', () => events.push('failed'));
  const link = new InvalidationLink(store.client, redisSettings({ url: redis.url }), ['token:'], feed);
  t.teardown(() => link.close());
  await until(() => events.length > 0, 'an event');
  t.equal(events[0], 'up');
});

t.test('failed attempts leave nothing behind on a session that lasts', async (t) => {
  let left = 0;
  let failures = 0;
  const lost = new Promise<string>(() => undefined);
  // Callbacks of a promise stay as long as it is pending.
  const callback = t.capture(lost, 'then');
  const onLost = () => {
    left += 1;
    return () => (left -= 1);
  };
  const session = { node: { host: '127.0.0.1', port: await freePort() }, lost, onLost };
  const link = new InvalidationLink(
    { session: async () => session } as never,
    redisSettings({ url: `redis://127.0.0.1:${session.node.port}` }),
    ['token:'],
    new Feed('ended:').on('failed', () => (failures += 1)),
  );
  t.teardown(() => link.close());
  await until(() => failures >= 5, 'five attempts');
  left += callback.args().length;
  t.ok(left <= 1, `${left} callbacks`);
}); // prettier-ignore

t.test('a Latchkey in another database of the same Redis ends nothing here', async (t) => {
  const redis = await startRedis(t);
  const settings = (database: number) => ({ ...redisSettings({ url: `${redis.url}/${database}` }), type: 'redis', revocations: null, sealing_key: null }) as const;
  const config = { cache: { size: 100, ttl: 60_000, negative_ttl: 1_000 }, on_store_failure: 'deny' } as Config;
  const log = { info: () => undefined, warn: () => undefined } as unknown as Log;
  const serve = async (database: number) => {
    const endings = new Endings();
    const ended: string[] = [];
    endings.on('ended', (what) => ended.push(...[...(what ?? [])].filter(([, how]) => how === 'ended').map(([name]) => name)));
    const { store, close } = await openRedis(config, settings(database), { log, endings });
    t.teardown(close);
    return { store, ended };
  };
  const writers = { 0: await openRedisStore(settings(0)), 3: await openRedisStore(settings(3)) };
  // The same directory file in both: the same ids of users and of declared tokens.
  const declared = [token('D', { declared: true }), token('E', { declared: true })];
  for (const store of Object.values(writers)) {
    await store.maintenance.initialize();
    await store.directory.change({ ...BASE, declared }, NOW);
    await createToken(store, token('T', { userId: 'U2' }), null, NOW);
  }
  const servers = { 0: await serve(0), 3: await serve(3) };
  const accepted = async (database: 0 | 3) => {
    const { store } = servers[database];
    const found = await Promise.all(['D', 'E', 'T'].map(async (id) => store.tokens.find(token(id).digest)));
    return found.map((each) => each !== undefined && !each.owner.locked && each.token.restrictions === undefined);
  };
  const changes = { users: [user('U2', { locked: true, updatedAt: NOW + 1 })], declared: [token('E', { declared: true, restrictions: { suspended: true }, updatedAt: NOW + 1 })] };
  for (const [there, here, stays] of [[3, 0, true], [0, 3, false]] as const) {
    await writers[there].tokens.revoke(['D']);
    t.equal(await writers[there].directory.change(changes, NOW + 1), undefined);
    await until(async () => (await accepted(there)).every((each) => !each), 'ended there');
    await until(() => servers[there].ended.includes('token:D'), 'by name');
    t.same(await accepted(here), [stays, stays, stays], 'nothing changed here');
  }
  for (const store of Object.values(writers)) await store.maintenance.close();
}); // prettier-ignore

t.test('what is known to be revoked stays so when an emptied Redis begins again', async (t) => {
  const redis = await startRedis(t);
  const settings = redisSettings({ url: redis.url });
  const config = { cache: { size: 100, ttl: 60_000, negative_ttl: 1_000 }, on_store_failure: 'deny' } as Config;
  const log = { info: () => undefined, warn: () => undefined } as unknown as Log;
  const endings = new Endings();
  const ended: string[] = [];
  endings.on('ended', (what) => ended.push(...(what?.keys() ?? [])));
  const server = { log, endings };
  const { close } = await openRedis(config, { ...settings, type: 'redis', revocations: null, sealing_key: null }, server);
  t.teardown(close);
  const writer = await openRedisStore(settings);
  t.teardown(() => writer.maintenance.close());
  const apply = async (id: string) =>
    writer.directory.change({ ...BASE, tokens: [token(id, { kind: 'legacy_key' })] }, NOW);
  const restart = async () => redis.kill().then(async () => redis.restart());
  await writer.maintenance.initialize();
  for (const [id, empty] of [['flushed', () => redis.cli('FLUSHALL')], ['restarted', restart]] as const) {
    t.equal(await apply(id), undefined);
    await until(async () => writer.tokens.revoke([id]).then(() => true, () => false), 'revoked');
    await until(() => ended.includes(`digest:digest-${id}`), 'the process knows');
    await empty();
    await until(async () => writer.maintenance.initialize().then(() => true, () => false), 'begun again');
    t.equal(await apply(id), undefined, 'the directory file still lists the key');
    await until(async () => (await writer.tokens.filterRevoked([`digest-${id}`])).length === 1, 'reapplied');
    t.equal(await writer.tokens.find(`digest-${id}`), undefined, id);
  }
}); // prettier-ignore

t.test('warns about settings that make a fleet unsafe', async (t) => {
  const redis = await startRedis(t);
  redis.cli('ACL', 'SETUSER', 'untracked', 'on', '>secret-of-redis', '~*', '&*', '+@all', '-client|tracking');
  const store = { type: 'redis', sealing_key: SEALING_KEY, url: redis.url };
  const first = await startFixture(t, { store });
  await until(() => first.server.stdout().includes('the store may lose acknowledged writes'), 'the warning');
  await matchLog(t, first.server, /"reason":"the append-only file is off, [^"]*set appendonly yes"/);
  t.match(await freshMetrics(first.server.admin), /^latchkey_clock_skew_seconds 0(\.0\d*)?$/m);
  for (const [name, value] of [['maxmemory', '100mb'], ['maxmemory-policy', 'allkeys-lru']] as const)
    redis.cli('CONFIG', 'SET', name, value);
  const evicts = /"reason":"Redis evicts keys [^"]*allkeys-lru[^\n]*may lose acknowledged writes/;
  await until(() => evicts.test(first.server.stdout()), 'the warning of a changed policy');
  redis.cli('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
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
  const now = Date.now;
  Date.now = () => now() - 60_000;
  t.teardown(() => (Date.now = now));
  const feed = new Feed('ended:').on('skew', (ms) => skews.push(ms));
  const link = new InvalidationLink(store.client, redisSettings({ url: redis.url }), ['token:'], feed);
  const startedAt = performance.now();
  while (skews.length === 0 && performance.now() - startedAt < 5_000) await new Promise((wait) => setTimeout(wait, 20));
  t.ok(Math.abs((skews[0] ?? 0) - 60_000) < 2_000, `${skews[0]} ms`);
  link.close();
  await store.maintenance.close();
}); // prettier-ignore
