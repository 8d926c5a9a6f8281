// Runs test files side by side: node test/loader/run.mjs [TIER or FILE...]. Shows the output of a file that fails, and at the
// end tap's summary of all. tap's own runner does the same in twice the time: it hooks itself into each process for a
// coverage that is off, and reads every line that a test writes.
import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { prepare } from './prepare.mjs';

/** @typedef {{ file: string, seconds: number, counts: Record<string, number>, fault: string | undefined, output: string }} Result */

const ROOT = resolve(import.meta.dirname, '../..');
const DURATIONS = join(ROOT, 'node_modules/.cache/tests/durations.json');
/** Most tests wait for another process at times. */
const JOBS = availableParallelism() + 1;
/** A file that takes longer ends itself; one that does not even do that is killed. */
const FILE_SECONDS = 300;
const GRACE_SECONDS = 30;

/** Where the files of each tier begin. */
const TIERS = new Map(
  Object.entries({
    unit: [
      'accounts/', 'commands/', 'config/config.', 'config/restart.', 'domain/', 'endpoints/', 'gate/', 'http/', 'http1/',
      'listeners/', 'observe/', 'pipeline/', 'policy/', 'properties/', 'store/records.', 'ui/', 'upstream/',
    ],
    e2e: ['acceptance/', 'browser/', 'clients/', 'docs/', 'examples/', 'helm/', 'image/'],
    resilience: ['bench/', 'faults/', 'server/', 'store/'],
    security: ['config/secrets.', 'hostile/'],
  }),
); // prettier-ignore

/** @param {string[]} names tiers and files; all files when there is none */
function filesOf(names) {
  const all = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.test.ts'));
  const chosen = names.flatMap((name) => {
    const starts = TIERS.get(name);
    if (starts === undefined) return [relative(join(ROOT, 'test'), resolve(name))];
    return all.filter((file) => starts.some((start) => file.startsWith(start)));
  });
  const unknown = chosen.find((file) => !all.includes(file));
  if (unknown !== undefined) throw new Error(`test/${unknown} is no test file, and no tier of ${[...TIERS.keys()].join(', ')}`);
  return names.length === 0 ? all : [...new Set(chosen)];
} // prettier-ignore

/**
 * Runs a file to its end.
 *
 * @param {string} file below test
 * @returns {Promise<Result>}
 */
async function run(file) {
  const began = performance.now();
  const args = ['--enable-source-maps', '--disable-warning=DEP0205', '--import=./test/loader/register.mjs', join('test', file)];
  const env = { ...process.env, TAP: '1', TAP_TIMEOUT: String(FILE_SECONDS) };
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const timers = [
    setTimeout(() => child.kill('SIGALRM'), (FILE_SECONDS + GRACE_SECONDS) * 1_000),
    setTimeout(() => child.kill('SIGKILL'), (FILE_SECONDS + 2 * GRACE_SECONDS) * 1_000),
  ];
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
  return { file, seconds: (performance.now() - began) / 1_000, counts, fault, output };
} // prettier-ignore

/**
 * tap's summary, as in `# { total: 10, pass: 9, fail: 1 }`; empty when there is none.
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

/** @returns {Record<string, number>} how long each file took the last time, in seconds */
function readDurations() {
  try {
    return JSON.parse(readFileSync(DURATIONS, 'utf8'));
  } catch {
    return {};
  }
}

/** @param {string[]} files */
async function runAll(files) {
  const durations = readDurations();
  /** @type {Record<string, number>} */
  const counts = { total: 0, pass: 0 };
  // The longest first, so that none is left when all others are done.
  const left = files.toSorted((a, b) => (durations[b] ?? Infinity) - (durations[a] ?? Infinity));
  let ended = 0;
  const work = async () => {
    for (let file = left.shift(); file !== undefined; file = left.shift()) {
      const result = await run(file);
      durations[file] = result.seconds;
      for (const [name, count] of Object.entries(result.counts)) counts[name] = (counts[name] ?? 0) + count;
      if (result.fault !== undefined && result.counts.fail === undefined)
        counts.fail = (counts.fail ?? 0) + 1;
      report((ended += 1), result);
    }
  };
  await Promise.all(Array.from({ length: JOBS }, work));
  mkdirSync(dirname(DURATIONS), { recursive: true });
  writeFileSync(DURATIONS, JSON.stringify(durations));
  return counts;
}

/**
 * @param {number} number
 * @param {Result} result
 */
function report(number, { file, seconds, counts, fault, output }) {
  if (fault !== undefined) process.stdout.write(`# test/${file}\n${output}\n`);
  const what = fault ?? Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(', ');
  process.stdout.write(`${fault === undefined ? 'ok' : 'not ok'} ${number} - test/${file}: ${what}, ${seconds.toFixed(1)} s\n`);
} // prettier-ignore

const began = performance.now();
const files = filesOf(process.argv.slice(2));
const unit = new Set(filesOf(['unit']));
await prepare(files, !files.every((file) => unit.has(file)));
const counts = await runAll(files);
process.stdout.write(`1..${files.length}\n# { ${Object.entries(counts).map(([name, count]) => `${name}: ${count}`).join(', ')} }\n`); // prettier-ignore
process.stdout.write(`# time=${(performance.now() - began).toFixed(0)}ms\n`);
if (counts.fail !== undefined || counts.total === 0) process.exitCode = 1;
