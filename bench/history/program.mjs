// A program of a run that can be killed, stopped, and started again.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CORES, onEnd, startPinned } from '../lib/processes.mjs';

/** A program and the process that it is now. */
export class Program {
  #start;
  #current;

  /** @param {() => Promise<object>} start starts it and resolves, as `startPinned` does, when it is ready */
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

  /** What starting it resolved to. */
  get started() {
    return this.#current;
  }

  async start() {
    this.#current = undefined;
    this.#current = await this.#start();
    // At the end nobody waits for what is frozen, or for a drain.
    const { pid } = this.#current;
    const current = this.#current;
    onEnd(() => void (current.exited || signal(pid, 'SIGKILL')));
  }

  signal(name) {
    if (!this.exited) signal(this.pid, name);
  }

  async kill() {
    this.signal('SIGKILL');
    await this.#current?.stop();
  }
}

/** Starts a redis-server with a configuration file of its own, which it may rewrite. */
export function redisProgram({ name, folder, lines, mode = [] }) {
  const file = join(folder, `${name}.conf`);
  writeFileSync(file, `${lines.join('\n')}\n`);
  const log = join(folder, `${name}.log`);
  return new Program(name, async () =>
    startPinned({ program: 'redis-server', args: [file, ...mode], cores: CORES, log }),
  );
}

/** Sends a signal; a process that is gone needs none. */
export function signal(pid, name) {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}
