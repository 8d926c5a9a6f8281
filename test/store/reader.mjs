// A process that keeps a snapshot of a store from the line that it prints until it is killed.
import { writeSync } from 'node:fs';
import { built } from '../../bench/lib/built.mjs';

const { openLmdbStore } = await built('store/lmdb');
await openLmdbStore(process.argv[2] ?? '').maintenance.probe();
writeSync(1, 'reads\n');
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
