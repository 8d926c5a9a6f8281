import { appendFileSync, readFileSync, renameSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openAuditLog } from '../../src/observe/audit.js';
import type { Destination } from '../../src/observe/destination.js';
import { LineBuffer } from '../../src/observe/json-line.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { fillDisk, mountSmallDisk, NO_SMALL_DISK } from '../helpers/small-disk.js';

/** Characters that a terminal obeys, or that change the order or the number of lines. */
const MISLEADING = '\u009b31m\u009d\u202e\u2028\u2029\u200b\u0007';
const ENTRY = { event: 'token.expiring', outcome: 'success', target: { user_agent: MISLEADING } };

/** A log in memory. */
function memory() {
  const lines = new LineBuffer();
  const log: Destination = {
    write: () => undefined,
    beginLine: () => lines.begin(),
    endLine: () => lines.end(),
    flushSoon: () => undefined,
    flush: async () => undefined,
  };
  return { log, text: () => lines.take().toString() };
}

t.test('every audit log escapes misleading characters', async (t) => {
  const { log, text } = memory();
  const file = join(temporaryFolder(t), 'audit.jsonl');
  const process = { log, configHash: () => 'hash' };
  for (const to of ['stdout', file]) {
    const audit = openAuditLog({ to, required: false }, process);
    audit.note(ENTRY);
    audit.close();
  }
  for (const line of [text(), readFileSync(file, 'utf8')]) {
    t.match(line, /^[\x20-\x7e]+\n$/);
    t.match(JSON.parse(line), ENTRY, 'the value is the same');
  }
});

t.test('an entry after a torn line has a line of its own', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'audit.jsonl');
  for (const required of [false, true]) {
    const audit = openAuditLog({ to: file, required }, { configHash: () => 'hash' });
    audit.note(ENTRY);
    // As a full disk leaves it.
    appendFileSync(file, '{"event":"tor');
    audit.note(ENTRY);
    audit.record(ENTRY);
    audit.close();
  }
  const lines = readFileSync(file, 'utf8').split('\n');
  const torn = lines.filter((line) => line === '{"event":"tor').length;
  const whole = lines.filter((line) => line.startsWith('{"time"') && JSON.parse(line).event === ENTRY.event);
  t.same([torn, whole.length, lines.length, lines.at(-1)], [2, 6, 9, '']);
});

t.test('a line that a full disk cut spoils no other line', { skip: NO_SMALL_DISK }, async (t) => {
  const disk = mountSmallDisk(t, '256k');
  const file = join(disk, 'audit.jsonl');
  let failures = 0;
  const audit = openAuditLog({ to: file, required: false }, { configHash: () => 'hash', onFailure: () => void (failures += 1) });
  let number = 0;
  const write = () => audit.note({ event: 'token.revoked', number: number++ });
  write();
  const filler = fillDisk(disk);
  const fails = () => {
    write();
    return failures > 0;
  };
  while (!fails());
  const cut = number - 1;
  write();
  rmSync(filler);
  for (let i = 0; i < 3; i++) write();
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  const whole = lines.filter((line) => line.endsWith('}')).map((line) => JSON.parse(line).number);
  t.equal(lines.length, whole.length + 1, 'one line was cut');
  t.same(whole, [...Array(cut).keys(), number - 3, number - 2, number - 1]);
  audit.close();
}); // prettier-ignore

t.test('a line that another process could not finish spoils no other line', async (t) => {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  const open = () => openAuditLog({ to: file, required: true }, { configHash: () => 'hash' });
  const [first, second] = [open(), open()];
  first.record({ event: 'token.revoked', number: 0 });
  second.record({ event: 'token.revoked', number: 1 });
  // As a full disk leaves it; the first process finds space again at its next entry.
  appendFileSync(file, '{"event":"token.rev');
  first.record({ event: 'token.revoked', number: 2 });
  second.record({ event: 'token.revoked', number: 3 });
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  t.equal(lines[2], '{"event":"token.rev');
  t.same(lines.filter((line) => line.endsWith('}')).map((line) => JSON.parse(line).number), [0, 1, 2, 3]);
  t.notMatch(readFileSync(file, 'utf8'), /\n\n/);
}); // prettier-ignore

t.test('entries go where their file name leads', async (t) => {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  const audit = openAuditLog({ to: file, required: true }, { configHash: () => 'hash' });
  let number = 0;
  const write = () => audit.record({ event: 'login.failed', number: number++ });
  const numbersIn = (path: string) =>
    readFileSync(path, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line).number);
  write();
  truncateSync(file);
  write();
  t.same(numbersIn(file), [1], 'a file that was copied and truncated');
  renameSync(file, `${file}.1`);
  write();
  t.same([numbersIn(`${file}.1`), numbersIn(file)], [[1], [2]], 'a new file when it was moved away');
  rmSync(file);
  write();
  t.same(numbersIn(file), [3], 'and when it was removed');
  audit.close();
}); // prettier-ignore
