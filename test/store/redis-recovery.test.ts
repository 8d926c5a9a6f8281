import t, { type Test } from 'tap';
import { rotationOf, type Token } from '../../src/domain/token.js';
import { Creations, nameOfChange, Revocations } from '../../src/store/revocations.js';
import type { Commit } from '../../src/store/core/kv.js';
import { openRedisStore, type RedisStore, restoreHistory } from '../../src/store/redis.js';
import { MasterSession, nameOfHistory } from '../../src/store/redis/session.js';
import { withRevocations } from '../../src/server/stores/redis-store.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';
import { BASE, NOW, session, token, user } from './contract/records.js';

/** Returns the text of a token's record, as the store writes it. */
const stored = (token: Token) => `0|user:${token.userId}|${JSON.stringify({ ...token, v: 1 })}`;
const NO_LIMITS = { active: null, stored: null };
const later = Date.now() + 3_600_000;

/**
 * Sets up a store with a history that was used before, and a process that created two tokens and a
 * session there. All three are lost.
 */
async function setUp(t: Test) {
  const redis = await startRedis(t);
  const store = await openRedisStore(redisSettings({ url: redis.url }));
  t.teardown(() => store.maintenance.close());
  await store.maintenance.initialize();
  await store.directory.change(BASE, NOW);
  const revocations = new Revocations(null);
  const creations = new Creations(revocations);
  for (const id of ['T1', 'T2']) creations.note({ kind: 'token', record: token(id), owner: user('U1') });
  creations.note({ kind: 'session', record: session('S1', { endsAt: later }), owner: user('U1') });
  redis.cli('SET', '{latchkey:}history', 'another');
  const restore = async () =>
    restoreHistory(store.client, store.events, await store.client.session(), {
      revocations,
      creations,
      recovers: true,
    });
  const digest = (id: string) => token(id).digest;
  return { redis, store, revocations, creations, restore, digest };
}

function around({ client }: RedisStore, noting: (change: Commit) => () => void): void {
  const { changing } = client.events;
  client.events = {
    ...client.events,
    changing: async (change, make) => {
      const note = noting(change);
      const revision = await changing(change, make);
      if (revision !== null) note();
      return revision;
    },
  };
}

/** Notes what ends, as a server does. */
function noteEndings(store: RedisStore, revocations: Revocations): void {
  around(
    store,
    ({ tell }) =>
      () =>
        revocations.note(tell),
  );
}

/** Notes what is created, as a server does. */
function serve(store: RedisStore, revocations: Revocations, creations: Creations) {
  around(store, (change) => creations.noting(change, (key) => store.kv.recent(key)));
  return withRevocations(store, revocations);
}

t.test('refuses unknown credentials until their creators had time to restore them', async (t) => {
  const { redis, store, restore, revocations, creations, digest } = await setUp(t);
  const client = store.client;
  await client.scriptOn(await client.session(), 'beginRecovery', nameOfHistory((await client.session()).identity));
  const recovering = { message: 'what a failover may have lost is being made again' };
  await t.rejects(async () => store.tokens.find(digest('T1')), recovering);
  await t.rejects(async () => store.sessions.find('S1'), recovering);
  await t.rejects(async () => store.tokens.get('T1'), recovering);
  await t.rejects(store.tokens.revoke(['T1']), recovering);
  t.same(await store.tokens.listOfUser('U1'), []);
  t.same(await restore(), { reapplied: 0, recovered: 3, lost: [] });
  t.match(await store.tokens.find(digest('T1')), { token: token('T1'), owner: { id: 'U1' } });
  t.match(await store.sessions.find('S1'), { session: { digest: 'S1' } });
  t.equal(redis.cli('ZCARD', '{latchkey:}index:tokens'), '2');
  t.same(await restore(), { reapplied: 0, recovered: 0, lost: [] }, 'once');
  await until(async () => Promise.resolve(store.tokens.find('unknown')).then(() => true, () => false), 'the recovery time has passed');
  redis.cli('DEL', `{latchkey:}token:${digest('T2')}`, '{latchkey:}token_id:T2', '{latchkey:}session:S1');
  t.same(await restore(), { reapplied: 0, recovered: 0, lost: ['T2'] }, 'too late: a client may have been refused already');
  t.equal(await store.tokens.find(digest('T2')), undefined);
  t.equal(await store.sessions.find('S1'), undefined);
  t.equal(creations.current(Date.now()).length, 1, 'a lost token stays lost');
  t.ok(revocations.hasToken({ id: 'T2', digest: digest('T2') }));
  t.not(redis.cli('ZSCORE', '{latchkey:}index:revocations', 'token:T2'), '', 'even if someone restores it');
  await store.tokens.create(token('T2'), user('U1'), NO_LIMITS, NOW);
  t.same(await restore(), { reapplied: 1, recovered: 0, lost: [] });
  t.equal(await store.tokens.find(digest('T2')), undefined);
}); // prettier-ignore

