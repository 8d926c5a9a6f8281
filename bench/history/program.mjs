// A program of a run, which can be killed, stopped and restarted.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CORES, onEnd, startPinned } from '../lib/processes.mjs';

/** @typedef {ReturnType<typeof startPinned>} Started */

/** A program and its current process. */
export class Program {
  #start;
  /** @type {Started | undefined} */
  #current;

  /**
   * @param {string} name
   * @param {() => Promise<Started>} start starts it and resolves when it is ready
   */
  constructor(name, start) {
    this.name = name;
    this.#start = start;
  }

  get pid() {
    return this.#current?.pid;
  }

  get exited() {
    return this.#current?.exited ?? true;
  }

  /** The result of starting it. */
  get started() {
    return this.#current;
  }

  async start() {
    this.#current = undefined;
    const current = await this.#start();
    this.#current = current;
    // The end of the run does not wait for frozen processes, or for a drain.
    onEnd(() => void (current.exited || signal(current.pid, 'SIGKILL')));
  }

  /** @param {NodeJS.Signals} name */
  signal(name) {
    if (this.#current?.exited === false) signal(this.#current.pid, name);
  }

  async kill() {
    this.signal('SIGKILL');
    await this.#current?.stop();
  }
}

/**
 * Starts a redis-server with its own configuration file, which it may rewrite.
 *
 * @param {{ name: string, folder: string, lines: string[], mode?: string[] }} what
 */
export function redisProgram({ name, folder, lines, mode = [] }) {
  const file = join(folder, `${name}.conf`);
  writeFileSync(file, `${lines.join('\n')}\n`);
  const log = join(folder, `${name}.log`);
  return new Program(name, async () =>
    startPinned({ program: 'redis-server', args: [file, ...mode], cores: CORES, log }),
  );
}

/**
 * Sends a signal; ignores processes that have ended.
 *
 * @param {number} pid
 * @param {NodeJS.Signals} name
 */
export function signal(pid, name) {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') throw error;
  }
}
