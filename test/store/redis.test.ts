import t from 'tap';
import { DirectoryApplier } from '../../src/accounts/directory.js';
import { localHasher, Passwords } from '../../src/accounts/passwords.js';
import { Sealer } from '../../src/accounts/sealing.js';
import { Sessions } from '../../src/accounts/sessions.js';
import { Tokens } from '../../src/accounts/tokens.js';
import { openQuestions } from '../../src/store/core/fleet.js';
import { RedisKv } from '../../src/store/redis/kv.js';
import { learnRevocations, openRedisStore } from '../../src/store/redis.js';
import { removalTime } from '../../src/store/core/store.js';
import { movable } from '../helpers/clock.js';
import { EVERY_CASE, nightly } from '../helpers/nightly.js';
import { redisSettings, startCluster, startRedis, startSentinel } from '../helpers/redis.js';
import { storeContract } from './contract.js';
import { BASE, createToken, NOW, ownerOf, token, user } from './contract/records.js';

let number = 0;
/** A prefix for each case, so that one server can serve all. */
const prefix = () => `test-${++number}:`;

t.test('the store contract on one node', async (t) => {
  const { url } = await startRedis(t);
  await storeContract(t, () => {
    const settings = redisSettings({ url, prefix: prefix() });
    return { open: () => openRedisStore(settings) };
  });
});

t.test('the store contract behind a sentinel', nightly, async (t) => {
  const { nodes } = await startSentinel(t, 60_000);
  await storeContract(t, () => {
    const settings = redisSettings({
      sentinel: { master: 'm', nodes, username: null, password: null },
      prefix: prefix(),
    });
    return { open: () => openRedisStore(settings) };
  });
});

t.test('sentinels with a password', async (t) => {
  const { nodes } = await startSentinel(t, 60_000, 'sentinels-own-password');
  const opened = async (username: string | null, password: string | null) => {
    const store = await openRedisStore(
      redisSettings({ sentinel: { master: 'm', nodes, username, password }, command_timeout: 5_000 }),
    );
    t.teardown(() => store.maintenance.close());
    return store.maintenance.initialize();
  };
  await t.resolves(opened(null, 'sentinels-own-password'));
  await t.resolves(opened('default', 'sentinels-own-password'));
  await t.rejects(opened(null, null), { message: /0 of 1 sentinels responded; .*NOAUTH/ });
  await t.rejects(opened(null, 'another'), { message: /0 of 1 sentinels responded; .*WRONGPASS/ });
});

t.test('the store contract on a cluster of three', async (t) => {
  const { nodes } = await startCluster(t);
  await storeContract(
    t,
    () => {
      const settings = redisSettings({ cluster: nodes, prefix: prefix() });
      return { open: () => openRedisStore(settings) };
    },
    EVERY_CASE ? undefined : ['tokens'],
  );
});

t.test('with the longest command timeout, changes wait for a slow Redis', async (t) => {
  const { url, cli } = await startRedis(t);
  const acknowledge = { replicas: 0, timeout: 10_000 };
  const store = await openRedisStore(redisSettings({ url, acknowledge, command_timeout: 2_147_483_647 }));
  await store.maintenance.initialize();
  cli('CLIENT', 'PAUSE', '100');
  t.equal(await store.usage.takeOtpStep('U1', 1), true);
  await store.maintenance.close();
});

