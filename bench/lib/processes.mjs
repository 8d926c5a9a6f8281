// Processes of a measurement: pinned to cores, awaited, and ended by their ids.
import { spawn, spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const START_MS = 60_000;
/** @typedef {{ log: string, exited: boolean }} Started */
/** @type {(() => unknown)[]} */
const endings = [];

/** The cores available to the run, as of before it pinned itself. */
export const CORES = parseCores(
  /** @type {RegExpExecArray} */ (
    /^Cpus_allowed_list:\s+(.*)$/m.exec(readFileSync('/proc/self/status', 'utf8'))
  )[1],
);

/**
 * Assigns cores to the load (generator and upstream) and one to the measured process.
 *
 * @param {number[]} [cores]
 */
export function planCores(cores = CORES) {
  if (cores.length < 2)
    throw new Error('a measurement needs two cores: one for the load, one for what is measured');
  return { load: cores.slice(0, -1), measured: cores.slice(-1) };
}

/**
 * Parses a list of numbers like `0-2,5`.
 *
 * @param {string} list
 */
export function parseCores(list) {
  return list.split(',').flatMap((part) => {
    const [first, last = first] = part.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}

/**
 * Creates a folder that is removed at the end of the run.
 *
 * @param {string} name
 */
export function temporaryFolder(name) {
  const folder = mkdtempSync(join(tmpdir(), `latchkey-${name}-`));
  onEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/**
 * Registers work for the end of the run, however it ends. Runs in reverse order.
 *
 * @param {() => unknown} work
 */
export function onEnd(work) {
  endings.unshift(work);
}

/** Ends every process and removes every folder of the run. */
async function endAll() {
  for (const work of endings.splice(0)) await work();
}

/**
 * Runs a measurement and cleans up after it, even after Ctrl-C.
 *
 * @param {() => Promise<void>} main
 */
export async function run(main) {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, () => void endAll().finally(() => process.exit(130)));
  }
  try {
    await main();
  } catch (error) {
    process.stderr.write(`\n${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
  await endAll();
}

/**
 * Starts a process pinned to some cores. Its standard output and error go to a file.
 *
 * `emptyLog` is called after each round, which costs the process nothing: the logs would fill the
 * disk.
 *
 * @param {{ program: string, args: string[], cores: number[], log: string, env?: object |
 *   undefined, cwd?: string }} what
 */
export function startPinned({ program, args, cores, log, env, cwd }) {
  const output = openSync(log, 'a');
  const child = spawn('taskset', ['-c', cores.join(','), program, ...args], {
    stdio: ['ignore', output, output],
    cwd,
    env: { ...process.env, ...env },
  });
  closeSync(output);
  const gone = new Promise((resolve) => child.once('exit', resolve));
  const pid = /** @type {number} */ (child.pid);
  const started = { pid, log, emptyLog: () => truncateSync(log), exited: false, stop };
  void gone.then(() => (started.exited = true));
  async function stop() {
    if (!started.exited) child.kill('SIGTERM');
    const late = setTimeout(() => child.kill('SIGKILL'), 10_000);
    await gone;
    clearTimeout(late);
  }
  onEnd(stop);
  return started;
}

/**
 * Waits until a process listens.
 *
 * @throws Error with its output if it ends instead
 * @param {Started} started
 * @param {number} port
 * @param {string} name
 */
export async function untilListening(started, port, name) {
  await until(started, name, () => accepts(port));
}

/**
 * Waits until a condition holds for a started process.
 *
 * @param {Started} started
 * @param {string} name
 * @param {() => boolean | Promise<boolean>} holds
 */
export async function until(started, name, holds) {
  const limit = Date.now() + START_MS;
  while (!(await holds())) {
    if (started.exited || Date.now() > limit) {
      const said = readFileSync(started.log, 'utf8').trim().slice(-2_000);
      throw new Error(`${name} ${started.exited ? 'ended' : 'did not get ready'}: ${said}`);
    }
    await sleep(25);
  }
}

/**
 * Makes sure that a program is present; installs its Debian packages if that is allowed.
 *
 * @returns what to do about it; undefined if the program is present
 * @param {() => boolean} isThere
 * @param {string[]} packages
 */
export function missingPackages(isThere, ...packages) {
  if (isThere()) return undefined;
  if (process.getuid?.() === 0) {
    spawnSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...packages]);
    if (isThere()) return undefined;
  }
  return `apt-get install ${packages.join(' ')}`;
}

/**
 * Returns whether a program can be run.
 *
 * @param {string} program
 * @param {string[]} args
 */
export function runs(program, ...args) {
  return spawnSync(program, args).error === undefined;
}

/**
 * @param {number} port
 * @returns {Promise<boolean>}
 */
function accepts(port) {
  return new Promise((answer) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      answer(true);
    });
    socket.on('error', () => answer(false));
  });
}
