import { join } from 'node:path';
import * as fc from 'fast-check';
import t from 'tap';
import { deletePending } from '../../src/accounts/pending-deletions.js';
import type { User } from '../../src/domain/user.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { openPostgresStore } from '../../src/store/postgres.js';
import { openRedisStore } from '../../src/store/redis.js';
import { RecordCheck } from '../../src/store/record-check.js';
import {
  recordsOf,
  removeRecords,
  type StoreRecord,
  synchronize,
  writeRecords,
} from '../../src/store/transfer.js';
import type { Commit, Range } from '../../src/store/core/kv.js';
import { coreStore } from '../../src/store/core/store.js';
import { openEnvironment } from '../../src/store/lmdb/environment.js';
import { LmdbKv } from '../../src/store/lmdb/kv.js';
import type { Store } from '../../src/store/core/store.js';
import { contentOf } from '../helpers/content.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { options, told } from '../helpers/property.js';
import { postgresSettings, startPostgres } from '../helpers/postgres.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { NOW, session, token, user } from './contract/records.js';

const redis = await startRedis(t);
const server = await startPostgres(t);
let number = 0;
const opened: Store[] = [];
t.teardown(() => Promise.all(opened.map((store) => store.maintenance.close())));
const open = async (kind: keyof typeof KINDS): Promise<Store> => {
  const store = await KINDS[kind]();
  opened.push(store);
  return store;
};
const KINDS: Readonly<Record<'lmdb' | 'redis' | 'postgres', () => Store | Promise<Store>>> = {
  lmdb: () => openLmdbStore(join(temporaryFolder(t), 'store')),
  redis: () => openRedisStore(redisSettings({ url: redis.url, prefix: `transfer-${++number}:` })),
  postgres: () => openPostgresStore(postgresSettings({ url: server.url })),
};

/** A step in the life of a store. The numbers select existing records. */
type Step = readonly [
  (
    | 'user' | 'move' | 'lock' | 'rename' | 'pending' | 'delete' | 'token' | 'expired' | 'legacy' | 'revoke'
    | 'use' | 'session' | 'touch' | 'end' | 'sudo' | 'otp' | 'keys' | 'clean' | 'service' | 'swap' | 'customer' | 'limit'
  ),
  number,
  number,
]; // prettier-ignore

const NAMES = ['user', 'move', 'lock', 'rename', 'pending', 'delete', 'token', 'expired', 'legacy', 'revoke', 'use', 'session', 'touch', 'end', 'sudo', 'otp', 'keys', 'clean', 'service', 'swap', 'customer', 'limit'] as const; // prettier-ignore
const steps = fc.array(fc.tuple(fc.constantFrom(...NAMES), fc.nat(5), fc.nat(5)), {
  minLength: 30,
  maxLength: 90,
}) as fc.Arbitrary<Step[]>;

const NO_LIMITS = { active: null, stored: null };