t.test('with Redis memory full, refuses additions but still revokes, suspends, locks and sets passwords', async (t) => {
  const { url, cli } = await startRedis(t, '--maxmemory-policy', 'noeviction');
  const store = await openRedisStore(redisSettings({ url }));
  await store.maintenance.initialize();
  await store.directory.change(BASE, NOW);
  for (const id of ['T1', 'T2']) await createToken(store, token(id, { expiresAt: NOW + 1 }), null, NOW);
  await store.directory.change({ tokens: [token('L1', { kind: 'legacy_key' })] }, NOW);
  const session = (digest: string) => ({ digest, id: digest, userId: 'U1', createdAt: NOW, endsAt: NOW + 1, lastSeenAt: NOW, idleEndsAt: NOW + 1, ip: '', userAgent: null });
  for (const digest of ['A', 'B', 'C']) await store.sessions.create(session(digest), user('U1'), null);
  cli('CONFIG', 'SET', 'maxmemory', '1');
  const full = { message: /OOM/ };
  await t.rejects(store.sessions.create(session('D'), user('U1'), null), full);
  await t.rejects(createToken(store, token('T3'), null, NOW), full);
  await t.rejects(store.directory.change({ users: [user('U8')] }, NOW), full);
  await t.rejects(store.directory.change({ users: [user('U1', { name: 'x' })], customers: [{ id: 'C8', name: '' }] }, NOW), full);
  await t.rejects(store.usage.takeOtpStep('U1', 1), full);
  await t.rejects(store.maintenance.probeWrite(), full);
  t.strictSame(await store.directory.getUser('U1'), user('U1'));

  const suspended = token('T2', { expiresAt: NOW + 1, updatedAt: NOW + 1, restrictions: { suspended: true } });
  t.equal(await store.tokens.update(suspended, NOW), 'updated');
  t.match(await store.tokens.revoke(['T1', 'L1']), { missing: [] });
  t.strictSame(await store.tokens.listRevokedDigests(), ['digest-L1']);
  await store.tokens.addRevokedDigests(['digest-L2']);
  t.equal(await store.sessions.end('A'), true);
  t.equal((await store.sessions.endOfUser('U1', 'B')).length, 1);
  t.equal(await store.directory.change({ users: [user('U2', { passwordHash: 'other' })] }, NOW), undefined);
  t.equal(await store.directory.change({ users: [user('U1', { locked: true })] }, NOW), undefined);
  t.equal((await store.directory.getUser('U1'))?.locked, true);
  t.strictSame(await store.sessions.listOfUser('U1'), []);
  t.equal(await store.maintenance.removeExpired(NOW + 1, NOW + 2, 9), 1);
  t.equal(await store.directory.change({ removeUsers: ['U1'] }, NOW), undefined);
  await store.maintenance.close();
}); // prettier-ignore

t.test('a clock of Redis that was ahead neither stops expiry events nor hides revocations', async (t) => {
  const { url, cli } = await startRedis(t);
  const store = await openRedisStore(redisSettings({ url }));
  await store.maintenance.initialize();
  await store.directory.change(BASE, NOW);
  store.webhooks.subscribe([{ endpoint: 'e', events: ['token.expired'] }]);
  const lease = (await store.webhooks.acquire('a', 60_000)) ?? '';
  const ahead = Date.now() + 86_400_000;
  cli('SET', '{latchkey:}expired:tokens', `1||{"until":${ahead},"id":"","v":1}`);
  await store.webhooks.queueExpired(lease);
  const at = Date.now() + 100;
  for (const id of ['T1', 'T2']) await createToken(store, token(id, { expiresAt: id === 'T1' ? at : null }), null, NOW);
  while (Date.now() < at + 20) await new Promise((wait) => setTimeout(wait, 20));
  await store.webhooks.queueExpired(lease);
  const due = await store.webhooks.listDue(lease, 'e', Date.now(), 9);
  t.same(due?.map(({ event }) => event.subject), ['token:T1']);

  const learned: string[] = [];
  await store.tokens.revoke(['T2']);
  const latest = await learnRevocations(store.client, (names) => void learned.push(...names), ahead / 1_000);
  t.same(learned, ['token:T2']);
  t.equal(latest, ahead / 1_000);
  await store.maintenance.close();
}); // prettier-ignore

