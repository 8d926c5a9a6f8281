// Runs test files in parallel: node test/loader/run.mjs [--record] [TIER or FILE...]. Prints the
// output of files that fail and, at the end, tap's summary for all. tap's own runner takes twice
// the time: it hooks into each process for coverage, which is off, and parses every line that a
// test writes.
import '../../bin/supported-node.js';
import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { bundlePath } from './bundle.mjs';
import { cpuOfEnded, nextOf, readDurations, writeDurations } from './durations.mjs';
import { prepare } from './prepare.mjs';
import { filesOf, tasksOf } from './tasks.mjs';

/** @import { Task } from './bundle.mjs' */
/**
 * @typedef {{ name: string, seconds: number, cpu: number, counts: Record<string, number>, fault:
 *   string | undefined, output: string }} Result
 */

const ROOT = resolve(import.meta.dirname, '../..');
/**
 * Longest time of a task, however busy the machine: it ends itself after TASK_SECONDS and is killed
 * after GRACE_SECONDS more.
 */
const TASK_SECONDS = 1_800;
const GRACE_SECONDS = 30;
/**
 * V8 of Node 20 takes a seventh of a test's processor time to optimize code that ends soon. With
 * this budget it waits longer; newer versions have a cheaper compiler instead.
 */
const OPTIMIZE_LATER = process.version.startsWith('v20.') ? ['--interrupt-budget=1000000'] : [];

/**
 * Runs a task to completion.
 *
 * @param {string} name
 * @returns {Promise<Result>}
 */
async function run(name) {
  const began = performance.now();
  const args = [...OPTIMIZE_LATER, '--enable-source-maps', bundlePath(name)];
  const env = { ...process.env, TAP: '1', TAP_TIMEOUT: String(TASK_SECONDS) };
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const timers = [
    setTimeout(() => child.kill('SIGALRM'), (TASK_SECONDS + GRACE_SECONDS) * 1_000),
    setTimeout(() => child.kill('SIGKILL'), (TASK_SECONDS + 2 * GRACE_SECONDS) * 1_000),
  ];
  let cpu = 0;
  child.once('exit', () => (cpu = cpuSinceLast()));
  /** @type {Buffer[]} */
  const chunks = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (/** @type {Buffer} */ chunk) => chunks.push(chunk));
  const [code, signal] = await new Promise((done) => child.once('close', (...ended) => done(ended)));
  for (const timer of timers) clearTimeout(timer);
  const output = Buffer.concat(chunks).toString();
  const counts = countsOf(output);
  let fault;
  if (code !== 0) fault = signal === null ? `ended with ${code}` : `ended by ${signal}`;
  else if (!('total' in counts)) fault = 'ended without a summary, or without an assertion';
  return { name, seconds: (performance.now() - began) / 1_000, cpu, counts, fault, output };
} // prettier-ignore

let lastCpu = 0;

/**
 * Returns the processor time of the processes that ended since the last call. Called when a task
 * ends, it is that task's time.
 */
function cpuSinceLast() {
  const [last, now] = [lastCpu, cpuOfEnded()];
  lastCpu = now;
  return now - last;
}

/**
 * Returns tap's summary, as in `# { total: 10, pass: 9, fail: 1 }`; empty if there is none.
 *
 * @param {string} output
 * @returns {Record<string, number>}
 */
function countsOf(output) {
  const [, summary = ''] = /^# \{ (total: .*) \}$/m.exec(output) ?? [];
  return Object.fromEntries(
    [...summary.matchAll(/(\w+): (\d+)/g)].map(([, name, count]) => [name, Number(count)]),
  );
}

/**
 * @param {Task[]} tasks
 * @param {boolean} record
 */
async function runAll(tasks, record) {
  const durations = readDurations();
  /** @type {Record<string, number>} */
  const counts = { total: 0, pass: 0 };
  const left = tasks.toSorted((a, b) => (durations[b.name]?.seconds ?? Infinity) - (durations[a.name]?.seconds ?? Infinity));
  /** @type {Map<Task, Promise<void>>} */
  const running = new Map();
  const ended = () => tasks.length - left.length - running.size;
  while (left.length + running.size > 0) {
    for (let task = next(); task !== undefined; task = next()) start(task);
    await Promise.race(running.values());
  }
  writeDurations(durations, record);
  return counts;

  function next() {
    return nextOf(left, [...running.keys()], durations);
  }

  /** @param {Task} task */
  function start(task) {
    left.splice(left.indexOf(task), 1);
    running.set(task, run(task.name).then((result) => {
      running.delete(task);
      const { name, seconds, cpu, fault } = result;
      if (fault === undefined) durations[name] = { seconds, cpu };
      for (const [what, count] of Object.entries(result.counts)) counts[what] = (counts[what] ?? 0) + count;
      if (fault !== undefined && result.counts.fail === undefined) counts.fail = (counts.fail ?? 0) + 1;
      report(ended(), result);
    }));
  }
} // prettier-ignore

/**
 * @param {number} number
 * @param {Result} result
 */
function report(number, { name, seconds, cpu, counts, fault, output }) {
  const title = name.endsWith('.ts') ? `test/${name}` : name;
  if (fault !== undefined) process.stdout.write(`# ${title}\n${output}\n`);
  const what = fault ?? Object.entries(counts).map(([kind, count]) => `${count} ${kind}`).join(', ');
  process.stdout.write(`${fault === undefined ? 'ok' : 'not ok'} ${number} - ${title}: ${what}, ${seconds.toFixed(1)} s, ${cpu.toFixed(1)} s on a processor\n`);
} // prettier-ignore

// Some tests run programs as other users, who must be able to read what the test wrote.
process.umask(0o022);
const began = performance.now();
const args = process.argv.slice(2);
const files = filesOf(args.filter((arg) => arg !== '--record'));
const tasks = tasksOf(files);
const unit = new Set(filesOf(['unit']));
await prepare(tasks, !files.every((file) => unit.has(file)));
const counts = await runAll(tasks, args.includes('--record'));
process.stdout.write(`1..${tasks.length}\n# { ${Object.entries(counts).map(([name, count]) => `${name}: ${count}`).join(', ')} }\n`); // prettier-ignore
process.stdout.write(
  `# time=${(performance.now() - began).toFixed(0)}ms, ${cpuOfEnded().toFixed(0)} s on a processor\n`,
);
if (counts.fail !== undefined || counts.total === 0) process.exitCode = 1;