t.test('restores what a master forgot although its memory is full', async (t) => {
  const { redis, store, restore, digest } = await setUp(t);
  redis.cli('CONFIG', 'SET', 'maxmemory', '1');
  t.same(await restore(), { reapplied: 0, recovered: 3, lost: [] });
  t.match(await store.tokens.find(digest('T1')), { token: token('T1') });
  redis.cli('CONFIG', 'SET', 'maxmemory', '0');
});

t.test('does not restore what ended meanwhile', async (t) => {
  const { redis, store, restore, revocations, digest } = await setUp(t);
  await store.tokens.create(token('T1'), user('U1'), NO_LIMITS, NOW);
  t.match(await store.tokens.revoke(['T1']), { missing: [] }, 'this process was not notified');
  await store.directory.change({ users: [user('U1', { passwordHash: 'another', updatedAt: NOW + 1 })] }, NOW);
  revocations.note(['token:T2']);
  t.same(await restore(), { reapplied: 0, recovered: 0, lost: [] });
  t.equal(redis.cli('EXISTS', '{latchkey:}recovering'), '1');
  for (const id of ['T1', 'T2']) t.equal(redis.cli('EXISTS', `{latchkey:}token:${digest(id)}`), '0');
  t.equal(redis.cli('EXISTS', '{latchkey:}session:S1'), '0', "its owner's password changed");
}); // prettier-ignore

t.test('restores a suspension that a master forgot; it applies at once in a process that knows it', async (t) => {
  const { redis, store, restore, revocations, creations } = await setUp(t);
  const process = serve(store, revocations, creations);
  noteEndings(store, revocations);
  const before = token('T9', { services: [], restrictions: { addresses: ['10.0.0.0/8'] } });
  await store.tokens.create(before, user('U1'), NO_LIMITS, NOW);
  const forget = () => redis.cli('SET', `{latchkey:}token:${before.digest}`, stored(before));
  const change = async (at: number, more: object) =>
    process.tokens.update({ ...before, updatedAt: NOW + at, restrictions: { addresses: ['10.0.0.0/8'], ...more } }, NOW + at - 1);
  t.equal(await change(1, { suspended: true }), 'updated');
  t.same(revocations.names(), [`suspended:${NOW + 1}:T9`]);
  forget();
  const suspended = { restrictions: { suspended: true, addresses: ['10.0.0.0/8'] } };
  t.match((await process.tokens.find(before.digest))?.token, suspended, 'whatever the store says');
  t.match(await restore(), { reapplied: 1 });
  t.strictSame((await store.tokens.find(before.digest))?.token, { ...before, updatedAt: NOW + 1, ...suspended });
  t.match(await restore(), { reapplied: 0 }, 'once');
  t.equal(await change(2, {}), 'updated', 'it is resumed');
  t.equal((await process.tokens.find(before.digest))?.token.restrictions?.suspended, undefined);
  t.match(await restore(), { reapplied: 0 }, 'and stays resumed');
  forget();
  t.match((await process.tokens.find(before.digest))?.token, suspended, 'if that was forgotten, too, the token is suspended');
}); // prettier-ignore

t.test('a user who was deleted by a clock that is ahead can be declared again', async (t) => {
  const { store, restore, revocations, creations } = await setUp(t);
  const process = serve(store, revocations, creations);
  noteEndings(store, revocations);
  const before = user('U9', { updatedAt: NOW + 5 });
  await store.directory.change({ users: [before] }, NOW);
  const isLocked = async () => (await process.directory.getUser('U9'))?.locked;
  await process.directory.change({ removeUsers: ['U9'] }, NOW + 3_600_000);
  await store.directory.change({ users: [before] }, NOW);
  t.equal(await isLocked(), true, 'a record that a failover brought back is');
  await store.directory.change({ users: [{ ...before, createdAt: NOW + 6, updatedAt: NOW + 6 }] }, NOW + 6);
  t.equal(await isLocked(), false);
  t.match(await restore(), { reapplied: 0 });
  t.equal(await isLocked(), false);
}); // prettier-ignore

