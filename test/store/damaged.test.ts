import { join } from 'node:path';
import { open } from 'lmdb';
import t, { type Test } from 'tap';
import { RecordUnreadable, type RemovableKind } from '../../src/store/faults.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { openPostgresStore } from '../../src/store/postgres.js';
import { openRedisStore } from '../../src/store/redis.js';
import type { Store } from '../../src/store/core/store.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { postgresSettings, startPostgres } from '../helpers/postgres.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import {
  BASE,
  createSession,
  createToken,
  NOW,
  ownerOf,
  session,
  token,
  USE,
  user,
} from './contract/records.js';

const ENDS_AT = Date.now() + 3_600_000;
/** One digest begins with a dash, which a command would take for an option. */
const DIGESTS = { A: '-digest-of-A', S: 'session-of-U1' } as const;
const USES = { at: NOW + 9, ip: '::1', userAgent: null, idleEndsAt: ENDS_AT };

/** Replaces a record of {@link fill} by another value. */
type Damage = (kind: RemovableKind | 'use', value: unknown) => Promise<void>;
interface Opened {
  readonly store: Store;
  readonly damage: Damage;
}

/** The beginning of the keys of the records that are replaced. */
const PLACES: Readonly<Record<RemovableKind | 'use', string>> = {
  customer: 'customer:C1',
  service: 'service:S1',
  user: 'user:U1',
  token: `token:${DIGESTS.A}`,
  session: `session:${DIGESTS.S}`,
  use: 'use:A',
  webhook: 'queue:e/token:A',
  dead_letter: 'dead:e/',
};

/** Returns a record as it is stored, with another value. */
const stored = (before: string, value: unknown) =>
  typeof value === 'string' ? value : `${before.split('|').slice(0, 2).join('|')}|${JSON.stringify(value)}`;

async function lmdb(t: Test): Promise<Opened> {
  const path = join(temporaryFolder(t), 'store');
  const damage: Damage = async (kind, value) => {
    const root = open({ path, maxDbs: 8, overlappingSync: false });
    const db = root.openDB<Buffer, string>('records', { encoding: 'binary' });
    const [key] = db.getKeys({ start: PLACES[kind], limit: 1 });
    await db.put(key ?? '', Buffer.from(stored(String(db.get(key ?? '')), value)));
    await root.close();
  };
  return { store: openLmdbStore(path), damage };
}

async function redis(t: Test): Promise<Opened> {
  const { url, cli } = await startRedis(t);
  const damage: Damage = async (kind, value) => {
    const [key = ''] = cli('--scan', '--pattern', `{latchkey:}${PLACES[kind]}*`).split('\n').toSorted();
    cli('SET', key, stored(cli('GET', key), value));
  };
  return { store: await openRedisStore(redisSettings({ url })), damage };
}

const server = await startPostgres(t);

async function postgres(): Promise<Opened> {
  const settings = postgresSettings({ url: server.url });
  const table = `${settings.schema}.records`;
  const damage: Damage = async (kind, value) => {
    const place = `key = (SELECT min(key) FROM ${table} WHERE starts_with(key, '${PLACES[kind]}'))`;
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    await server.sql(`UPDATE ${table} SET value = '${text}' WHERE ${place}`);
  };
  return { store: openPostgresStore(settings), damage };
}

/** Writes two users with a token and a session each, and gives up a webhook of token A and one of B. */
async function fill(store: Store): Promise<string> {
  await store.maintenance.initialize();
  store.webhooks.subscribe([{ endpoint: 'e', events: ['token.created', 'token.rotation_repeated'] }]);
  await store.directory.change({ ...BASE, users: [ownerOf('U1'), ownerOf('U2')] }, NOW);
  await createToken(store, token('A', { digest: DIGESTS.A }), null, NOW);
  await createToken(store, token('B', { userId: 'U2' }), null, NOW);
  await createSession(store, session(DIGESTS.S, { endsAt: ENDS_AT, idleEndsAt: ENDS_AT }));
  await createSession(
    store,
    session('other-session', { userId: 'U2', endsAt: ENDS_AT, idleEndsAt: ENDS_AT }),
  );
  await store.usage.recordUses({ tokens: new Map([['A', USE]]), sessions: new Map() });
  const lease = (await store.webhooks.acquire('sender', 600_000)) ?? '';
  for (const { event } of (await store.webhooks.listDue(lease, 'e', Date.now(), 9)) ?? [])
    await store.webhooks.settle(lease, 'e', event, { kind: 'dead', error: 'x' }, NOW);
  for (const id of ['A', 'B']) {
    const found = await store.tokens.get(id);
    if (found !== undefined)
      await store.tokens.update(
        { ...found.token, updatedAt: NOW + 1 },
        found.token.updatedAt,
        [],
        'token.rotation_repeated',
      );
  }
  // The sender takes them up.
  await store.webhooks.listDue(lease, 'e', Date.now(), 9);
  return lease;
}