t.test('a sidecar whose clock is ahead removes nothing that is active by the clock of Redis', async (t) => {
  const { url } = await startRedis(t);
  const store = await openRedisStore(redisSettings({ url }));
  const { maintenance } = store;
  await maintenance.initialize();
  const advance = movable(t, Date);
  const [real, day] = [Date.now(), 86_400_000];
  await store.directory.change({ ...BASE, removeServices: ['S1'] }, real);
  await createToken(store, token('T1', { userId: 'U1', expiresAt: real + 3_600_000 }), null, real);
  const settings = { idle_timeout: 3_600_000, absolute_timeout: 3_600_000, max_per_user: 9 };
  const sessions = new Sessions(store, { sessionSeenAt: () => real }, settings);
  const started = await sessions.start(ownerOf('U1'), '127.0.0.1', undefined, real);
  const { secret } = started as { secret: string };
  const isReal = (at: number) => Math.abs(at - real) < 3_600_000;
  t.ok(isReal(await removalTime(maintenance)));
  advance(day);
  t.ok(isReal(await removalTime(maintenance)));
  t.equal(await sessions.find(secret, Date.now()), undefined, 'it refuses a session');
  t.match(await store.directory.change({ removeUsers: ['U1'] }, Date.now()), { reason: 'active_tokens' });
  const tokens = new Tokens(store, { pending: () => undefined }, {} as never, []);
  t.equal(await tokens.hasActive('U1', 'C1', Date.now()), true);
  const applier = new DirectoryApplier(store, { passwords: new Passwords(localHasher, 1), sealer: new Sealer(null) });
  const plan = await applier.plan({ customers: [], services: [], users: [] }, Date.now());
  t.same(plan.pendingDeletions, ['U1'], 'a directory file locks the user first');
  await maintenance.removeExpired(await removalTime(maintenance), 0, 100);
  t.ok(await sessions.find(secret, real), 'the others still accept the session');
  advance(-2 * day);
  t.ok(isReal((await removalTime(maintenance)) + day), 'nor one that is active by its own');
  await maintenance.close();
}); // prettier-ignore

t.test('a sidecar whose clock is ahead makes no room by removing an active token', nightly, async (t) => {
  const { url } = await startRedis(t);
  const store = await openRedisStore(redisSettings({ url }));
  await store.maintenance.initialize();
  await store.directory.change(BASE, NOW);
  const ahead = Date.now() + 120_000;
  const create = (id: string, expiresAt: number) =>
    store.tokens.create(token(id, { expiresAt }), user('U1'), { active: null, stored: 1 }, ahead);
  t.equal(await create('T1', ahead - 60_000), 'created');
  t.equal(await create('T2', ahead), 'full');
  t.ok(await store.tokens.find('digest-T1'), 'it is still accepted elsewhere');
  await store.maintenance.close();
});

t.test('a process with an old heartbeat is not live, by the clock of Redis', async (t) => {
  const { url, cli } = await startRedis(t);
  const store = await openRedisStore(redisSettings({ url }));
  await store.maintenance.initialize();
  const member = (id: string) => ({ id, sidecar: id, name: id, pid: 1, version: '1', configHash: 'x', startedAt: 0, linkAge: 5 });
  for (const id of ['A', 'B']) await store.fleet.beat(member(id));
  cli('ZINCRBY', '{latchkey:}index:processes', '-13000', 'A');
  cli('SET', '{latchkey:}process:A', cli('GET', '{latchkey:}process:A').replace(/"at":\d+/, '"at":0'));
  t.same((await store.fleet.list()).map(({ id }) => id), ['B']);
  await store.fleet.beat(member('B'));
  t.equal(cli('EXISTS', '{latchkey:}process:A'), '0');
  await store.fleet.answer('none', 'A');
  t.equal(cli('EXISTS', '{latchkey:}index:answers:none'), '0', 'an answer without a question is not kept');
  await store.fleet.ask('Q');
  await store.fleet.answer('Q', 'A');
  t.same(await openQuestions(new RedisKv(store.client)), ['Q']);
  await store.maintenance.removeExpired(Date.now() + 60_000, 0, 9);
  t.equal(cli('EXISTS', '{latchkey:}question:Q', '{latchkey:}index:answers:Q'), '0', 'both are removed later');
  await store.maintenance.close();
}); // prettier-ignore
