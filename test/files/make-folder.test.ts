import { existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { makeFolder } from '../../src/files/files.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { forEachRow } from '../helpers/table.js';

/** What happened: the mode of the folder, or the code of the error. */
function outcome(make: () => void, path: string): string {
  try {
    make();
    return (statSync(path).mode & 0o777).toString(8);
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code);
  }
}

t.test('creates folders as mkdir -p does, and ends where Node does not', async (t) => {
  const [ours, reference] = [temporaryFolder(t), temporaryFolder(t)];
  for (const folder of [ours, reference]) {
    mkdirSync(join(folder, 'there'), { mode: 0o750 });
    writeFileSync(join(folder, 'file'), '');
    symlinkSync('/nowhere/at/all', join(folder, 'broken'));
    symlinkSync('there', join(folder, 'link'));
  }
  forEachRow(
    [
      ['there', '750'],
      ['new', '700'],
      ['a/b/c', '700'],
      ['there/../there/x/', '700'],
      ['link/y', '700'],
      ['link', '750'],
      ['file', 'EEXIST'],
      ['file/x', 'ENOTDIR'],
      ['broken/x', 'ENOENT'],
    ] as const,
    ([path, expected]) => {
      const [here, there] = [join(ours, path), join(reference, path)];
      t.equal(outcome(() => makeFolder(here, 0o700), here), expected, path);
      t.equal(outcome(() => void mkdirSync(there, { recursive: true, mode: 0o700 }), there), expected, `${path} of Node`);
    },
  );
  // Node would try forever, on the main thread.
  t.equal(outcome(() => makeFolder('/proc/latchkey/store', 0o700), '/proc/latchkey'), 'ENOENT');
  t.notOk(existsSync('/proc/latchkey'));
}); // prettier-ignore