/** Performs a step, as far as the store allows it. */
async function perform(store: Store, [what, a, b]: Step, at: number): Promise<void> {
  const now = NOW + at;
  const id = `U${a}`;
  const known = await store.directory.getUser(id);
  const write = (changed: User) => store.directory.change({ users: [{ ...changed, updatedAt: now }] }, now);
  if (what === 'user' && known === undefined) await write(user(id, { customerId: `C${b % 3}` }));
  if (what === 'service') await store.directory.change({ services: [{ id: `S${a}`, customerId: `C${b % 3}`, name: 'www' }] }, now);
  if (what === 'customer') {
    const customer = { id: `C${a % 3}`, name: 'again' };
    const removed = (await store.directory.listServices(customer.id)).map((service) => service.id);
    await store.directory.change(b > 1 ? { removeCustomers: [customer.id], removeServices: removed } : { customers: [customer] }, now);
  }
  if (what === 'otp') await store.usage.takeOtpStep(known === undefined ? 'U0' : id, at);
  if (what === 'clean') {
    await store.maintenance.removeExpired(now, now - b, 100);
    await deletePending(store, now, () => undefined);
  }
  if (what === 'keys') {
    const revision = ((await store.signingKeys.get())?.revision ?? 0) + 1;
    const key = { kid: `K${at}`, algorithm: 'EdDSA', sealedKey: 'v1.a.b', signsFrom: now } as const;
    await store.signingKeys.replace({ revision, keys: [key] });
  }
  if (what === 'revoke' || what === 'use' || what === 'limit') {
    const all = (await store.tokens.listOfUser(id)).map((each) => each.token);
    const known = all[b % Math.max(1, all.length)];
    if (known === undefined) return;
    const chosen = known.id;
    const restrictions = [undefined, { suspended: true as const }, { rate: '5/1m', addresses: ['10.0.0.0/8'] }][b % 3];
    if (what === 'limit') return void (await store.tokens.update({ ...known, restrictions, updatedAt: known.updatedAt + 1 }, known.updatedAt));
    if (what === 'revoke') await store.tokens.revoke([chosen]);
    else await store.usage.recordUses({ tokens: new Map([[chosen, { at: now, ip: '::1', userAgent: null }]]), sessions: new Map() });
  }
  if (known === undefined) return;
  if (what === 'move') await write({ ...known, customerId: `C${b % 3}` });
  if (what === 'lock') await write({ ...known, locked: b > 2, ...(b > 4 ? { lockedBy: 'operator' } : {}) });
  if (what === 'rename') await write({ ...known, login: `Ä${a}.${b}\u2028@example.com`, role: `role${b}`, passwordHash: `hash${b}` });
  if (what === 'pending') await write({ ...known, locked: true, deletionPending: true });
  if (what === 'delete') await store.directory.change({ removeUsers: [id] }, now);
  if (what === 'swap') {
    const other = await store.directory.getUser(`U${b}`);
    if (other === undefined || other.id === id) return;
    await store.directory.change({ users: [{ ...known, login: other.login }, { ...other, login: known.login }] }, now);
  }
  const more = { userId: id, services: b > 3 ? ['S1'] : [], createdAt: now };
  if (what === 'token') await store.tokens.create(token(`T${at}`, more), known, NO_LIMITS, now);
  if (what === 'expired') await store.tokens.create(token(`T${at}`, { ...more, expiresAt: NOW + b * 10 }), known, NO_LIMITS, now);
  if (what === 'legacy') await store.directory.change({ tokens: [token(`L${b}`, { ...more, kind: 'legacy_key' })] }, now);
  if (what === 'sudo') await store.sessions.grantSudo(known, 'T1', now + 60_000);
  if (what === 'session') {
    const session = { digest: `D${at}`, id: `s${at}`, userId: id, createdAt: now, endsAt: now + 99, idleEndsAt: now + (b > 2 ? 50 : 99), lastSeenAt: now, ip: '::1', userAgent: null };
    await store.sessions.create(session, known, 3);
  }
  const [first] = await store.sessions.listOfUser(id);
  if (first === undefined) return;
  if (what === 'end') await store.sessions.end(first.digest);
  if (what === 'touch') await store.usage.recordUses({ tokens: new Map(), sessions: new Map([[first.digest, { at: now, ip: '::2', userAgent: 'x', idleEndsAt: now + 9 }]]) });
} // prettier-ignore

async function restored(records: readonly StoreRecord[], store: Store): Promise<Store> {
  const check = new RecordCheck();
  // In the form of a backup file.
  const read = records.map((record) => check.add(JSON.parse(JSON.stringify(record))));
  await store.maintenance.initialize();
  await writeRecords(store, read);
  return store;
}

/** Secrets are not sealed in these tests. */
const sealer = { seal: (plain: string) => plain, open: (sealed: string) => sealed };

async function copied(source: Store, target: Store) {
  const check = new RecordCheck();
  async function* records() {
    for await (const record of recordsOf(source)) yield check.add(record);
  }
  let count = 0;
  await synchronize({ store: source, sealer }, { store: target, sealer }, records(), () => (count += 1));
  return count;
}

