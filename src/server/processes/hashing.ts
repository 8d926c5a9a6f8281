import { type ChildProcess, fork } from 'node:child_process';
import { type Hasher, type HashParameters, passwordsBusy } from '../../accounts/passwords.js';
import type { Log } from '../../observe/log.js';
import { ask, signalChild, WorkerUnreachable } from './messages.js';

const PROGRAM = new URL('./hashing-child.js', import.meta.url);

/** Delay before a process that died is restarted, first and longest. It doubles each time. */
const FIRST_RESTART_MS = 100;
const MAX_RESTART_MS = 10_000;
/** Maximum time for one hash; a process that exceeds it is killed. */
const ANSWER_TIMEOUT_MS = 30_000;

/** Environment variables that the process needs. Others may be secrets. */
const KEPT_VARIABLES = ['PATH', 'LD_LIBRARY_PATH'] as const;

export type Task = { readonly password: string } & (
  { readonly parameters: HashParameters } | { readonly phc: string }
);

/** Its exit code, or the system's code for why it could not be started. */
type End = { readonly code: number | string | null; readonly signal: NodeJS.Signals | null };

/**
 * Hashes passwords in a separate process at low priority, so that a flood of logins waits and requests do
 * not. It starts with the first password, and again after it died. Passwords are passed only through its IPC
 * channel.
 */
export class HashingProcess implements Hasher {
  readonly #concurrency: number;
  readonly #log: Log;
  #child: ChildProcess | undefined;
  #failures = 0;
  #mayStartAt = 0;
  #closed = false;

  constructor(concurrency: number, log: Log) {
    this.#concurrency = concurrency;
    this.#log = log;
  }

  async hash(password: string, parameters: HashParameters): Promise<string> {
    return (await this.#run({ password, parameters })) as string;
  }

  async verify(phc: string, password: string): Promise<boolean> {
    return (await this.#run({ password, phc })) as boolean;
  }

  close(): void {
    this.#closed = true;
    this.#child?.disconnect();
  }

  /** @throws Unavailable when the process cannot be started now or dies during the task */
  async #run(task: Task): Promise<unknown> {
    const child = this.#child ?? this.#start();
    try {
      const value = await ask(child, 'hash', task, ANSWER_TIMEOUT_MS);
      this.#failures = 0;
      return value;
    } catch (error) {
      if (!(error instanceof WorkerUnreachable)) throw error;
      // It may hang.
      signalChild(child, 'SIGKILL');
      throw passwordsBusy();
    }
  }

  #start(): ChildProcess {
    if (this.#closed || performance.now() < this.#mayStartAt) throw passwordsBusy();
    const kept = KEPT_VARIABLES.flatMap((name) =>
      process.env[name] === undefined ? [] : [[name, process.env[name]]],
    );
    const child = fork(PROGRAM, [], {
      execArgv: [],
      env: { ...Object.fromEntries(kept), UV_THREADPOOL_SIZE: String(this.#concurrency) },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    child.unref();
    child.channel?.unref();
    // Each password in progress listens for its answer.
    child.setMaxListeners(0);
    let hasExited = false;
    const onExit = (ended: End) => {
      if (hasExited) return;
      hasExited = true;
      this.#onExit(ended);
    };
    child.once('exit', (code, signal) => onExit({ code, signal }));
    child.on('error', ({ code }: NodeJS.ErrnoException) => {
      signalChild(child, 'SIGKILL');
      onExit({ code: code ?? null, signal: null });
    });
    return (this.#child = child);
  }

  #onExit(ended: End): void {
    this.#child = undefined;
    this.#failures += 1;
    if (this.#failures > 1) {
      const wait = Math.min(MAX_RESTART_MS, FIRST_RESTART_MS * 2 ** (this.#failures - 2));
      this.#mayStartAt = performance.now() + wait;
    }
    if (!this.#closed)
      this.#log.warn(ended, 'password hashing process exited; the next login starts a new one');
  }
}
