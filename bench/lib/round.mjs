// Runs one round: load on a started proxy, and its measurements.
import { setTimeout as sleep } from 'node:timers/promises';
import { busySeconds, cpuSeconds, familyOf, memoryBytes } from './proc.mjs';
import { wrk } from './wrk.mjs';

const REST_MS = 100;

/**
 * @typedef {{ port: number, pids: Record<string, number>, emptyLog?: () => void }} Started its
 *   processes by their part
 */
/**
 * Driven by wrk with a script, or by another program.
 *
 * @typedef {{ expects: 'ok' | 'refused' }} Expected
 * @typedef {Expected & { script: string, connections?: number | undefined }} WrkLoad
 * @typedef {Expected & { drive: (how: How) => ReturnType<typeof wrk> }} DrivenLoad
 * @typedef {WrkLoad | DrivenLoad} Load
 * @typedef {{ port: number, seconds: number, cores: number[] }} How
 */
/** @typedef {Awaited<ReturnType<typeof measureRound>>} Round */

/**
 * Runs load on a proxy once.
 *
 * @param {Started} started
 * @param {Load} load
 * @param {{ seconds: number, cores: number[], measuredCores: number[] }} settings
 * @returns CPU µs per request, of each part and in total; requests per second; p50 and p99 in ms;
 *   memory in bytes
 */
export async function measureRound(started, load, { seconds, cores, measuredCores }) {
  const parts = Object.entries(started.pids).map(([part, pid]) => ({ part, family: familyOf(pid) }));
  const used = () => parts.map(({ family }) => cpuSeconds(family));
  const [before, busyBefore] = [used(), busySeconds(measuredCores)];
  const done = await drive(load, { port: started.port, seconds, cores });
  const memory = memoryBytes(parts.flatMap(({ family }) => family));
  // Responses and writes still in progress when wrk ends belong to the round.
  await sleep(REST_MS);
  const [after, busyAfter] = [used(), busySeconds(measuredCores)];
  checkAnswers(done, load.expects);
  started.emptyLog?.();
  const cpu = after.map((value, index) => ((value - before[index]) / done.requests) * 1e6);
  const own = after.reduce((sum, value, index) => sum + value - before[index], 0);
  return {
    cpu_us: cpu.reduce((sum, value) => sum + value, 0),
    cpu_us_of: Object.fromEntries(parts.map(({ part }, index) => [part, cpu[index]])),
    requests_per_second: done.requests / done.seconds,
    p50_ms: done.p50,
    p99_ms: done.p99,
    memory_bytes: memory,
    foreign_share: foreignShare(busyAfter - busyBefore - own, done.seconds, measuredCores),
  };
}

/**
 * @param {Load} load
 * @param {How} how
 */
async function drive(load, how) {
  if ('drive' in load) return load.drive(how);
  const { port, seconds, cores } = how;
  return wrk({ url: `http://127.0.0.1:${port}/`, ...load, seconds, cores });
}

/**
 * Returns the share of some cores that was used by others, including the host of a virtual machine.
 * A round with a high share is less reliable.
 *
 * @param {number} foreignSeconds
 * @param {number} seconds
 * @param {number[]} cores
 */
export function foreignShare(foreignSeconds, seconds, cores) {
  return Math.max(0, foreignSeconds / (seconds * cores.length));
}

/**
 * Returns the half of the rounds with the least other load on the measured cores.
 *
 * @template {{ foreign_share: number }} T
 * @param {T[]} rounds
 */
export function quieterHalf(rounds) {
  return rounds.toSorted((a, b) => a.foreign_share - b.foreign_share).slice(0, Math.ceil(rounds.length / 2));
}

/**
 * @param {{ requests: number, refused: number }} what
 * @param {'ok' | 'refused'} expects
 */
function checkAnswers({ requests, refused }, expects) {
  if (expects === 'ok' && refused > 0) throw new Error(`${refused} of ${requests} requests were refused`);
  if (expects === 'refused' && refused < requests)
    throw new Error(`${requests - refused} of ${requests} requests were let through`);
}
