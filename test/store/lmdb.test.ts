import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, statSync, statfsSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { open } from 'lmdb';
import t, { type Test } from 'tap';
import { coreStore } from '../../src/store/core/store.js';
import { openEnvironment } from '../../src/store/lmdb/environment.js';
import { LmdbKv } from '../../src/store/lmdb/kv.js';
import { Endings } from '../../src/store/endings.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { RECORD_VERSION } from '../../src/store/core/kinds.js';
import { StoreUnavailable } from '../../src/store/faults.js';
import { WRITES_KEPT_MS } from '../../src/store/core/usage.js';
import { HOUR_MS } from '../../src/util/time.js';
import { movable } from '../helpers/clock.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { until } from '../helpers/until.js';
import { ALL_PARTS, storeContract } from './contract.js';
import { BASE, createToken, NOW, token, user } from './contract/records.js';

/** Run as separate processes on the built store, because a loader would take a second to start. */
const WRITER = join(import.meta.dirname, 'writer.mjs');
const OPENER = join(import.meta.dirname, 'opener.mjs');
const READER = join(import.meta.dirname, 'reader.mjs');

t.test('the store contract', async (t) => {
  const fresh = (t: Test) => {
    const path = join(temporaryFolder(t), 'store');
    return { open: () => openLmdbStore(path) };
  };
  await storeContract(t, fresh, ALL_PARTS);
});

t.test('has room for the processes of every number of workers', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const store = openLmdbStore(path);
  for (const file of [path, join(path, 'opening.mdb')]) {
    const environment = open({ path: file, noSubdir: file !== path, overlappingSync: false });
    // 256 workers, their successors during a replacement, the primary and commands.
    const { maxReaders } = environment.getStats() as { maxReaders: number };
    t.ok(maxReaders >= 2 * 256 + 100, `${file}: ${maxReaders}`);
    await environment.close();
  }
  await store.maintenance.close();
});

t.test('removes an expired sudo grant together with its index entry', async (t) => {
  const store = openLmdbStore(join(temporaryFolder(t), 'store'));
  await store.directory.change(BASE, NOW);
  await store.sessions.grantSudo(user('U1'), 'T1', NOW + 10);
  await store.sessions.grantSudo(user('U1'), 'T1', NOW + 20);
  await store.sessions.grantSudo(user('U2'), 'T2', NOW + 30);
  t.equal(
    await store.maintenance.removeExpired(NOW + 20, NOW, 9),
    1,
    'the overwritten grant left nothing behind',
  );
  t.equal(await store.sessions.hasSudo('U1', 'T1', NOW), false);
  t.equal(await store.sessions.hasSudo('U2', 'T2', NOW), true);
  await store.maintenance.close();
});

t.test('removes counts of writes whose hour is long over', async (t) => {
  const store = openLmdbStore(join(temporaryFolder(t), 'store'));
  const hours = [NOW, NOW + HOUR_MS, NOW + 2 * HOUR_MS];
  for (const hour of hours) await store.usage.countWrite(`ci/${hour}`, hour);
  await store.maintenance.removeExpired(NOW + WRITES_KEPT_MS, NOW, 9);
  const counts = [];
  for (const hour of hours) counts.push(await store.usage.countWrite(`ci/${hour}`, hour));
  t.same(counts, [1, 2, 2]);
  await store.maintenance.close();
});

t.test('removes expired addresses together with their index entries', async (t) => {
  const store = openLmdbStore(join(temporaryFolder(t), 'store'));
  const remember = (until: number) =>
    store.loginThrottle.settle(
      { clear: [], release: [], remember: { account: 'a', address: 'A', until } },
      NOW,
    );
  await remember(NOW + 10);
  await remember(NOW + 20);
  t.equal(
    await store.maintenance.removeExpired(NOW + 19, NOW, 9),
    0,
    'the overwritten address left nothing behind',
  );
  t.equal(await store.maintenance.removeExpired(NOW + 20, NOW, 9), 1);
  t.same(await store.loginThrottle.listKnownAddresses('a', NOW), []);
  await store.maintenance.close();
});

