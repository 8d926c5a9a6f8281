import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { openBackup, writeBackup } from '../../src/commands/backup-file.js';
import type { StoreRecord } from '../../src/store/transfer.js';
import { run, runOn, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { needNode } from '../helpers/node-version.mjs';

/**
 * Line separators of some program, and characters that need escaping, inside names that users
 * choose.
 */
const SEPARATORS = [
  '\u2028',
  '\u2029',
  '\u0085',
  '\r',
  '\n',
  '\r\n',
  '\v',
  '\f',
  '\u001c',
  '\u001e',
  '"',
  '\\',
  '\\u2028',
  '\ud83d\ude00',
];
const names = SEPARATORS.map((separator) => `left${separator}right`);
const customers = names.map((name, i) => ({ id: `C${i}`, name }));
const services = names.map((name, i) => ({ id: `S${i}`, customer_id: `C${i}`, name }));

const record = (name: string, i = 0): StoreRecord => ({ kind: 'customer', value: { id: `C${i}`, name } });
async function* recordsOf(records: readonly StoreRecord[]) {
  yield* records;
}

t.test('a backup reads back exactly, whatever names contain and whichever Node version reads it', async (t) => {
  const config = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1' }, { customers, services });
  t.match(await run(['apply', '--config', config]), { code: 0 });
  const folder = temporaryFolder(t);
  const node26 = EVERY_CASE ? join(needNode('26'), 'node') : '';
  const runtimes = [run, ...(EVERY_CASE ? [(args: string[]) => runOn(node26, args)] : [])];
  for (const [i, writer] of runtimes.entries()) {
    const file = join(folder, `${i}.jsonl`);
    t.match(await writer(['store', 'backup', file, '--config', config]), { code: 0, stdout: `${file}: ${names.length * 2} records\n` });
    t.equal(statSync(file).mode & 0o777, 0o600);
    const text = readFileSync(file, 'utf8');
    t.equal(text.split(/[\n\r\u2028\u2029]/).length, names.length * 2 + 3, 'one line each, by any definition of a line');
    const reader = runtimes.at(-1 - i) ?? run;
    const into = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1' });
    t.match(await reader(['store', 'restore', file, '--config', into]), { code: 0, stdout: `${names.length * 2} records restored\n` });
    t.match(await run(['store', 'copy', '--from', config, '--to', into]), { code: 0 }, 'both stores are equal');
  }
}); // prettier-ignore

t.test('reads lines longer than one read', async (t) => {
  const file = join(temporaryFolder(t), 'backup.jsonl');
  const records = [1, 65_535, 65_536, 200_000, 3].map((length, i) => record('é'.repeat(length), i));
  t.equal(await writeBackup(file, recordsOf(records)), records.length);
  const read: StoreRecord[] = [];
  for await (const each of (await openBackup(file)).records()) read.push(each);
  t.same(read, records);
});

t.test('a failed backup leaves no draft and keeps the previous file', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'backup.jsonl');
  const before = '{"format":"latchkey-backup"}\n';
  writeFileSync(file, before);
  async function* failing() {
    yield record('one');
    throw new Error('the store is gone');
  }
  await t.rejects(writeBackup(file, failing()), /the store is gone/);
  const twice = writeBackup(file, recordsOf([record('one'), record('two')]));
  await t.rejects(twice, /contains the customer C0 twice/);
  t.same(readdirSync(folder), ['backup.jsonl']);
  t.equal(readFileSync(file, 'utf8'), before);
  writeFileSync(join(folder, 'other'), 'before');
  await t.rejects(writeBackup(join(folder, 'other'), recordsOf([])), /other exists and is not a backup/);
  await t.rejects(writeBackup(join(folder, 'none/backup.jsonl'), recordsOf([])), /none\/backup\.jsonl cannot be written: no such file or directory \(ENOENT\)/);

  mkdirSync(join(folder, 'directory'));
  symlinkSync('/dev/null', join(folder, 'link'));
  for (const special of ['directory', 'link', '/dev/null'])
    await t.rejects(writeBackup(resolve(folder, special), recordsOf([])), /is not a regular file/);
}); // prettier-ignore
