// How long each task of the suite takes, and how much of that on a processor. Run by itself it lists the dearest.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** @typedef {{ seconds: number, cpu: number }} Duration in seconds; `cpu` of all its processes together */
/** @typedef {Record<string, Duration>} Durations by the name of a task */

/** For a machine that has not run a task yet. `npm test -- --record` writes it. */
const RECORDED = fileURLToPath(new URL('./durations.json', import.meta.url));
const MEASURED = resolve(import.meta.dirname, '../../node_modules/.cache/tests/durations.json');
const TICKS_PER_SECOND = 100;
const DEAREST = 25;

/** @returns {Durations} */
export function readDurations() {
  return { ...read(RECORDED), ...read(MEASURED) };
}

/**
 * @param {Durations} durations
 * @param {boolean} record whether they are what other machines begin with
 */
export function writeDurations(durations, record) {
  mkdirSync(dirname(MEASURED), { recursive: true });
  writeFileSync(MEASURED, JSON.stringify(durations));
  if (!record) return;
  const rows = Object.entries(durations).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const lines = rows.map(([name, { seconds, cpu }]) => `  ${JSON.stringify(name)}: { "seconds": ${seconds.toFixed(1)}, "cpu": ${cpu.toFixed(1)} }`);
  writeFileSync(RECORDED, `{\n${lines.join(',\n')}\n}\n`);
} // prettier-ignore

/**
 * @param {string} path
 * @returns {Durations}
 */
function read(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return {};
  }
}

/** The processor time of all processes that ended below this one, in seconds; 0 where the system does not tell. */
export function cpuOfEnded() {
  try {
    const fields = readFileSync('/proc/self/stat', 'utf8').replace(/^.*\) /s, '').split(' ');
    return (Number(fields[13]) + Number(fields[14])) / TICKS_PER_SECOND;
  } catch {
    return 0;
  }
} // prettier-ignore

/**
 * The next task to start: the longest first, so that none is left when all others are done, beside tasks that leave it a
 * processor. Those that mostly wait fit beside those that compute.
 *
 * @template {{ name: string }} T
 * @param {T[]} left the longest first
 * @param {T[]} running
 * @param {Durations} durations
 */
export function nextOf(left, running, durations) {
  if (running.length >= 4 * availableParallelism()) return undefined;
  /** @param {T} task */
  const load = ({ name }) => {
    const { seconds, cpu } = durations[name] ?? UNKNOWN;
    return Math.min(1, Math.max(LEAST, cpu / seconds));
  };
  const free = availableParallelism() - running.reduce((sum, task) => sum + load(task), 0);
  return running.length === 0 ? left[0] : left.find((task) => load(task) <= free + SLACK);
}
/** Most tests wait for another process at times, also those that compute. */
const SLACK = 0.5;
const UNKNOWN = { seconds: 1, cpu: 0.6 };
/** A task that was measured on a busy machine seems to wait. */
const LEAST = 0.2;

function list() {
  const rows = Object.entries(readDurations()).toSorted(([, a], [, b]) => b.cpu - a.cpu);
  for (const [name, { seconds, cpu }] of rows.slice(0, DEAREST))
    process.stdout.write(
      `${cpu.toFixed(1).padStart(6)} s on a processor, ${seconds.toFixed(1)} s in all: ${name}\n`,
    );
  const total = rows.reduce((sum, [, { cpu }]) => sum + cpu, 0);
  process.stdout.write(`${total.toFixed(1).padStart(6)} s on a processor: all ${rows.length}\n`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) list();