t.test('returns the same object for an unchanged record, and keeps none of a removed one', async (t) => {
  const store = openLmdbStore(join(temporaryFolder(t), 'store'));
  await store.directory.change(BASE, NOW);
  const made = token('T1');
  await createToken(store, made, null, NOW);
  const find = async () => (await store.tokens.find(made.digest))?.token;
  const first = await find();
  t.equal(await find(), first);
  await store.tokens.revoke([made.id]);
  t.equal(await find(), undefined);
  await createToken(store, made, null, NOW);
  t.same(await find(), first);
  t.not(await find(), first, 'it was read again');
  await store.maintenance.close();
});

t.test('reads a long list in parts, yields in between, and returns each record once', async (t) => {
  const store = openLmdbStore(join(temporaryFolder(t), 'store'));
  await store.directory.change(BASE, NOW);
  const ids = Array.from({ length: 1_600 }, (_, i) => `U${i + 10_000}`);
  await store.directory.change({ users: ids.map((id) => user(id)) }, NOW);
  let breaks = 0;
  const counting = setInterval(() => (breaks += 1), 0);
  const listed = store.directory.listUsers('C1');
  const changed = store.directory.change({ users: [user('U0'), user('U99999')], removeUsers: ['U10900'] }, NOW);
  const seen = (await Promise.resolve(listed)).map(({ id }) => id);
  clearInterval(counting);
  t.equal(await changed, undefined);
  t.ok(breaks >= 2, `${breaks} breaks`);
  const known = new Set(['U1', 'U2', ...ids]);
  known.delete('U10900');
  t.same(seen.filter((id) => known.has(id)), [...known].toSorted());
  await store.maintenance.close();
}); // prettier-ignore

/** Starts a process that writes to the store, and calls back for each acknowledged step. */
function startWriter(path: string, prefix: string, onStep: (what: string, id: string) => void) {
  const child = spawn(process.execPath, [WRITER, path, prefix], { stdio: ['ignore', 'pipe', 'inherit'] });
  let rest = '';
  child.stdout.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) onStep(line.split(' ')[0] ?? '', line.split(' ')[1] ?? '');
  });
  return { child, ended: new Promise((done) => child.once('close', done)) };
}

t.test('the next look-up sees a revocation that another process acknowledged', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const store = openLmdbStore(path);
  await store.directory.change(BASE, NOW);
  const wrong: string[] = [];
  let steps = 0;
  let enough = (): void => undefined;
  const done = new Promise<void>((resolve) => (enough = resolve));
  // Concurrent look-ups keep a read transaction open, which could expose an old state.
  const busy = setInterval(() => void store.tokens.find('digest-none'), 0);
  const writer = startWriter(path, 'x', (what, id) => {
    const found = store.tokens.find(`digest-${id}`);
    // Even ones are only created; odd ones may already be revoked when their creation is reported.
    if (what === 'revoked' ? found !== undefined : isEven(id) && found === undefined)
      wrong.push(`${what} ${id}`);
    if ((steps += 1) === 1_000) enough();
  });
  await done;
  clearInterval(busy);
  writer.child.kill('SIGKILL');
  await writer.ended;
  t.same(wrong, []);
  await store.maintenance.close();
});

function isEven(id: string): boolean {
  return Number(/\d+$/.exec(id)?.[0]) % 2 === 0;
}

/**
 * Starts a process that opens the store slowly, and waits until it begins. Returns a function that
 * resolves to the time when the store was open.
 */
