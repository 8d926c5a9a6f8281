import { type ChildProcess, fork } from 'node:child_process';
import { type Hasher, type HashParameters, passwordsBusy } from '../../accounts/passwords.js';
import type { Log } from '../../observe/log.js';
import { ask, signalChild, WorkerUnreachable } from './messages.js';

const PROGRAM = new URL('./hashing-child.js', import.meta.url);

/** Minimum time between two starts, for a process that keeps dying. */
const RESTART_MS = 1_000;
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
export function openHashing(concurrency: number, log: Log): Hasher & { readonly close: () => void } {
  let child: ChildProcess | undefined;
  let startedAt = -Infinity;
  /** Starts since the last answer. The first failure may have passed, and is no reason to wait. */
  let starts = 0;
  let closed = false;

  const start = (): ChildProcess => {
    if (closed || (starts > 1 && performance.now() - startedAt < RESTART_MS)) throw passwordsBusy();
    startedAt = performance.now();
    starts += 1;
    const started = forkHashing(concurrency);
    const onExit = (ended: End): void => {
      if (child !== started) return;
      child = undefined;
      if (!closed) log.warn(ended, 'password hashing process exited; the next login starts a new one');
    };
    started.once('exit', (code, signal) => onExit({ code, signal }));
    started.on('error', ({ code }: NodeJS.ErrnoException) => {
      signalChild(started, 'SIGKILL');
      onExit({ code: code ?? null, signal: null });
    });
    return (child = started);
  };
  /** @throws Unavailable when the process cannot be started now or dies during the task */
  const run = async (task: Task): Promise<unknown> => {
    const running = child ?? start();
    try {
      const answer = await ask(running, 'hash', task, ANSWER_TIMEOUT_MS);
      starts = 0;
      return answer;
    } catch (error) {
      if (!(error instanceof WorkerUnreachable)) throw error;
      // It may hang.
      signalChild(running, 'SIGKILL');
      throw passwordsBusy();
    }
  };
  return {
    hash: async (password, parameters) => (await run({ password, parameters })) as string,
    verify: async (phc, password) => (await run({ password, phc })) as boolean,
    close: () => {
      closed = true;
      child?.disconnect();
    },
  };
}

function forkHashing(concurrency: number): ChildProcess {
  const kept = KEPT_VARIABLES.flatMap((name) =>
    process.env[name] === undefined ? [] : [[name, process.env[name]]],
  );
  const child = fork(PROGRAM, [], {
    execArgv: [],
    env: { ...Object.fromEntries(kept), UV_THREADPOOL_SIZE: String(concurrency) },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  child.unref();
  child.channel?.unref();
  // Each password in progress listens for its answer.
  child.setMaxListeners(0);
  return child;
}
