// How a replaced folder of the embedded store is detected.
import {
  cpSync,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openLmdbStore } from '../../src/store/lmdb.js';
import type { CopyFault } from '../../src/store/lmdb/copies.js';
import { startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { start, temporaryFolder } from '../helpers/latchkey.js';
import { matchLog, until } from '../helpers/until.js';
import { BASE, createToken, NOW, token } from './contract/records.js';

type Test = { teardown: (fn: () => void) => void };

function watched(t: Test) {
  const path = join(temporaryFolder(t), 'store');
  const faults: CopyFault[] = [];
  return { path, note: `${path}.last-transaction`, faults, open: () => openLmdbStore(path, 0, (fault) => faults.push(fault)) };
} // prettier-ignore

/** Opens a store, writes one token, and closes it. */
async function writeOne({ open }: ReturnType<typeof watched>, id: string): Promise<void> {
  const store = open();
  await store.directory.change(BASE, NOW);
  await createToken(store, token(id), null, NOW);
  await store.maintenance.close();
}

t.test('detects an older copy, and reports no other state', async (t) => {
  const all = watched(t);
  const copy = `${all.path}-copy`;
  await writeOne(all, 'T1');
  t.equal(statSync(all.note).mode & 0o777, 0o600);
  cpSync(all.path, copy, { recursive: true });
  await all.open().maintenance.close();
  await writeOne(all, 'T2');
  await all.open().maintenance.close();
  t.same(all.faults, [], 'the store itself');
  rmSync(all.path, { recursive: true });
  cpSync(copy, all.path, { recursive: true });
  // A command reports nothing, and does not change what the server will detect.
  await openLmdbStore(all.path).maintenance.close();
  const store = all.open();
  t.match(all.faults, [{ kind: 'older', transactionsBehind: Number, lastUsedAt: Number }]);
  t.ok(await store.tokens.find(token('T1').digest), 'it is still served, in case the copy is intentional');
  await store.maintenance.close();
  await all.open().maintenance.close();
  t.equal(all.faults.length, 1, 'once');
});

t.test('detects a copy after a process was killed: the note is at most a second old', async (t) => {
  const all = watched(t);
  const store = all.open();
  cpSync(all.path, `${all.path}-copy`, { recursive: true });
  const before = readFileSync(all.note, 'utf8');
  await store.directory.change(BASE, NOW);
  await until(() => readFileSync(all.note, 'utf8') !== before, 'the note is updated');
  // The process goes on here, but a killed one would leave the same note.
  const moved = `${all.path}-moved`;
  renameSync(all.path, moved);
  renameSync(`${all.path}-copy`, all.path);
  const again = all.open();
  t.match(all.faults, [{ kind: 'older' }]);
  await again.maintenance.close();
  await store.maintenance.close();
}); // prettier-ignore

t.test('distinguishes another store from an older one', async (t) => {
  const all = watched(t);
  await writeOne(all, 'T1');
  rmSync(all.path, { recursive: true });
  await all.open().maintenance.close();
  t.match(all.faults, [{ kind: 'another' }]);
});

t.test('reports a note that cannot be written, and ignores one that cannot be read', async (t) => {
  const all = watched(t);
  for (const text of ['', '{', 'null', '{"store":"x"}', '[]']) {
    writeFileSync(all.note, text);
    await all.open().maintenance.close();
  }
  t.same(all.faults, []);
  rmSync(all.note);
  cpSync(all.path, all.note, { recursive: true });
  const store = all.open();
  t.match(all.faults, [{ kind: 'unnoted', reason: String }]);
  await store.directory.change(BASE, NOW);
  await new Promise((wait) => setTimeout(wait, 1_200));
  t.equal(all.faults.length, 1, 'said once');
  // As when a full disk has room again.
  rmSync(all.note, { recursive: true });
  await until(() => existsSync(all.note), 'it is written again');
  await store.maintenance.close();
  t.equal(all.faults.length, 1);
});

t.test('refuses to use files that were replaced while in use', async (t) => {
  const all = watched(t);
  const store = all.open();
  await store.directory.change(BASE, NOW);
  await createToken(store, token('T1'), null, NOW);
  cpSync(all.path, `${all.path}-copy`, { recursive: true });
  rmSync(all.path, { recursive: true });
  cpSync(`${all.path}-copy`, all.path, { recursive: true });
  await until(() => all.faults.length > 0, 'the replacement is detected');
  t.same(all.faults, [{ kind: 'replaced' }]);
  t.throws(() => store.tokens.find(token('T1').digest), { message: /were replaced while in use/ });
  await t.rejects(async () => store.tokens.revoke(['T1']), { message: /were replaced while in use/ });
  await store.maintenance.close();
  const again = all.open();
  t.ok(await again.tokens.find(token('T1').digest));
  await again.maintenance.close();
});

for (const what of ['an older copy', 'another store', 'another store with more transactions'])
  t.test(`refuses to use a file that was overwritten with ${what}`, async (t) => {
    const all = watched(t);
    const store = all.open();
    await store.directory.change(BASE, NOW);
    await createToken(store, token('T1'), null, NOW);
    const other = what === 'an older copy' ? all : watched(t);
    if (other !== all) await writeOne(other, 'T1');
    if (what.endsWith('more transactions')) {
      const newer = other.open();
      for (let i = 0; i < 100; i++) await newer.maintenance.probeWrite();
      await newer.maintenance.close();
    }
    const copy = readFileSync(join(other.path, 'data.mdb'));
    const before = readFileSync(all.note, 'utf8');
    await store.tokens.revoke(['T1']);
    await until(() => readFileSync(all.note, 'utf8') !== before, 'the note is updated');
    // In place, as cp does.
    writeFileSync(join(all.path, 'data.mdb'), copy);
    await t.rejects(async () => createToken(store, token('T2'), null, NOW), {
      name: 'StoreUnavailable',
      message: /were replaced while in use/,
    });
    t.throws(() => store.tokens.find(token('T1').digest), { message: /were replaced while in use/ });
    await store.maintenance.close();
    t.same(all.faults, [{ kind: 'replaced' }], 'reported once');
    await all.open().maintenance.close();
    t.match(all.faults, [{ kind: 'replaced' }, { kind: other === all ? 'older' : 'another' }]);
  });

t.test('detects a file that was overwritten even if nothing is written', async (t) => {
  const all = watched(t);
  const store = all.open();
  const copy = readFileSync(join(all.path, 'data.mdb'));
  const before = readFileSync(all.note, 'utf8');
  await store.directory.change(BASE, NOW);
  await until(() => readFileSync(all.note, 'utf8') !== before, 'the note is updated');
  writeFileSync(join(all.path, 'data.mdb'), copy);
  await until(() => all.faults.length > 0, 'the copy is detected');
  t.same(all.faults, [{ kind: 'replaced' }]);
  await store.maintenance.close();
});

for (const [what, put] of [
  ['nothing', () => undefined],
  ['a file', (path) => writeFileSync(path, '')],
  ['a link to itself', (path) => symlinkSync(path, path)],
  ['an older copy', (path) => cpSync(`${path}-copy`, path, { recursive: true })],
] as [string, (path: string) => void][])
  t.test(`acknowledges no revocation once ${what} is in place of the store`, async (t) => {
    const all = watched(t);
    const store = all.open();
    await store.directory.change(BASE, NOW);
    await createToken(store, token('T1'), null, NOW);
    cpSync(all.path, `${all.path}-copy`, { recursive: true });
    renameSync(all.path, `${all.path}-moved`);
    put(all.path);
    await t.rejects(async () => store.tokens.revoke(['T1']), {
      name: 'OutcomeUnknown',
      message: /were replaced while in use/,
    });
    t.same(all.faults, [{ kind: 'replaced' }], 'at once, and reported once');
    t.throws(() => store.tokens.find(token('T1').digest), { message: /were replaced while in use/ });
    await store.maintenance.close();
    rmSync(all.path, { recursive: true, force: true });
  });

t.test('a server logs an older store', async (t) => {
  const first = await startFixture(t, { workers: 2 });
  const path = join(first.folder, 'data');
  const secret = await first.token('engineer');
  const headers = { 'Service-Key': secret };
  cpSync(path, `${path}-copy`, { recursive: true });
  t.equal((await send(first.url, '/tokens/self', { method: 'DELETE', headers })).status, 204);
  await first.server.stop();
  t.notMatch(first.server.stdout(), /store restored|store files/);
  t.ok(existsSync(`${path}.last-transaction`));
  rmSync(path, { recursive: true });
  cpSync(`${path}-copy`, path, { recursive: true });
  const second = await start(t, first.configFile);
  const said = second.stdout().split('\n').filter((line) => line.includes('store restored from an older copy'));
  t.equal(said.length, 1);
  t.match(JSON.parse(said[0] ?? '{}'), { level: 50, path, transactions_behind: Number, last_used_at: /^20.*Z$/ });
  rmSync(path, { recursive: true });
  await until(async () => (await send(second.url, '/x', { headers })).status === 503, 'no answers from deleted files');
  // Each process checks the files once a second, in its own rhythm.
  await matchLog(t, second, /store files replaced while in use/);
  await until(async () => (await send(second.admin, '/readyz')).status === 503, 'not ready');
}); // prettier-ignore