t.test("an operator's lock that a failover forgot is an operator's lock again", async (t) => {
  const { redis, store, restore, revocations, creations } = await setUp(t);
  const process = serve(store, revocations, creations);
  noteEndings(store, revocations);
  const write = async (id: string, more: object) => store.directory.change({ users: [user(id, more)] }, NOW);
  const forgotten = { U1: redis.cli('GET', '{latchkey:}user:U1'), U2: redis.cli('GET', '{latchkey:}user:U2') };
  const byOperator = { locked: true, lockedBy: 'operator' } as const;
  await write('U1', { ...byOperator, updatedAt: NOW + 1 });
  await write('U2', { locked: true, updatedAt: NOW + 1 });
  for (const [id, text] of Object.entries(forgotten)) redis.cli('SET', `{latchkey:}user:${id}`, text);
  const readers = { 'a process that knows it': process, 'the store': store };
  for (const [who, { directory }] of Object.entries(readers)) {
    if (who === 'the store') t.match(await restore(), { reapplied: 2 }, 'one for each user');
    t.match(await directory.getUser('U1'), byOperator, `as ${who} reads it`);
    t.match(await directory.getUser('U2'), { locked: true, lockedBy: undefined }, 'one by the directory');
  }
  t.match(await restore(), { reapplied: 0 });
  await write('U1', { updatedAt: NOW + 2 });
  await write('U2', { ...byOperator, updatedAt: NOW + 2 });
  redis.cli('SET', '{latchkey:}user:U2', forgotten.U2.replace('"locked":false', '"locked":true'));
  t.match(await restore(), { reapplied: 1 });
  t.match(await process.directory.getUser('U1'), { locked: false, lockedBy: undefined }, 'an unlock counts');
  t.match(await store.directory.getUser('U2'), byOperator, 'a lock by both');
}); // prettier-ignore

t.test('remembers a suspension by the directory file like any other', async (t) => {
  const { redis, store, revocations, creations } = await setUp(t);
  const process = serve(store, revocations, creations);
  noteEndings(store, revocations);
  const before = token('T9', { services: [], declared: true });
  const apply = async (more: object) => process.directory.change({ declared: [{ ...before, ...more }] }, NOW);
  t.equal(await apply({}), undefined);
  t.same(revocations.names(), [], 'a new token replaces none');
  await apply({ updatedAt: NOW + 1, restrictions: { suspended: true } });
  t.same(revocations.names(), [`suspended:${NOW + 1}:T9`]);
  redis.cli('SET', `{latchkey:}token:${before.digest}`, stored(before));
  t.match((await process.tokens.find(before.digest))?.token, { restrictions: { suspended: true } });
}); // prettier-ignore

t.test('restores a changed token with its changes, or not at all', async (t) => {
  const { store, restore, revocations, creations, digest } = await setUp(t);
  const limited = token('T1', { updatedAt: NOW + 1, restrictions: { rate: '1/1m' } });
  creations.note({ kind: 'token', record: limited, owner: user('U1') });
  revocations.note([`changed:${NOW + 1}:T1`, `changed:${NOW + 1}:T2`]);
  t.match(await restore(), { recovered: 2, lost: [] });
  t.match(await store.tokens.find(digest('T1')), { token: limited });
  const gone = await Promise.resolve(store.tokens.get('T2')).catch(() => undefined);
  t.equal(gone, undefined, 'another process changed it');
}); // prettier-ignore

t.test('restores no token that the process that created it removed', async (t) => {
  const { store, restore, revocations, creations } = await setUp(t);
  const process = serve(store, revocations, creations);
  for (const id of ['T8', 'T9']) await process.tokens.create(token(id), user('U1'), NO_LIMITS, NOW);
  await process.directory.change({ removeTokens: ['T9'] }, NOW);
  t.same(
    creations.current(Date.now()).map(({ record }) => record.id),
    ['T1', 'T2', 'id-S1', 'T8'],
  );
  t.match(await restore(), { recovered: 3, lost: [] });
  t.equal(await Promise.resolve(store.tokens.get('T9')).catch(() => undefined), undefined);
});

t.test('does not refuse anything in a new store, or one with a known history', async (t) => {
  const { redis, store, restore } = await setUp(t);
  redis.cli('DEL', '{latchkey:}history');
  t.match(await restore(), { recovered: 0, lost: ['T1', 'T2'] });
  t.equal(await store.tokens.find('unknown'), undefined);
  t.match(await restore(), { recovered: 0, lost: [] });
  t.equal(await store.tokens.find('unknown'), undefined);
});

t.test('asks in batches for what is still there: no use of the store waits for it', async (t) => {
  const { redis, creations, restore } = await setUp(t);
  await restore();
  const there = Array.from({ length: 1_200 }, (_, i) => token(`K${i}`));
  redis.cli('MSET', ...there.flatMap((each) => [`{latchkey:}token:${each.digest}`, stored(each)]));
  for (const record of there) creations.note({ kind: 'token', record, owner: user('U1') });
  const calls = () => Number(/cmdstat_evalsha:calls=(\d+)/.exec(redis.cli('INFO', 'commandstats'))?.[1]);
  const before = calls();
  t.match(await restore(), { recovered: 0, lost: [] });
  t.ok(calls() - before < 20, `${calls() - before} round trips`);
});

