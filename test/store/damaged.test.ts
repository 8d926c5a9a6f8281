import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { open } from 'lmdb';
import t, { type Test } from 'tap';
import { deletePending } from '../../src/accounts/pending-deletions.js';
import { Sessions } from '../../src/accounts/sessions.js';
import { readableOf } from '../../src/store/faults.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { openRedisStore } from '../../src/store/redis.js';
import type { Store } from '../../src/store/store.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';
import { BASE, createSession, createToken, ownerOf, session, token, user } from './contract/records.js';

/** Replaces the records of token A, of the use of token B, and of session s1. */
type Damage = () => Promise<void>;
type Kind = 'tokens' | 'users' | 'sessions';
interface Opened {
  readonly store: Store;
  readonly damages: Record<string, Damage>;
  /** Replaces one record. */
  readonly write: (kind: Kind, key: string, value: unknown) => Promise<void>;
}

async function lmdb(t: Test): Promise<Opened> {
  const path = join(temporaryFolder(t), 'store');
  const writeOne = async (db: string, key: string, value: unknown) => {
    const root = open({ path, maxDbs: 32, overlappingSync: false });
    await root.openDB(db, {}).put(key, value);
    await root.close();
  };
  const write = (value: unknown) => async () => {
    const root = open({ path, maxDbs: 32, overlappingSync: false });
    for (const [db, key] of [['tokens', 'digest-A'], ['uses', 'B'], ['sessions', 's1']] as const) await root.openDB(db, {}).put(key, value);
    await root.close();
  };
  return {
    store: openLmdbStore(path),
    damages: { foreign: write('garbage'), incomplete: write({ v: 1, at: 'x' }), newer: write({ ...token('A'), v: 9 }) },
    write: writeOne,
  };
} // prettier-ignore

async function redis(t: Test): Promise<Opened> {
  const { url, cli } = await startRedis(t);
  const [tokenKey, sessionKey] = ['{latchkey:}token:digest-A', '{latchkey:}session:s1'] as const;
  const write = (text: string) => async () => {
    cli('SET', tokenKey, text);
    cli('HSET', '{latchkey:}uses', 'B', text);
    cli('SET', sessionKey, text);
  };
  return {
    store: await openRedisStore(redisSettings({ url })),
    write: async (kind, key, value) => {
      const text = typeof value === 'string' ? value : JSON.stringify(value);
      cli('SET', `{latchkey:}${kind.slice(0, -1)}:${key}`, text);
    },
    damages: {
      foreign: write('garbage'),
      incomplete: write('{"v":1,"at":"x"}'),
      'of another type': async () => {
        cli('DEL', tokenKey, sessionKey);
        cli('LPUSH', tokenKey, 'x');
        cli('LPUSH', sessionKey, 'x');
      },
    },
  };
}

for (const [name, make] of Object.entries({ lmdb, redis }))
  t.test(`a record that cannot be read affects only itself: ${name}`, async (t) => {
    const { store, damages } = await make(t);
    t.teardown(() => store.maintenance.close());
    const { tokens, sessions, usage, webhooks, maintenance, directory } = store;
    const ids = ['A', 'B', 'C'];
    await maintenance.initialize();
    webhooks.subscribe([{ endpoint: 'e', events: ['token.expired', 'token.expiring', 'token.revoked'] }]);
    for (const [kind, damage] of Object.entries(damages)) {
      const now = Date.now();
      const times = { createdAt: now, updatedAt: now };
      await directory.change({ ...BASE, users: ['U1', 'U2', 'U3'].map((id) => ownerOf(id)) }, now);
      const lease = (await webhooks.acquire('sender', 60_000)) ?? '';
      await webhooks.queueExpired(lease);
      for (const id of ids)
        await createToken(store, token(id, { ...times, expiresAt: now + 250 }), null, now);
      const endsAt = now + 60_000;
      for (const id of ['s1', 's2', 's3'])
        await createSession(store, session(id, { createdAt: now, lastSeenAt: now, endsAt }));
      const usedAt = (at: number) => ({ at, ip: '::1', userAgent: null, idleEndsAt: endsAt });
      const use = async (at: number) =>
        usage.recordUses({
          tokens: new Map(ids.map((id) => [id, usedAt(at)])),
          sessions: new Map(['s1', 's2'].map((digest) => [digest, usedAt(at)])),
        });
      await use(now + 1);
      await damage();

      t.same(await tokens.claimWarnings(ids, now), ['B', 'C'], `${kind}: the others are about to expire`);
      await use(now + 2);
      t.equal((await tokens.get('B'))?.use?.at, now + 2, 'a use is replaced');
      t.equal((await sessions.find('s2'))?.session.lastSeenAt, now + 2, 'another session was used');
      const fourth = session('s4', { createdAt: now, lastSeenAt: now + 3, endsAt });
      const ended = await sessions.create(fourth, ownerOf('U1'), 2);
      t.same(
        Array.isArray(ended) && ended.map(({ digest }) => digest),
        ['s3'],
        'the least recently used one ends',
      );
      await sleep(Math.max(0, now + 260 - Date.now()));
      t.equal(await webhooks.queueExpired(lease), 0);
      const due = (await webhooks.listDue(lease, 'e', Date.now(), 100)) ?? [];
      t.same(
        due.map(({ event }) => event.subject).toSorted(),
        ids.map((id) => `token:${id}`),
        'events of all',
      );
      await until(async () => deliverAll(store, lease), 'all are delivered');
      await directory.change({ users: [user('U4', { locked: true, deletionPending: true })] }, now);
      const deleted: string[] = [];
      const pending = { users: [user('U1', { locked: true, deletionPending: true, updatedAt: now + 1 })] };
      t.equal(await directory.change(pending, now), undefined, 'the owner can be locked');
      t.same(await sessions.listOfUser('U1'), [], 'which ends every session');
      await deletePending(store, now, ({ id }) => deleted.push(id));
      t.same(deleted, ['U4'], 'another user is deleted');
      // More per batch than can be removed: what stays does not take the place of others.
      t.ok((await maintenance.removeExpired(endsAt + 1, now + 500, 2)) <= 2);
      while ((await maintenance.removeExpired(endsAt + 1, now + 500, 2)) === 2);
      t.same(
        await Promise.all(['B', 'C'].map(async (id) => tokens.get(id))),
        [undefined, undefined],
        'others are removed',
      );
      await t.rejects(async () => tokens.find('digest-A'), 'it never counts as missing');
    }
  });