for (const from of ['lmdb', 'redis', 'postgres'] as const) {
  t.test(`a backup restores a store after any sequence of changes, and a copy follows further ones (${from})`, async (t) => {
    let most = 0;
    const details = await fc.check(
      fc.asyncProperty(steps, steps, async (history, further) => {
        const source = await open(from);
        await source.maintenance.initialize();
        const customers = ['C0', 'C1', 'C2'].map((id) => ({ id, name: id }));
        await source.directory.change({ customers, users: [user('U0', { customerId: 'C0' }), user('U1'), user('U2')] }, NOW);
        for (const [at, step] of history.entries()) await perform(source, step, at);
        const records: StoreRecord[] = [];
        for await (const record of recordsOf(source)) records.push(record);
        const content = await contentOf(source);
        most = Math.max(most, content.size);
        for (const to of ['lmdb', 'redis', 'postgres'] as const) {
          const target = await restored(records, await open(to));
          if (!t.strictSame((await contentOf(target)), content)) throw new Error(`${from} to ${to}`);
          for (const record of records)
            if (record.kind === 'token') t.strictSame((await target.tokens.find(record.value.digest))?.token, (await source.tokens.find(record.value.digest))?.token);
          t.equal(await target.tokens.countActive(NOW), await source.tokens.countActive(NOW));
          t.equal(await target.tokens.hasLegacyKeys(), await source.tokens.hasLegacyKeys());
          t.strictSame([...(await target.directory.listPendingDeletions())].toSorted(), [...(await source.directory.listPendingDeletions())].toSorted());
        }
        const revoked = [...content.keys()].filter((key) => key.startsWith('revoked '));
        for (const [at, step] of further.entries()) await perform(source, step, history.length + at);
        const after = await contentOf(source);
        for (const target of opened.slice(1)) {
          await copied(source, target);
          t.strictSame(await contentOf(target), after, 'a copy into the store as it was');
          t.equal(await copied(source, target), 0);
          await removeRecords(target);
          t.strictSame([...(await contentOf(target)).keys()].filter((key) => !key.startsWith('revoked ')), [], 'removed');
          t.ok((await target.tokens.listRevokedDigests()).length >= revoked.length, 'save what was revoked');
        }
        for (const store of opened.splice(0)) await store.maintenance.close();
      }),
      options<[Step[], Step[]]>(5),
    );
    t.notOk(details.failed, told(details));
    t.ok(most > 5, `${most} records`);
  }); // prettier-ignore
}

t.test('an interrupted or repeated transfer into Redis is not remembered as the end of what it replaces', async (t) => {
  const source = await open('lmdb');
  await source.maintenance.initialize();
  const owner = user('U1', { otpSecret: 'v1.a.b' });
  await source.directory.change({ customers: [{ id: 'C1', name: 'C1' }], users: [owner] }, NOW);
  await source.tokens.create(token('T1'), owner, NO_LIMITS, NOW);
  await source.sessions.create(session('D1', { endsAt: NOW + 99 }), owner, 3);
  const records: StoreRecord[] = [];
  for await (const record of recordsOf(source)) records.push(record);
  const target = await restored(records, await open('redis'));
  await removeRecords(target);
  await writeRecords(target, records);
  // A copy seals secrets again, and each time they differ.
  await writeRecords(target, records.map((record) => (record.kind === 'user' ? { ...record, value: { ...record.value, otpSecret: 'v1.c.d' } } : record)));
  t.match(await target.sessions.find('D1'), { session: { digest: 'D1' } });
  t.equal(redis.cli('ZCARD', `{transfer-${number}:}index:revocations`), '0');
  await target.directory.change({ users: [{ ...owner, locked: true, updatedAt: NOW + 1 }] }, NOW);
  t.equal(redis.cli('ZCARD', `{transfer-${number}:}index:revocations`), '2', 'a lock is');
}); // prettier-ignore