t.test('notices that a re-elected master forgot what the master in between acknowledged', async (t) => {
  const { redis, store, revocations, creations, restore } = await setUp(t);
  await restore();
  await until(() => redis.cli('EXISTS', '{latchkey:}recovering') === '0', 'the recovery from the setup has ended');
  redis.cli('DEL', `{latchkey:}token:${token('T1').digest}`, '{latchkey:}token_id:T1');
  let epoch = 1;
  const { host, port } = new URL(redis.url.replace('redis:', 'http:'));
  const node = { host: host.split(':')[0] as string, port: Number(port) };
  const electors = { findMaster: async () => ({ node, epoch }), close: () => undefined };
  const open = async () =>
    MasterSession.open({ node, epoch }, redisSettings({ url: redis.url }), electors, new AbortController().signal);
  const first = await open();
  epoch = 2;
  await t.rejects(first.confirm());
  t.equal(await first.lost, 'it was chosen again by a failover');
  const again = await open();
  t.equal(again.identity.replicationId, first.identity.replicationId, 'it never learned that it was replaced');
  t.match(await restoreHistory(store.client, store.events, again, { revocations, creations, recovers: true }), { recovered: 1, lost: [] });
  t.ok(await store.tokens.find(token('T1').digest));
  again.end('the test is over');
}); // prettier-ignore

t.test('restores a rotation that a failover forgot: the old token ends at the same time', async (t) => {
  const { redis, store, restore, revocations, creations } = await setUp(t);
  noteEndings(store, revocations);
  const known = serve(store, revocations, creations);
  const before = token('T9', { name: 'a "expiresAt":null, name' });
  await store.tokens.create(before, user('U1'), NO_LIMITS, NOW);
  const terms = { id: 'R9', digest: 'digest-R9', overlap: 10_000, maxLifetime: null, notAfter: null, sharesRate: false };
  t.equal(await known.tokens.rotate(rotationOf(before, terms, NOW), user('U1'), NO_LIMITS, NOW), 'rotated');
  redis.cli('SET', '{latchkey:}token:digest-T9', stored(before));
  redis.cli('ZREM', '{latchkey:}index:overlaps', 'T9');
  redis.cli('DEL', '{latchkey:}token:digest-R9', '{latchkey:}token_id:R9');
  t.equal((await known.tokens.find('digest-T9'))?.token.expiresAt, NOW + 10_000, 'a process that knows it applies it at once');
  t.match(await restore(), { reapplied: 1, recovered: 4, lost: [] });
  t.strictSame((await store.tokens.find('digest-T9'))?.token, { ...before, expiresAt: NOW + 10_000 });
  t.equal((await store.tokens.find('digest-R9'))?.token.predecessorId, 'T9');
  t.match(await restore(), { reapplied: 0, recovered: 0 }, 'once');

  // Another process created this token and restores it; it learned of the rotation like any other.
  creations.note({ kind: 'token', record: token('T8'), owner: user('U1') });
  revocations.note([`ends:${NOW + 5_000}:T8`]);
  t.match(await restore(), { recovered: 1 });
  t.equal((await store.tokens.find('digest-T8'))?.token.expiresAt, NOW + 5_000, 'with the expiry from the rotation');
}); // prettier-ignore

t.test('a replacement that a failover forgot shares the fate of the token that it replaced', async (t) => {
  const { store, restore, revocations, creations } = await setUp(t);
  const known = serve(store, revocations, creations);
  const replacement = (id: string) => token(`R${id}`, { predecessorId: id, updatedAt: NOW + 1 });
  for (const id of ['A', 'B', 'C']) {
    await store.tokens.create(token(id), user('U1'), NO_LIMITS, NOW);
    creations.note({ kind: 'token', record: replacement(id), owner: user('U1') });
  }
  // Elsewhere, while nobody but this process knew of the replacements.
  await store.tokens.revoke(['A', 'B']);
  const suspended = token('C', { restrictions: { suspended: true }, updatedAt: NOW + 2 });
  t.equal(await store.tokens.update(suspended, NOW), 'updated');
  revocations.note(['token:B', nameOfChange(suspended)]);
  await restore();
  t.strictSame((await store.tokens.listOfUser('U1')).map((each) => each.token.id).filter((id) => !id.startsWith('T')).toSorted(), ['C', 'RC'], 'revoked in the store, or known to this process');
  t.match((await known.tokens.find('digest-RC'))?.token.restrictions, { suspended: true });
  await store.directory.change({ tokens: [replacement('B')] }, NOW);
  t.equal(await known.tokens.find('digest-RB'), undefined, 'not even if the store has it');
}); // prettier-ignore