for (const [name, make] of Object.entries({ lmdb, redis }))
  t.test(`a damaged record is named, left out of lists, and can be removed: ${name}`, async (t) => {
    const { store, write } = await make(t);
    t.teardown(() => store.maintenance.close());
    const { tokens, directory, maintenance } = store;
    const now = Date.now();
    await maintenance.initialize();
    await directory.change({ ...BASE, users: ['U1', 'U2', 'U3'].map((id) => ownerOf(id)) }, now);
    for (const id of ['A', 'B', 'C']) await createToken(store, token(id), null, now);
    await createToken(store, token('D', { userId: 'U2' }), null, now);

    const mistyped = [{ expiresAt: 'x' }, { scopes: 'global' }, { services: {} }, { kind: 1 }];
    for (const field of mistyped) {
      await write('tokens', 'digest-A', { v: 1, ...token('A'), ...field });
      await t.rejects(async () => tokens.find('digest-A'), /is damaged/, JSON.stringify(field));
    }
    for (const list of [() => tokens.listOfUser('U1'), () => tokens.listOfCustomer('C1')]) {
      const left: string[] = [];
      const found = await readableOf(list, ({ message }) => left.push(message));
      t.notOk(found.some(({ token: { id } }) => id === 'A'));
      t.ok(found.some(({ token: { id } }) => id === 'B'));
      t.match(left, ['a token record is damaged (token A; "latchkey token revoke A" removes it)']);
      await t.rejects(async () => list(), /token A/, 'what decides by a list gets none');
    }
    t.match(await tokens.revoke(['A', 'B']), { missing: [] });
    t.equal(await tokens.find('digest-A'), undefined);
    t.same(
      (await tokens.listOfUser('U1')).map(({ token: { id } }) => id),
      ['C'],
    );
    t.same(await tokens.filterRevoked(['digest-A', 'id:A']), ['digest-A', 'id:A'], 'it never comes back');
    t.equal(await createToken(store, token('E'), 2, now), 'created', 'it does not count any more');

    await write('tokens', 'digest-C', 'garbage');
    t.match(await directory.change({ removeUsers: ['U1'] }, now), { reason: 'active_tokens' });
    t.equal(await directory.change({ removeUsers: ['U1'], removeTokens: ['C', 'E'] }, now), undefined);
    await write('users', 'U2', 'garbage');
    t.match(
      await readableOf(
        () => directory.listUsers('C1'),
        ({ message }) => t.match(message, /\(user U2; "latchkey user delete U2"/),
      ),
      [],
    );
    t.match(await directory.change({ removeUsers: ['U2'] }, now), { users: [{ tokenIds: ['D'] }] });
    t.equal(await directory.change({ removeUsers: ['U2'], removeTokens: ['D'] }, now), undefined);
    t.equal(
      await directory.change({ users: [user('U4', { login: ownerOf('U2').login })] }, now),
      undefined,
      'its login is free',
    );
    t.same(
      (await directory.listUsers('C1')).map(({ id }) => id),
      ['U4'],
    );
    t.equal(await tokens.countActive(now), 0);

    await write('users', 'U3', { v: 1, loginKey: 'u3', ...ownerOf('U3'), updatedAt: null });
    t.equal(await directory.change({ removeUsers: ['U3'] }, now), undefined, 'a time of another type');
    t.equal(await directory.getUser('U3'), undefined);
  });

t.test('sessions that a newer Latchkey wrote do not count as missing', async (t) => {
  const { store, write } = await lmdb(t);
  t.teardown(() => store.maintenance.close());
  await store.maintenance.initialize();
  const now = Date.now();
  await store.directory.change({ ...BASE, users: [ownerOf('U1')] }, now);
  const provider = { name: 'p', sid: 'x' };
  for (const id of ['s1', 's2']) await createSession(store, session(id, { provider }));
  const settings = { idle_timeout: 1, absolute_timeout: 1, max_per_user: null };
  const sessions = new Sessions(store, { sessionSeenAt: () => now }, settings as never);
  await write('sessions', 's1', 'garbage');
  t.match(await sessions.ofProvider('U1', ['x']), [{ digest: 's2' }], 'a damaged one is passed over');
  await write('sessions', 's1', { ...session('s1', { provider }), v: 9 });
  await t.rejects(sessions.ofProvider('U1', ['x']), /version 9/, 'what the provider ends');
  await t.rejects(sessions.endById('U1', 'public-s1'), /version 9/, 'what its user ends');
});

/** Delivers what is due. Returns whether nothing was. */
async function deliverAll({ webhooks }: Store, lease: string): Promise<boolean> {
  const due = (await webhooks.listDue(lease, 'e', Date.now(), 100)) ?? [];
  for (const { event } of due) await webhooks.settle(lease, 'e', event, { kind: 'delivered' }, Date.now());
  return due.length === 0;
}