t.test('refuses records that are not a complete store', async (t) => {
  const customer = { kind: 'customer', value: { id: 'C1', name: 'One' } };
  const owner = { kind: 'user', value: user('U1'), otpStep: -1 };
  const session = { digest: 'D1', id: 's1', userId: 'U1', createdAt: NOW, endsAt: NOW, idleEndsAt: NOW, lastSeenAt: NOW, ip: '', userAgent: null };
  const good = [customer, owner, { kind: 'token', value: token('T1'), use: null }, { kind: 'session', value: session }];
  const rows: [string, unknown[], RegExp][] = [
    ['no fault', [], /^$/],
    ['an unknown customer', [{ ...owner, value: user('U2', { customerId: 'C9' }) }], /lacks the customer C9, to which the user U2 belongs/],
    ['an unknown owner of a token', [{ kind: 'token', value: token('T2', { userId: 'U9' }), use: null }], /lacks the user U9, to which the token T2 belongs/],
    ['an unknown owner of a session', [{ kind: 'session', value: { ...session, id: 's2', digest: 'D2', userId: 'U9' } }], /lacks the user U9/],
    ['an unknown customer of a service', [{ kind: 'service', value: { id: 'S1', customerId: 'C9', name: '' } }], /lacks the customer C9/],
    ['a user twice', [{ ...owner, value: user('U1', { login: 'other' }) }], /contains the user U1 twice/],
    ['a login twice', [{ ...owner, value: user('U2', { login: 'u1@EXAMPLE.com' }) }], /contains the login u1@example.com twice/],
    ['a kind from a newer version', [{ kind: 'robot', value: { id: 'R' } }], /unknown record \(robot R\)/],
    ['a token with unknown limits', [{ kind: 'token', value: { ...token('T2'), restrictions: { hours: 1 } }, use: null }], /unknown record \(token T2\)/],
    ['a damaged user', [{ ...owner, value: { ...user('U2'), locked: 'no' } }], /unknown record \(user U2\)/],
    ['a user without an id', [{ ...owner, value: { ...user('U2'), id: '' } }], /unknown record/],
    ['nothing', [null], /unknown record/],
  ]; // prettier-ignore
  for (const [name, more, expected] of rows) {
    let message = '';
    try {
      const check = new RecordCheck();
      for (const record of [...good, ...more]) check.add(record);
    } catch (error) {
      message = (error as Error).message;
    }
    t.match(message, expected, name);
  }
}); // prettier-ignore

t.test('a transfer holds few records at once, however many a user has', async (t) => {
  let most = 0;
  class Counting extends LmdbKv {
    override read(keys: readonly string[]) {
      most = Math.max(most, keys.length);
      return super.read(keys);
    }
    override range(index: string, range: Range) {
      const found = super.range(index, range);
      most = Math.max(most, found.length);
      return found;
    }
    override commit(change: Commit) {
      most = Math.max(most, change.put.size);
      return super.commit(change);
    }
  }
  const open = () => {
    const path = join(temporaryFolder(t), 'store');
    const kv = new Counting(openEnvironment(path), path, 0, () => undefined);
    const store = coreStore(kv);
    t.teardown(() => store.maintenance.close());
    return store;
  };
  const [source, target] = [open(), open()];
  const owner = user('U1');
  const records = [
    { kind: 'customer', value: { id: 'C1', name: 'C1' } } as const,
    { kind: 'user', value: owner, otpStep: -1 } as const,
    ...Array.from({ length: 3_000 }, (_, i) => ({ kind: 'token', value: token(`T${i}`), use: null }) as const),
  ];
  t.equal(await writeRecords(source, records), 3_002);
  await target.directory.change({ customers: [{ id: 'C2', name: 'C2' }], users: [user('U2', { customerId: 'C2', login: owner.login })] }, NOW);
  t.equal(await copied(source, target), 3_004);
  t.strictSame(await contentOf(target), await contentOf(source));
  t.ok(most <= 600, `${most} at once`);
}); // prettier-ignore

t.test('a copy moves logins that users exchanged, however far apart they are', async (t) => {
  const [source, target] = [await open('lmdb'), await open('lmdb')];
  const customers = [{ id: 'C1', name: 'C1' }];
  const users = Array.from({ length: 250 }, (_, i) => user(`U${1_000 + i}`));
  const logins = users.map(({ login }) => login);
  const exchanged = users.map((each, i) => ({ ...each, login: logins[(i + 1) % logins.length] ?? '' }));
  await source.directory.change({ customers, users: exchanged }, NOW);
  await target.directory.change({ customers, users }, NOW);
  t.ok((await copied(source, target)) > 0);
  t.strictSame(await contentOf(target), await contentOf(source));
});
