import { type ChildProcess, fork } from 'node:child_process';
import type { Hasher, HashParameters } from '../../accounts/hasher.js';
import { passwordsBusy } from '../../accounts/passwords.js';

const PROGRAM = new URL('./hashing-child.js', import.meta.url);

/** A process that dies this often in a row before it answers is started again only after a while, which doubles. */
const FIRST_RESTART_MS = 100;
const MAX_RESTART_MS = 10_000;
/** No hash takes so long: a process that does not answer is ended, and the next password starts another. */
const ANSWER_TIMEOUT_MS = 30_000;

/** What the process needs of the environment. The rest may hold secrets, or options that are not meant for it. */
const KEPT_VARIABLES = ['PATH', 'LD_LIBRARY_PATH'] as const;

export type Task =
  | { readonly password: string; readonly parameters: HashParameters }
  | { readonly password: string; readonly phc: string };

export interface HashingResult {
  readonly id: number;
  readonly value?: string | boolean;
  readonly failed?: string;
}

interface Waiting {
  readonly resolve: (value: string | boolean) => void;
  readonly reject: (error: Error) => void;
}

/** What happens to the process, for the log. */
export type OnHashingEnd = (ended: { code: number | null; signal: NodeJS.Signals | null }) => void;

/**
 * Hashes in a process of its own at a low priority, so that the scheduler puts it behind the one that serves: a flood
 * of logins waits, and requests do not. Beside the thread that serves, in one process, both get the same share.
 *
 * It starts with the first password and again with the next one when it died; what it was asked then fails. Passwords go
 * through its channel only. It ends with this process, however that ends.
 */
export class HashingProcess implements Hasher {
  readonly #concurrency: number;
  readonly #onEnd: OnHashingEnd;
  readonly #waiting = new Map<number, Waiting>();
  #child: ChildProcess | undefined;
  #tasks = 0;
  #failures = 0;
  #mayStartAt = 0;
  #closed = false;

  /**
   * @param concurrency hashes at once
   * @param onEnd called when it ended by itself
   */
  constructor(concurrency: number, onEnd: OnHashingEnd) {
    this.#concurrency = concurrency;
    this.#onEnd = onEnd;
  }

  async hash(password: string, parameters: HashParameters): Promise<string> {
    return (await this.#ask({ password, parameters })) as string;
  }

  async verify(phc: string, password: string): Promise<boolean> {
    return (await this.#ask({ password, phc })) as boolean;
  }

  close(): void {
    this.#closed = true;
    this.#child?.disconnect();
  }

  /** @throws Unavailable when the process can't be started now, or dies over it */
  async #ask(task: Task): Promise<string | boolean> {
    const child = this.#child ?? this.#start();
    const id = ++this.#tasks;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => child.kill('SIGKILL'), ANSWER_TIMEOUT_MS).unref();
      const settled =
        <T>(end: (value: T) => void) =>
        (value: T) => {
          clearTimeout(timer);
          this.#waiting.delete(id);
          end(value);
        };
      this.#waiting.set(id, { resolve: settled(resolve), reject: settled(reject) });
      // A process that is gone fails all that wait, this one as well.
      child.send({ id, task }, () => undefined);
    });
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
    child.on('message', (answer: HashingResult) => this.#take(answer));
    let isOver = false;
    const over = (code: number | null, signal: NodeJS.Signals | null) => {
      if (isOver) return;
      isOver = true;
      this.#over(code, signal);
    };
    child.once('exit', over);
    // It could not be started, or its channel broke.
    child.on('error', () => {
      child.kill('SIGKILL');
      over(null, null);
    });
    return (this.#child = child);
  }

  #take({ id, value, failed }: HashingResult): void {
    this.#failures = 0;
    const waiting = this.#waiting.get(id);
    if (value === undefined) waiting?.reject(new Error(`a password could not be hashed: ${failed}`));
    else waiting?.resolve(value);
  }

  #over(code: number | null, signal: NodeJS.Signals | null): void {
    this.#child = undefined;
    this.#failures += 1;
    if (this.#failures > 1) {
      const wait = Math.min(MAX_RESTART_MS, FIRST_RESTART_MS * 2 ** (this.#failures - 2));
      this.#mayStartAt = performance.now() + wait;
    }
    for (const { reject } of this.#waiting.values()) reject(passwordsBusy());
    if (!this.#closed) this.#onEnd({ code, signal });
  }
}
