import type { Worker as ClusterWorker } from 'node:cluster';
import { MAX_TIMER_MS } from '../../util/time.js';
import { baseUrl } from '../../listeners/server.js';
import type { Log } from '../../observe/log.js';

/** Extra time beyond `limits.drain_timeout` before a stopping worker is killed. */
const KILL_AFTER_MS = 5_000;

export interface Listeners {
  readonly ports: number;
  readonly secure: boolean;
}

/** Calls back when a worker listens on all ports, with the URLs in the order of listening. */
export function whenListening(
  worker: ClusterWorker,
  { ports, secure }: Listeners,
  listens: (urls: string[]) => void,
): void {
  const urls: string[] = [];
  worker.on('listening', ({ address, port }) => {
    urls.push(baseUrl({ address: address ?? '0.0.0.0', port }, secure && urls.length === 0));
    if (urls.length === ports) listens(urls);
  });
}

/**
 * Returns the URLs of a worker once it listens on all ports.
 * @throws Error when it ends before that: the reported one, if there is one
 */
export async function listening(
  worker: ClusterWorker,
  listeners: Listeners,
  failure: () => Error | undefined,
): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    whenListening(worker, listeners, resolve);
    worker.once('exit', () =>
      reject(failure() ?? new Error('a worker exited before it was ready; see the log for the cause')),
    );
  });
}

/**
 * Kills a worker that hangs while it starts: a replacement of the workers would wait for it.
 * @param limit milliseconds for each worker that starts: they share the processors
 */
export function killUnlessListening(
  worker: ClusterWorker,
  listeners: Listeners,
  limit: number,
  starting: () => number,
  log: Log,
): void {
  let passed = 0;
  const timer = setInterval(() => {
    passed += limit;
    if (passed < limit * starting()) return;
    log.error({ worker_pid: worker.process.pid, limit_ms: passed }, 'worker killed; not ready in time');
    worker.process.kill('SIGKILL');
  }, limit);
  const clear = (): void => clearInterval(timer);
  whenListening(worker, listeners, clear);
  worker.once('exit', clear);
}

/**
 * Ends a worker, and kills it if it does not exit in time.
 * @param endsItself whether it ends without a signal
 */
export async function endWorker(
  worker: ClusterWorker,
  endsItself: boolean,
  limit: number,
  log: Log,
): Promise<void> {
  if (worker.isDead()) return;
  const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  if (!endsItself) worker.process.kill('SIGTERM');
  const timer = setTimeout(
    () => {
      log.error({ worker_pid: worker.process.pid }, 'worker killed; drain timeout exceeded');
      worker.process.kill('SIGKILL');
    },
    Math.min(limit + KILL_AFTER_MS, MAX_TIMER_MS),
  );
  await exited;
  clearTimeout(timer);
}