async function startOpener(path: string): Promise<() => Promise<number>> {
  const child = spawn(process.execPath, [OPENER, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const ended = once(child, 'close');
  await once(child.stdout, 'data');
  return async () => {
    await ended;
    return Number(output.split('\n')[1]);
  };
}

t.test('no process opens the store while another writes or opens it, which would undo writes', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const store = openLmdbStore(path);
  await store.directory.change({ ...BASE, tokens: [token('T1')] }, NOW);
  for (const [what, act] of [
    ['a write', () => store.usage.takeOtpStep('U1', 1)],
    ['a removal', () => store.tokens.revoke(['T1'])],
    ['another opening', () => openLmdbStore(path).maintenance.close()],
  ] as const) {
    const openedAt = await startOpener(path);
    await act();
    const doneAt = Date.now();
    t.ok(doneAt >= (await openedAt()), `${what} waits for an opening`);
  }
  await store.maintenance.close();
}); // prettier-ignore

const ROUNDS = EVERY_CASE ? 20 : 4;
t.test('kill -9 between acknowledged writes loses nothing and restores nothing revoked', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const first = openLmdbStore(path);
  await first.directory.change(BASE, NOW);
  await first.maintenance.close();
  const created = new Set<string>();
  const revoked = new Set<string>();
  for (let round = 0; round < ROUNDS; round++) {
    let enough = (): void => undefined;
    const begun = new Promise<void>((resolve) => (enough = resolve));
    // The process dies at a different step each time, independent of the machine's speed.
    let left = 5 + Math.floor(Math.random() * 50);
    let last = '';
    const writer = startWriter(path, `r${round}-`, (what, id) => {
      (what === 'created' ? created : revoked).add(id);
      last = id;
      if ((left -= 1) === 0) enough();
    });
    await begun;
    writer.child.kill('SIGKILL');
    await writer.ended;
    // It may have died between a step and its report, which is no acknowledgement.
    if (!revoked.has(last)) created.delete(last);
    const store = openLmdbStore(path);
    const wrong: string[] = [];
    for (const id of created) {
      if (((await store.tokens.find(`digest-${id}`)) === undefined) !== revoked.has(id)) wrong.push(id);
    }
    t.same(wrong, [], `round ${round}: ${created.size} created, ${revoked.size} revoked`);
    await store.maintenance.close();
  }
  t.ok(created.size > 5 * ROUNDS && revoked.size > 2 * ROUNDS, 'the writers made progress');
});

t.test('a process that is killed while it reads does not make the file grow', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const store = openLmdbStore(path);
  t.teardown(() => store.maintenance.close());
  const write = async (times: number) => {
    for (let i = 0; i < times; i++) await store.maintenance.probeWrite();
    return statSync(join(path, 'data.mdb')).size;
  };
  await write(1);
  const reader = spawn(process.execPath, [READER, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(reader.stdout, 'data');
  const before = await write(10);
  t.ok((await write(100)) > before, 'while it reads, its snapshot is kept');
  reader.kill('SIGKILL');
  await once(reader, 'close');
  await store.maintenance.removeExpired(Date.now(), 0, 1);
  const after = await write(10);
  t.equal(await write(100), after);
});

t.test('creates a folder with mode 0700 and files with mode 0600', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const store = openLmdbStore(path);
  t.equal(statSync(path).mode & 0o777, 0o700);
  t.equal(statSync(join(path, 'data.mdb')).mode & 0o777, 0o600);
  await store.maintenance.close();
});

