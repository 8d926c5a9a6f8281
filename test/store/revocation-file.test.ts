import { appendFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { RevocationFiles } from '../../src/store/revocations.js';
import { fillDisk, mountSmallDisk, NO_SMALL_DISK } from '../helpers/small-disk.js';

t.test('after a full disk, revocations are kept again, and none is misread', { skip: NO_SMALL_DISK }, async (t) => {
  const disk = mountSmallDisk(t, '256k');
  const folder = join(disk, 'revocations');
  let failures = 0;
  const files = new RevocationFiles(folder, () => void (failures += 1));
  const filler = fillDisk(disk, 4_096);
  const kept = new Set<string>();
  const all = new Set<string>();
  /** Returns whether the name was saved. */
  const append = (name: string): boolean => {
    all.add(name);
    const before = failures;
    files.append([name], Date.now());
    if (failures === before) kept.add(name);
    return failures === before;
  };
  for (let i = 0; append(`user:1800000000000:U${i}${'x'.repeat(i % 40)}`); i++);
  for (let i = 0; i < 3; i++) append(`token:F${i}`);
  const [file = ''] = readdirSync(folder);
  t.equal(statSync(join(folder, file)).size % 4_096, 0, 'a line was cut');
  rmSync(filler);
  for (let i = 0; i < 3; i++) append(`token:T${i}`);
  const loaded = files.load().map(([name]) => name);
  t.same([...kept].filter((name) => !loaded.includes(name)), [], 'every name that was saved');
  t.same(loaded.filter((name) => !all.has(name)), [], 'no part of a name');
  t.ok(kept.has('token:T0'));
  t.equal(statSync(join(folder, file)).mode & 0o777, 0o600);
  appendFileSync(join(folder, file), `${Date.now()} token:CUT`);
  t.notOk(files.load().some(([name]) => name === 'token:CUT'), 'nor the line of a process that was killed');
}); // prettier-ignore
