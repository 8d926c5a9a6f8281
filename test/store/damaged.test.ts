import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { open } from 'lmdb';
import t, { type Test } from 'tap';
import { deletePending } from '../../src/accounts/pending-deletions.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { openRedisStore } from '../../src/store/redis.js';
import type { Store } from '../../src/store/store.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';
import { BASE, createSession, createToken, ownerOf, session, token, user } from './contract/records.js';

/** Replaces the records of token A, of the use of token B, and of session s1. */
type Damage = () => Promise<void>;

async function lmdb(t: Test): Promise<{ store: Store; damages: Record<string, Damage> }> {
  const path = join(temporaryFolder(t), 'store');
  const write = (value: unknown) => async () => {
    const root = open({ path, maxDbs: 32, overlappingSync: false });
    for (const [db, key] of [['tokens', 'digest-A'], ['uses', 'B'], ['sessions', 's1']] as const) await root.openDB(db, {}).put(key, value);
    await root.close();
  };
  return {
    store: openLmdbStore(path),
    damages: { foreign: write('garbage'), incomplete: write({ v: 1, at: 'x' }), newer: write({ ...token('A'), v: 9 }) },
  };
} // prettier-ignore

async function redis(t: Test): Promise<{ store: Store; damages: Record<string, Damage> }> {
  const { url, cli } = await startRedis(t);
  const [tokenKey, sessionKey] = ['{latchkey:}token:digest-A', '{latchkey:}session:s1'] as const;
  const write = (text: string) => async () => {
    cli('SET', tokenKey, text);
    cli('HSET', '{latchkey:}uses', 'B', text);
    cli('SET', sessionKey, text);
  };
  return {
    store: await openRedisStore(redisSettings({ url })),
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

/** Delivers what is due. Returns whether nothing was. */
async function deliverAll({ webhooks }: Store, lease: string): Promise<boolean> {
  const due = (await webhooks.listDue(lease, 'e', Date.now(), 100)) ?? [];
  for (const { event } of due) await webhooks.settle(lease, 'e', event, { kind: 'delivered' }, Date.now());
  return due.length === 0;
}
