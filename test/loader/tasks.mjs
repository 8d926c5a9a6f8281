// Defines the suite: the files of each tier, and which of them share a process.
import { readdirSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';

/** @import { Task } from './bundle.mjs' */

const ROOT = resolve(import.meta.dirname, '../..');

/**
 * Path prefixes of the files that share a process. They load in a fraction of the time, and
 * whatever a file starts ends with it.
 */
const TOGETHER = Object.entries({
  'unit tests of endpoints': ['endpoints/'],
  'unit tests of requests': ['config/config.', 'config/restart.', 'gate/', 'pipeline/'],
  'unit tests of policies': ['policy/', 'policy-diff/'],
  'unit tests of accounts': ['accounts/', 'store/records.'],
  'unit tests of bytes': ['http/', 'http1/', 'observe/'],
  'unit tests of connections': ['listeners/', 'upstream/'],
  'unit tests of values': ['commands/', 'domain/', 'files/', 'properties/', 'ui/', 'verify/'],
});

/** Path prefixes of the files in each tier. */
const TIERS = new Map(
  Object.entries({
    unit: TOGETHER.flatMap(([, starts]) => starts),
    e2e: ['acceptance/', 'browser/', 'clients/', 'docs/', 'examples/', 'helm/', 'image/'],
    resilience: ['bench/', 'faults/', 'server/', 'store/', 'webhooks/'],
    security: ['config/secrets.', 'doctor/', 'hostile/'],
  }),
);

/** @param {string[]} names tiers and files; empty for all files */
export function filesOf(names) {
  const all = testFiles();
  const chosen = names.flatMap((name) => {
    const starts = TIERS.get(name);
    if (starts === undefined) return [relative(join(ROOT, 'test'), resolve(name))];
    return beginningWith(starts, all);
  });
  const unknown = chosen.find((file) => !all.includes(file));
  if (unknown !== undefined) throw new Error(`test/${unknown} is no test file, and no tier of ${[...TIERS.keys()].join(', ')}`);
  return names.length === 0 ? all : [...new Set(chosen)];
} // prettier-ignore

/**
 * Groups files into tasks. Files share a process only if all of the group are to run; a file named
 * alone runs by itself.
 *
 * @param {string[]} files
 * @returns {Task[]}
 */
export function tasksOf(files) {
  const all = testFiles();
  const shared = TOGETHER.map(([name, starts]) => ({ name, files: beginningWith(starts, all) }));
  const tasks = shared.filter((task) => task.files.every((file) => files.includes(file)));
  const alone = files.filter((file) => !tasks.some((task) => task.files.includes(file)));
  return [...tasks, ...alone.map((file) => ({ name: file, files: [file] }))];
}

function testFiles() {
  const names = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' });
  return names.filter((name) => name.endsWith('.test.ts')).toSorted();
}

/**
 * @param {string[]} starts
 * @param {string[]} files
 */
function beginningWith(starts, files) {
  return files.filter((file) => starts.some((start) => file.startsWith(start)));
}