t.test('refuses a newer format, a newer record, a damaged record and a damaged file', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const store = openLmdbStore(path);
  await store.directory.change(BASE, NOW);
  for (const id of ['A', 'B', 'C']) await createToken(store, token(id), null, NOW);
  await store.maintenance.close();

  const root = open({ path, maxDbs: 8, overlappingSync: false });
  const records = root.openDB<Buffer, string>('records', { encoding: 'binary' });
  root.transactionSync(() => {
    records.putSync(
      'token:digest-A',
      Buffer.from(`1|user:U1|${JSON.stringify({ ...token('A'), v: RECORD_VERSION + 1 })}`),
    );
    records.putSync('token:digest-B', Buffer.from('garbage'));
  });
  await root.close();
  const again = openLmdbStore(path);
  t.throws(
    () => again.tokens.find('digest-A'),
    { message: /version 2/ },
    'a newer record does not count as missing',
  );
  t.throws(() => again.tokens.find('digest-B'), StoreUnavailable, 'neither does a damaged one');
  t.ok(await again.tokens.find('digest-C'), 'others are not affected');
  await again.maintenance.close();

  const newer = open({ path, maxDbs: 8, overlappingSync: false });
  const meta = newer.openDB<number, string>('meta', {});
  newer.transactionSync(() => meta.putSync('format', 99));
  await newer.close();
  t.throws(() => openLmdbStore(path), { message: /another version of Latchkey \(format 99/ });

  for (const [name, damage] of [
    ['a foreign file', (file: string) => writeFileSync(file, 'x'.repeat(8_192))],
    ['a short file', (file: string) => truncateSync(file, 100)],
    ['one page', (file: string) => truncateSync(file, 4_096)],
    ['cut off', (file: string) => truncateSync(file, 8_192)],
    ['empty', (file: string) => truncateSync(file, 0)],
  ] as const) {
    const folder = join(temporaryFolder(t), 'store');
    const made = openLmdbStore(folder);
    await made.directory.change(BASE, NOW);
    await made.maintenance.close();
    damage(join(folder, 'data.mdb'));
    t.throws(
      () => openLmdbStore(folder),
      { message: /cannot be opened as a store: .* restore it from a backup/ },
      name,
    );
  }
});

t.test('a folder that cannot be used is no reason to restore a backup', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'file');
  writeFileSync(file, '');
  mkdirSync(join(folder, 'locked', 'opening.mdb'), { recursive: true });
  const remedy =
    /; run the command as the user that runs Latchkey, .* \(chown, chmod\), or set store\.path to another folder$/;
  const rows = [
    [join(file, 'store'), 'not a directory (ENOTDIR)'],
    [join(folder, 'locked'), 'is a directory (EISDIR)'],
  ] as const;
  for (const [path, reason] of rows) {
    t.throws(() => openLmdbStore(path), { message: `${path} cannot be opened as a store: ${reason}` });
    t.throws(() => openLmdbStore(path), { message: remedy }, reason);
  }
});

t.test('a process of another container with the same id has the store open', async (t) => {
  const path = join(temporaryFolder(t), 'elsewhere');
  const reader = spawn(process.execPath, [READER, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => reader.kill('SIGKILL'));
  await once(reader.stdout, 'data');
  t.intercept(process, 'pid', { value: reader.pid });
  const message = `${path} is in use in another container, by a process with the same id (${reader.pid}); run the command in that container: docker exec CONTAINER latchkey ..., or kubectl exec POD -- latchkey ...`;
  t.throws(() => openLmdbStore(path), new StoreUnavailable(message));
}); // prettier-ignore

t.test('when space is low, refuses additions but still revokes, locks and changes passwords', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const first = openLmdbStore(path);
  await first.directory.change(BASE, NOW);
  for (const id of ['T1', 'T2']) await createToken(first, token(id, { expiresAt: NOW + 1 }), null, NOW);
  const session = (digest: string) => ({ digest, id: digest, userId: 'U1', createdAt: NOW, endsAt: NOW + 1, idleEndsAt: NOW + 1, lastSeenAt: NOW, ip: '', userAgent: null });
  for (const digest of ['A', 'B', 'C']) await first.sessions.create(session(digest), user('U1'), null);
  await first.maintenance.close();
  const { bavail, bsize } = statfsSync(path);
  const store = openLmdbStore(path, bavail * bsize * 2);
  const full = { message: /nearly full/ };
  await t.rejects(store.sessions.create(session('D'), user('U1'), null), full);
  await t.rejects(createToken(store, token('T3'), null, NOW), full);
  await t.rejects(store.directory.change({ users: [user('U8')] }, NOW), full);
  await t.rejects(store.directory.change({ users: [user('U1', { name: 'x' })], customers: [{ id: 'C8', name: '' }] }, NOW), full);
  await t.rejects(store.usage.takeOtpStep('U1', 1), full);
  t.match(await store.tokens.revoke(['T1']), { missing: [] });
  t.equal(await store.sessions.end('A'), true);
  t.equal((await store.sessions.endOfUser('U1', 'B')).length, 1);
  t.equal(await store.directory.change({ users: [user('U2', { passwordHash: 'other' })] }, NOW), undefined);
  t.equal(await store.directory.change({ users: [user('U1', { locked: true })] }, NOW), undefined);
  t.strictSame(await store.sessions.listOfUser('U1'), []);
  t.equal(await store.maintenance.removeExpired(NOW + 1, NOW + 2, 9), 1);
  await store.maintenance.close();
}); // prettier-ignore

