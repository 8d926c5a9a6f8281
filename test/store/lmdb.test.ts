import { spawn } from 'node:child_process';
import { chmodSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { open } from 'lmdb';
import t from 'tap';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { StoreUnavailable } from '../../src/store/store.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { BASE, NOW, storeContract, token } from './contract.js';

// The writer runs from source by the same loader as this file.
const LOADER = process.execArgv;

t.test('the store contract', async (t) => {
  await storeContract(t, (t) => {
    const path = join(temporaryFolder(t), 'store');
    return { open: () => openLmdbStore(path) };
  });
});

t.test('two open stores on one folder: a revocation is seen by the very next look-up', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const [a, b] = [openLmdbStore(path), openLmdbStore(path)];
  await a.change(BASE, NOW);
  let stale = 0;
  for (let i = 0; i < 300; i++) {
    await a.createToken(token(`T${i}`), null, NOW);
    if ((await b.findToken(`digest-T${i}`)) === undefined) stale += 1;
    await a.revokeTokens([`T${i}`]);
    if ((await b.findToken(`digest-T${i}`)) !== undefined) stale += 1;
  }
  t.equal(stale, 0);
  await a.close();
});

t.test('kill -9 between acknowledged writes: nothing is lost, nothing revoked comes back', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  const first = openLmdbStore(path);
  await first.change(BASE, NOW);
  await first.close();
  const created = new Set<string>();
  const revoked = new Set<string>();
  for (let round = 0; round < 8; round++) {
    const child = spawn(
      process.execPath,
      [...LOADER, join(import.meta.dirname, 'writer.ts'), path, `r${round}-`],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    let output = '';
    const started = new Promise<void>((done) => {
      child.stdout.on('data', (chunk: Buffer) => {
        output += chunk.toString();
        done();
      });
    });
    const ended = new Promise((done) => child.once('close', done));
    await started;
    await new Promise((wait) => setTimeout(wait, 20 + Math.random() * 120));
    child.kill('SIGKILL');
    await ended;
    for (const line of output.split('\n').slice(0, -1)) {
      const [what, id = ''] = line.split(' ');
      (what === 'created' ? created : revoked).add(id);
    }
    const store = openLmdbStore(path);
    const wrong = [...created].filter(
      (id) =>
        (await_(store.findToken(`digest-${id}`)) === undefined) !== revoked.has(id) && !isLast(id, output),
    );
    t.same(wrong, [], `round ${round}, ${created.size} created, ${revoked.size} revoked`);
    await store.close();
  }
  t.ok(created.size > 50 && revoked.size > 20, 'the writers got something done');
});

/** The embedded store answers at once. */
function await_<T>(value: T | Promise<T>): T {
  if (value instanceof Promise) throw new Error('expected an answer at once');
  return value;
}

/** Whether the process died between a step and its line: the last token may be revoked without being said so. */
function isLast(id: string, output: string): boolean {
  return output.trimEnd().endsWith(`created ${id}`);
}

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

  const broken = join(temporaryFolder(t), 'store');
  const made = openLmdbStore(broken);
  await made.close();
  writeFileSync(join(broken, 'data.mdb'), 'this is no database');
  truncateSync(join(broken, 'data.mdb'), 8192);
  chmodSync(join(broken, 'data.mdb'), 0o600);
  t.throws(() => openLmdbStore(broken), { message: /can not be opened as a store/ });
});
