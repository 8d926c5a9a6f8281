// Reads facts about processes from /proc on Linux.
import { readdirSync, readFileSync } from 'node:fs';

/**
 * Ticks per second in /proc/PID/stat: USER_HZ, which is 100 on every architecture that Node runs
 * on.
 */
const TICKS = 100;

/**
 * Parses the parent and the CPU time of a process from its /proc/PID/stat.
 *
 * The second field is the program's name in parentheses, which may itself contain spaces and
 * parentheses.
 *
 * @param {string} text
 */
export function parseStat(text) {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { parent: Number(fields[1]), cpuSeconds: (Number(fields[11]) + Number(fields[12])) / TICKS };
}

/**
 * Parses a value in KiB from /proc/PID/status or smaps_rollup, and returns it in bytes; 0 if it is
 * missing.
 *
 * @param {string} text
 * @param {string} name
 */
export function parseKib(text, name) {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0) * 1024;
}

/**
 * Returns a process and all of its descendants.
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
 * Returns the CPU seconds that processes have used, user and system, with all their threads.
 *
 * @param {number[]} pids
 */
export function cpuSeconds(pids) {
  return pids.reduce((sum, pid) => {
    const text = readIfThere(`/proc/${pid}/stat`);
    return text === '' ? sum : sum + parseStat(text).cpuSeconds;
  }, 0);
}

/** Returns the CPU seconds of the processes that this one started and that have ended. */
export function endedSeconds() {
  const fields = readFileSync('/proc/self/stat', 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[13]) + Number(fields[14])) / TICKS;
}

/**
 * Returns the anonymous memory of a process in bytes: what no other process can share.
 *
 * @param {number} pid
 */
export function anonymousBytes(pid) {
  return parseKib(readIfThere(`/proc/${pid}/status`), 'RssAnon');
}

/**
 * Returns the CPU seconds of a process's main thread alone.
 *
 * @param {number} pid
 */
export function threadSeconds(pid) {
  return parseStat(readIfThere(`/proc/${pid}/task/${pid}/stat`)).cpuSeconds;
}

/**
 * Returns the memory of processes in bytes. Shared memory counts once (PSS); for a single process
 * it is the RSS.
 *
 * @param {number[]} pids
 */
export function memoryBytes(pids) {
  if (pids.length === 1) return parseKib(readIfThere(`/proc/${pids[0]}/status`), 'VmRSS');
  return pids.reduce((sum, pid) => sum + parseKib(readIfThere(`/proc/${pid}/smaps_rollup`), 'Pss'), 0);
}

/**
 * Parses the seconds in which any process ran on a core from /proc/stat.
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
 * Returns the seconds in which anything ran on some cores, including other guests of the machine.
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
    // The process has ended meanwhile.
    return '';
  }
}
