// What Linux tells of processes under /proc.
import { readdirSync, readFileSync } from 'node:fs';

/** Ticks a second in /proc/PID/stat: USER_HZ, which is 100 on every architecture that Node runs on. */
const TICKS = 100;

/**
 * Parent and CPU time of a process from the text of its /proc/PID/stat.
 *
 * The second field is the program's name in parentheses and may hold spaces and parentheses itself.
 *
 * @param {string} text
 */
export function parseStat(text) {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { parent: Number(fields[1]), cpuSeconds: (Number(fields[11]) + Number(fields[12])) / TICKS };
}

/**
 * A value in KiB from the text of /proc/PID/status or smaps_rollup, as bytes; 0 when it is not there.
 *
 * @param {string} text
 * @param {string} name
 */
export function parseKib(text, name) {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0) * 1024;
}

/**
 * A process and all that descend from it.
 *
 * @param {number} pid
 */
export function familyOf(pid) {
  const parents = new Map();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const text = readIfThere(`/proc/${name}/stat`);
    if (text !== '') parents.set(Number(name), parseStat(text).parent);
  }
  const family = [pid];
  for (const member of family) {
    for (const [child, parent] of parents) if (parent === member) family.push(child);
  }
  return family;
}

/**
 * CPU seconds that processes used so far, user and system, with all their threads.
 *
 * @param {number[]} pids
 */
export function cpuSeconds(pids) {
  return pids.reduce((sum, pid) => {
    const text = readIfThere(`/proc/${pid}/stat`);
    return text === '' ? sum : sum + parseStat(text).cpuSeconds;
  }, 0);
}

/**
 * CPU seconds of a process's main thread alone.
 *
 * @param {number} pid
 */
export function threadSeconds(pid) {
  return parseStat(readIfThere(`/proc/${pid}/task/${pid}/stat`)).cpuSeconds;
}

/**
 * Memory of processes in bytes: what is shared between them counts once (PSS); one process's own is its RSS.
 *
 * @param {number[]} pids
 */
export function memoryBytes(pids) {
  if (pids.length === 1) return parseKib(readIfThere(`/proc/${pids[0]}/status`), 'VmRSS');
  return pids.reduce((sum, pid) => sum + parseKib(readIfThere(`/proc/${pid}/smaps_rollup`), 'Pss'), 0);
}

/**
 * Seconds in which any process ran on a core, from the text of /proc/stat.
 *
 * @param {string} text
 * @param {number} core
 */
export function parseBusy(text, core) {
  const line = new RegExp(`^cpu${core} (.*)$`, 'm').exec(text)?.[1] ?? '';
  const [user, nice, system, , , irq, softirq, steal] = line.split(' ').map(Number);
  return (user + nice + system + irq + softirq + steal) / TICKS;
}

/**
 * Seconds in which anything ran on some cores, the machine's other guests included.
 *
 * @param {number[]} cores
 */
export function busySeconds(cores) {
  const text = readFileSync('/proc/stat', 'utf8');
  return cores.reduce((sum, core) => sum + parseBusy(text, core), 0);
}

/** @param {string} file */
function readIfThere(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    // The process ended in the meantime.
    return '';
  }
}
