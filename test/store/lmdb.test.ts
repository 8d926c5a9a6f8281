import { spawn } from 'node:child_process';
import { statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { open } from 'lmdb';
import t from 'tap';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { StoreUnavailable } from '../../src/store/store.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { BASE, NOW, storeContract, token } from './contract.js';

/** A process of its own; it runs the built store, because a loader would take a second to start. */
const WRITER = join(import.meta.dirname, 'writer.mjs');

t.test('the store contract', async (t) => {
  await storeContract(t, (t) => {
    const path = join(temporaryFolder(t), 'store');
    return { open: () => openLmdbStore(path) };
  });
});

t.test('a sudo that is over is removed with its entry in the index', async (t) => {
  const store = openLmdbStore(join(temporaryFolder(t), 'store'));
  await store.change(BASE, NOW);
  await store.grantSudo('U1', 'T1', NOW + 10, NOW);
  await store.grantSudo('U1', 'T1', NOW + 20, NOW);
  await store.grantSudo('U2', 'T2', NOW + 30, NOW);
  t.equal(await store.removeExpired(NOW + 20, NOW, 9), 1, 'the one that was written over left nothing');
  t.equal(await store.hasSudo('U1', 'T1', NOW), false);
  t.equal(await store.hasSudo('U2', 'T2', NOW), true);
  await store.close();
});

t.test(
  'a record is the same object for as long as it is the same, and none that is gone is kept',
  async (t) => {
    const store = openLmdbStore(join(temporaryFolder(t), 'store'));
    await store.change(BASE, NOW);
    const made = token('T1');
    await store.createToken(made, null, NOW);
    const find = async () => (await store.findToken(made.digest))?.token;
    const first = await find();
    t.equal(await find(), first);
    await store.revokeTokens([made.id]);
    t.equal(await find(), undefined);
    await store.createToken(made, null, NOW);
    t.same(await find(), first);
    t.not(await find(), first, 'it was read anew');
    await store.close();
  },
);

/** Starts a process that writes to the store, and calls back for each step that it acknowledged. */
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

t.test('a revocation acknowledged by another process is seen by the very next look-up', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const store = openLmdbStore(path);
  await store.change(BASE, NOW);
  const wrong: string[] = [];
  let steps = 0;
  let enough = (): void => undefined;
  const done = new Promise<void>((resolve) => (enough = resolve));
  // Look-ups in between keep a read transaction open, which is what could show an old state.
  const busy = setInterval(() => void store.findToken('digest-none'), 0);
  const writer = startWriter(path, 'x', (what, id) => {
    const found = store.findToken(`digest-${id}`);
    // Even ones are only created; odd ones may be revoked already when their creation is read here.
    if (what === 'revoked' ? found !== undefined : isEven(id) && found === undefined)
      wrong.push(`${what} ${id}`);
    if ((steps += 1) === 1_000) enough();
  });
  await done;
  clearInterval(busy);
  writer.child.kill('SIGKILL');
  await writer.ended;
  t.same(wrong, []);
  await store.close();
});

function isEven(id: string): boolean {
  return Number(/\d+$/.exec(id)?.[0]) % 2 === 0;
}

t.test('kill -9 between acknowledged writes: nothing is lost, nothing revoked comes back', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const first = openLmdbStore(path);
  await first.change(BASE, NOW);
  await first.close();
  const created = new Set<string>();
  const revoked = new Set<string>();
  for (let round = 0; round < 20; round++) {
    let enough = (): void => undefined;
    const begun = new Promise<void>((resolve) => (enough = resolve));
    // It dies at another step each time, whatever the machine's pace.
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
    // It may have died between a step and saying so, which is no acknowledgement.
    if (!revoked.has(last)) created.delete(last);
    const store = openLmdbStore(path);
    const wrong: string[] = [];
    for (const id of created) {
      if (((await store.findToken(`digest-${id}`)) === undefined) !== revoked.has(id)) wrong.push(id);
    }
    t.same(wrong, [], `round ${round}: ${created.size} created, ${revoked.size} revoked`);
    await store.close();
  }
  t.ok(created.size > 100 && revoked.size > 40, 'the writers got something done');
});

t.test('a folder of mode 0700 with files of mode 0600', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const store = openLmdbStore(path);
  t.equal(statSync(path).mode & 0o777, 0o700);
  t.equal(statSync(join(path, 'data.mdb')).mode & 0o777, 0o600);
  await store.close();
});

t.test('a newer format, a newer record, a damaged record and a damaged file', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const store = openLmdbStore(path);
  await store.change(BASE, NOW);
  for (const id of ['A', 'B', 'C']) await store.createToken(token(id), null, NOW);
  await store.close();

  const root = open({ path, maxDbs: 32, overlappingSync: false });
  const tokens = root.openDB<unknown, string>('tokens', {});
  root.transactionSync(() => {
    tokens.putSync('digest-A', { ...token('A'), v: 2 });
    tokens.putSync('digest-B', 'garbage');
  });
  await root.close();
  const again = openLmdbStore(path);
  t.throws(() => again.findToken('digest-A'), { message: /version 2/ }, 'a newer record is not "not there"');
  t.throws(() => again.findToken('digest-B'), StoreUnavailable, 'nor is a damaged one');
  t.ok(await again.findToken('digest-C'), 'others are not affected');
  await again.close();

  const newer = open({ path, maxDbs: 32, overlappingSync: false });
  const meta = newer.openDB<number, string>('meta', {});
  newer.transactionSync(() => meta.putSync('format', 2));
  await newer.close();
  t.throws(() => openLmdbStore(path), { message: /newer Latchkey \(format 2/ });

  for (const [name, damage] of [
    ['a foreign file', (file: string) => writeFileSync(file, 'x'.repeat(8_192))],
    ['a short file', (file: string) => truncateSync(file, 100)],
    ['one page', (file: string) => truncateSync(file, 4_096)],
    ['cut off', (file: string) => truncateSync(file, 8_192)],
  ] as const) {
    const folder = join(temporaryFolder(t), 'store');
    const made = openLmdbStore(folder);
    await made.change(BASE, NOW);
    await made.close();
    damage(join(folder, 'data.mdb'));
    t.throws(
      () => openLmdbStore(folder),
      { message: /can not be opened as a store .* restore it from a backup/ },
      name,
    );
  }
});