t.test('a process with an old heartbeat is not live, and one that left is forgotten', async (t) => {
  const store = openLmdbStore(join(temporaryFolder(t), 'store'));
  const pass = movable(t, Date);
  const member = (id: string) => ({ id, sidecar: id, name: id, pid: 1, version: '1', configHash: 'x', startedAt: 0, linkAge: null });
  for (const id of ['A', 'B', 'C']) await store.fleet.beat(member(id));
  await store.fleet.leave('C');
  pass(13_000);
  for (const id of ['A', 'D']) await store.fleet.beat(member(id));
  t.same((await store.fleet.list()).map(({ id }) => id), ['A', 'D']);
  t.same(await store.fleet.answers('any'), []);
  await store.maintenance.close();
}); // prettier-ignore

t.test('reports ends to other processes in order; on overflow, anything may have ended', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const writer = openLmdbStore(path);
  await writer.directory.change(BASE, NOW);
  const ids = Array.from({ length: 1_100 }, (_, i) => `T${i}`);
  await writer.directory.change({ tokens: ids.map((id) => token(id)) }, NOW);
  const endings = new Endings();
  const told: unknown[] = [];
  endings.on('ended', (what) => told.push(what === null ? null : [...what]));
  endings.on('asked', (question) => told.push(question));
  const reader = openLmdbStore(path, 0, endings);
  await writer.tokens.revoke(['T0']);
  await writer.fleet.ask('Q1');
  await until(() => told.length === 2, 'both are notified');
  t.same(told.splice(0), [[['digest:digest-T0', 'changed'], ['token:T0', 'ended']], 'Q1']);
  await writer.tokens.revoke(ids.slice(1));
  await writer.fleet.ask('Q2');
  await until(() => told.length === 2, 'both are notified');
  t.same(told.splice(0), [null, 'Q2'], 'the question is not lost');
  await reader.maintenance.close();
  await writer.maintenance.close();
}); // prettier-ignore

t.test('a creation counts nothing, unless a limit may be reached', async (t) => {
  let counted = 0;
  class Counting extends LmdbKv {
    override count(index: string, from?: number) {
      counted += 1;
      return super.count(index, from);
    }
  }
  const path = join(temporaryFolder(t), 'store');
  const store = coreStore(new Counting(openEnvironment(path), path, 0, () => undefined));
  t.teardown(() => store.maintenance.close());
  await store.directory.change(BASE, NOW);
  await store.directory.change({ tokens: Array.from({ length: 40 }, (_, i) => token(`T${i}`)) }, NOW);
  const create = async (id: string) =>
    store.tokens.create(token(id), user('U1'), { active: 43, stored: 44, ofCustomer: { id: 'C1', most: 99 } }, NOW);
  for (const id of ['A', 'B', 'C']) t.equal(await create(id), 'created');
  t.equal(counted, 0);
  t.equal(await create('D'), 'limit_reached');
  await store.tokens.revoke(['A', 'B']);
  t.strictSame([await create('E'), await create('F'), await create('G')], ['created', 'created', 'limit_reached']);
}); // prettier-ignore
