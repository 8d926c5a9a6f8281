// Records how long each task of the suite takes, and its processor time. Run directly, it lists the
// most expensive tasks.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * @typedef {{ seconds: number, cpu: number }} Duration in seconds; `cpu` of all its processes
 *   together
 */
/** @typedef {Record<string, Duration>} Durations by task name */

/** Defaults for a machine that has not run a task yet. `npm test -- --record` updates them. */
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
 * @param {boolean} record whether to save them as the defaults for other machines
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

/**
 * Returns the processor time of all ended child processes, in seconds; 0 if the system does not
 * report it.
 */
export function cpuOfEnded() {
  try {
    const fields = readFileSync('/proc/self/stat', 'utf8').replace(/^.*\) /s, '').split(' ');
    return (Number(fields[13]) + Number(fields[14])) / TICKS_PER_SECOND;
  } catch {
    return 0;
  }
} // prettier-ignore

/**
 * Returns the next task to start. The longest goes first, so that none is left running alone at the
 * end, if the running tasks leave it a processor. Tasks that mostly wait fit beside those that
 * compute.
 *
 * @template {{ name: string }} T
 * @param {T[]} left the longest first
 * @param {T[]} running
 * @param {Durations} durations
 */
export function nextOf(left, running, durations) {
  if (running.length >= 3 * availableParallelism()) return undefined;
  /** @param {T} task */
  const load = ({ name }) => {
    const { seconds, cpu } = durations[name] ?? UNKNOWN;
    return Math.min(1, Math.max(LEAST, cpu / seconds));
  };
  const free = availableParallelism() - running.reduce((sum, task) => sum + load(task), 0);
  return running.length === 0 ? left[0] : left.find((task) => load(task) <= free + SLACK);
}
/** In processors: even tests that compute wait for other processes at times. */
const SLACK = 0.5;
const UNKNOWN = { seconds: 1, cpu: 0.6 };
/** Lowest load of a task: one measured on a busy machine only seems to wait. */
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
