import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadSealingKey } from '../../src/accounts/sealing.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { forEachRow } from '../helpers/table.js';

t.test('creates the key once, readable by its owner only', async (t) => {
  const folder = join(temporaryFolder(t), 'data');
  const file = join(folder, 'sealing.key');
  const key = loadSealingKey(file);
  t.equal(key.length, 32);
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.equal(statSync(folder).mode & 0o777, 0o700);
  t.same(loadSealingKey(file), key);
  t.same(readdirSync(folder), ['sealing.key']);
});

t.test('removes the permissions of others from a key that was copied back', async (t) => {
  const file = join(temporaryFolder(t), 'sealing.key');
  writeFileSync(file, Buffer.alloc(32, 7));
  const rows = [[0o644, 0o640], [0o666, 0o660], [0o604, 0o600], [0o640, 0o640], [0o660, 0o660], [0o600, 0o600], [0o400, 0o400]] as const; // prettier-ignore
  forEachRow(rows, ([mode, expected]) => {
    chmodSync(file, mode);
    t.same(loadSealingKey(file), readFileSync(file));
    t.equal(statSync(file).mode & 0o777, expected, mode.toString(8));
  });
});

t.test('refuses a malformed key', async (t) => {
  const file = join(temporaryFolder(t), 'sealing.key');
  writeFileSync(file, 'short');
  t.throws(() => loadSealingKey(file), /expected a key of 32 bytes, found 5/);
});