/** What needs each kind of record, and the id by which the error names it. */
const CASES: Readonly<Record<RemovableKind, { id: string; needs: ((store: Store, lease: string) => unknown)[] }>> = {
  customer: { id: 'C1', needs: [({ directory }) => directory.getCustomer('C1'), ({ directory }) => directory.listCustomers()] },
  service: { id: 'S1', needs: [({ directory }) => directory.getService('S1'), ({ directory }) => directory.listServices('C1')] },
  user: {
    id: 'U1',
    needs: [
      ({ tokens }) => tokens.find(DIGESTS.A),
      ({ sessions }) => sessions.find(DIGESTS.S),
      ({ directory }) => directory.listUsers('C1'),
      async ({ directory }) => directory.change({ users: [user('U2', { locked: true }), user('U1')] }, NOW),
      async (store) => createToken(store, token('N'), null, NOW),
    ],
  },
  token: {
    id: 'A',
    needs: [
      ({ tokens }) => tokens.get('A'),
      ({ tokens }) => tokens.listOfUser('U1'),
      ({ tokens }) => tokens.listOfCustomer('C1'),
      async ({ tokens }) => tokens.revoke(['B', 'A']),
      async ({ directory }) => directory.change({ removeTokens: ['B', 'A'] }, NOW),
    ],
  },
  session: {
    id: DIGESTS.S.slice(0, 8),
    needs: [
      ({ sessions }) => sessions.find(DIGESTS.S),
      ({ sessions }) => sessions.listOfUser('U1'),
      async ({ sessions }) => sessions.endOfUser('U1'),
      async ({ directory }) => directory.change({ users: [user('U2', { locked: true }), user('U1', { locked: true })] }, NOW),
    ],
  },
  webhook: { id: 'e/token:A', needs: [async ({ webhooks }, lease) => webhooks.listDue(lease, 'e', Date.now(), 9)] },
  dead_letter: {
    id: 'e',
    needs: [({ webhooks }) => webhooks.listDead('e'), async ({ webhooks }) => webhooks.resend('e', null)],
  },
}; // prettier-ignore

for (const [name, make] of Object.entries({ lmdb, redis, postgres }))
  for (const [kind, { id, needs }] of Object.entries(CASES) as [RemovableKind, (typeof CASES)[RemovableKind]][])
    t.test(`a damaged ${kind} is refused and named until it is removed: ${name}`, async (t) => {
      const { store, damage } = await make(t);
      t.teardown(() => store.maintenance.close());
      const { maintenance, tokens, sessions, usage, webhooks } = store;
      const lease = await fill(store);
      for (const name of [id, 'unknown']) t.equal(await maintenance.removeDamaged(kind, name), false, 'nothing is damaged');

      for (const value of ['garbage', { v: 1, at: 'x' }]) {
        await damage(kind, value);
        for (const need of needs) {
          const error = await Promise.resolve(need).then((run) => run(store, lease)).catch((fault: unknown) => fault);
          t.type(error, RecordUnreadable, String(need));
          t.match((error as Error).message, `"latchkey store remove ${kind} ${id}" removes it`, String(need));
        }
      }
      if (kind === 'token')
        await t.rejects(async () => tokens.find(DIGESTS.A), new RegExp(`"latchkey store remove token -- ${DIGESTS.A.slice(0, 8)}" removes it`));
      t.match(await tokens.find('digest-B'), { owner: { id: 'U2', locked: false } }, 'another user is not affected');
      t.ok(await sessions.find('other-session'));
      const uses = { tokens: new Map([['A', USES], ['B', USES]]), sessions: new Map([[DIGESTS.S, USES]]) };
      await usage.recordUses(uses);
      t.match(await tokens.get('B'), { use: { at: USES.at } }, 'the others are recorded');

      t.equal(await maintenance.removeDamaged(kind, kind === 'token' ? DIGESTS.A.slice(0, 8) : id), true);
      t.equal(await maintenance.removeDamaged(kind, id), false, 'it is gone');
      if (kind !== 'token') for (const need of needs) await need(store, lease);
      else {
        t.equal(await tokens.find(DIGESTS.A), undefined);
        t.same(await tokens.filterRevoked(['id:A', DIGESTS.A]), ['id:A', DIGESTS.A], 'it stays blocked');
        t.same(await tokens.listOfUser('U1'), []);
        t.equal(await tokens.countActive(Date.now()), 1);
      }
      const due = (await webhooks.listDue(lease, 'e', Date.now(), 9)) ?? [];
      t.ok(due.some(({ event }) => event.subject === 'token:B'), 'webhooks of others are sent');
    }); // prettier-ignore

for (const [name, make] of Object.entries({ lmdb, redis, postgres }))
  t.test(`a damaged last use is like none, and the next use replaces it: ${name}`, async (t) => {
    const { store, damage } = await make(t);
    t.teardown(() => store.maintenance.close());
    await fill(store);
    await damage('use', 'garbage');
    t.match(await store.tokens.get('A'), { token: { id: 'A' }, use: null });
    await store.usage.recordUses({ tokens: new Map([['A', USES]]), sessions: new Map() });
    t.match(await store.tokens.get('A'), { use: { at: USES.at } });
  });

t.test('a record of a newer Latchkey is refused, and stays', async (t) => {
  const { store, damage } = await lmdb(t);
  t.teardown(() => store.maintenance.close());
  await fill(store);
  await damage('token', { ...token('A', { digest: DIGESTS.A }), v: 9 });
  await t.rejects(async () => store.tokens.get('A'), /version 9; .*\(token A\)$/);
  await t.rejects(store.maintenance.removeDamaged('token', 'A'), /version 9/);
});
