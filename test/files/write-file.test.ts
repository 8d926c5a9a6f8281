import { chownSync, closeSync, existsSync, linkSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'; // prettier-ignore
import { join } from 'node:path';
import t from 'tap';
import { appendTo, LinkRefused, openToAppend } from '../../src/files/files.js';
import { openAuditLog } from '../../src/observe/audit.js';
import { StoreUnavailable } from '../../src/store/faults.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { RevocationFiles } from '../../src/store/revocations.js';
import { temporaryFolder } from '../helpers/latchkey.js';

/*
 * Whoever may write to a folder can place a link in it. No writer of Latchkey follows it.
 */

const NOT_ROOT = process.getuid?.() !== 0 && 'only root may give files away';
const SERVICE = 65_534;

t.test('creates, appends, and follows no link', async (t) => {
  const folder = temporaryFolder(t);
  const [file, target] = [join(folder, 'file'), join(folder, 'target')];
  appendTo(file, 'a');
  appendTo(file, 'b');
  t.equal(readFileSync(file, 'utf8'), 'ab');
  t.equal(statSync(file).mode & 0o777, 0o600);
  for (const [name, to] of [['link', target], ['dangling', join(folder, 'none')], ['loop', join(folder, 'loop')]] as const) {
    writeFileSync(target, 'untouched');
    const link = join(folder, name);
    symlinkSync(to, link);
    t.throws(() => openToAppend(link), new LinkRefused(`${link} is a symbolic link; name the file that it leads to`));
    t.equal(readFileSync(target, 'utf8'), 'untouched');
    rmSync(link);
  }
  t.notOk(existsSync(join(folder, 'none')));
}); // prettier-ignore

t.test('what root creates belongs to the owner of the folder; a hard link is refused', { skip: NOT_ROOT }, async (t) => {
  const folder = join(temporaryFolder(t), 'service');
  mkdirSync(folder);
  chownSync(folder, SERVICE, SERVICE);
  const [file, roots, link] = ['file', '../roots', 'link'].map((name) => join(folder, name)) as [string, string, string];
  appendTo(file, 'a');
  t.equal(statSync(file).uid, SERVICE);
  writeFileSync(roots, 'untouched');
  linkSync(roots, link);
  t.throws(() => openToAppend(link), { message: /is a hard link to a file of another user/ });
  t.equal(readFileSync(roots, 'utf8'), 'untouched');
  linkSync(file, join(folder, 'backup'));
  closeSync(openToAppend(file));
}); // prettier-ignore

t.test('every writer: the audit log, the store, its note, revocations', async (t) => {
  const folder = temporaryFolder(t);
  const target = join(folder, 'target');
  writeFileSync(target, 'untouched');
  const audit = join(folder, 'audit.jsonl');
  symlinkSync(target, audit);
  t.throws(() => openAuditLog({ to: audit, required: true }, { configHash: () => '' }), { message: /audit\.jsonl is a symbolic link/ });
  for (const name of ['data.mdb', 'lock.mdb', 'opening.mdb', 'opening.mdb-lock']) {
    const path = join(folder, `store-${name}`);
    mkdirSync(path);
    symlinkSync(target, join(path, name));
    t.throws(() => openLmdbStore(path), new StoreUnavailable(`${path} cannot be opened as a store: ${join(path, name)} is a symbolic link; name the file that it leads to`), name);
  }
  const failures: unknown[] = [];
  const revocations = new RevocationFiles(join(folder, 'revocations'), (error) => failures.push(error));
  revocations.append(['token:T1'], Date.now());
  t.same(failures, []);
  t.equal(readFileSync(target, 'utf8'), 'untouched');
}); // prettier-ignore
