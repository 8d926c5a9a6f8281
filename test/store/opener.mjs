// A process that opens a store, which takes it half a second. It prints a line when it begins, and
// the time when it has finished.
import { writeSync } from 'node:fs';
import { built } from '../../bench/lib/built.mjs';

const { OpeningLock } = await built('store/lmdb/environment');
new OpeningLock(process.argv[2] ?? '').hold(() => {
  writeSync(1, 'begins\n');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
  writeSync(1, `${Date.now()}\n`);
});
