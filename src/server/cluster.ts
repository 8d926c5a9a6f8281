import cluster, { type Worker as ClusterWorker } from 'node:cluster';
import type { Log } from '../observe/log.js';
import { readMetrics, setWorkers } from '../observe/metrics.js';
import { baseUrl } from './listener.js';

const FIRST_RESPAWN_MS = 100;
const MAX_RESPAWN_MS = 10_000;
/** A worker that lived this long ends a series of crashes. */
const STABLE_MS = 30_000;
/** So many crashes in a row without a stable worker between end the process instead of spinning. */
const MAX_CRASHES = 10;

/** Several worker processes on one port. */
export interface Pool {
  readonly url: string;
  /** Number of workers that serve now. */
  readonly size: () => number;
  /** Metrics of this process and of each worker that serves; one that does not answer in time is left out. */
  readonly metrics: () => Promise<unknown[][]>;
  /** Tells every worker to drain and waits until all are gone. */
  drain(): Promise<void>;
}

/**
 * Starts `count` copies of this process as workers and replaces each one that dies.
 *
 * @param onCrashLoop called when workers keep dying and no more are started
 */
export async function startPool(count: number, log: Log, onCrashLoop: () => void): Promise<Pool> {
  let draining = false;
  let crashes = 0;
  const serving = new Set<ClusterWorker>();

  const fork = (): ClusterWorker => {
    const startedAt = Date.now();
    const worker = cluster.fork();
    worker.on('listening', () => {
      serving.add(worker);
      setWorkers(serving.size);
    });
    worker.once('exit', (code, signal) => {
      serving.delete(worker);
      setWorkers(serving.size);
      if (draining) return;
      crashes = Date.now() - startedAt >= STABLE_MS ? 1 : crashes + 1;
      log.error({ worker_pid: worker.process.pid, code, signal }, 'a worker died');
      if (crashes > MAX_CRASHES) onCrashLoop();
      else
        setTimeout(
          () => void (draining || fork()),
          Math.min(MAX_RESPAWN_MS, FIRST_RESPAWN_MS * 2 ** (crashes - 1)),
        );
    });
    return worker;
  };

  const url = await firstUrl(Array.from({ length: count }, fork));
  return {
    url,
    size: () => serving.size,
    metrics: async () => {
      const asked = await Promise.all([...serving].map(askForMetrics));
      return [await readMetrics(), ...asked.filter((answer) => answer !== undefined)];
    },
    drain: async () => {
      draining = true;
      const gone = Object.values(cluster.workers ?? {}).map((worker) => endOf(worker));
      await Promise.all(gone);
    },
  };
}

/** Resolves when every worker listens. */
async function firstUrl(workers: readonly ClusterWorker[]): Promise<string> {
  const urls = workers.map(
    (worker) =>
      new Promise<string>((resolve, reject) => {
        worker.once('listening', ({ address, port }) =>
          resolve(baseUrl({ address: address ?? '0.0.0.0', port })),
        );
        worker.once('exit', () =>
          reject(new Error('a worker ended before it listened; its reason is in the log')),
        );
      }),
  );
  return (await Promise.all(urls))[0] ?? '';
}

async function endOf(worker: ClusterWorker | undefined): Promise<void> {
  if (worker === undefined || worker.isDead()) return;
  const gone = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  worker.process.kill('SIGTERM');
  await gone;
}

const ASK = 'latchkey:metrics';
const ASK_TIMEOUT_MS = 1_000;

/** Lets a worker answer its primary's question for metrics. */
export function answerMetrics(): void {
  process.on('message', (message) => {
    if (message === ASK) void readMetrics().then((metrics) => process.send?.({ [ASK]: metrics }));
  });
}

async function askForMetrics(worker: ClusterWorker): Promise<unknown[] | undefined> {
  return new Promise((resolve) => {
    const finish = (answer: unknown[] | undefined) => {
      clearTimeout(timer);
      worker.off('message', onMessage);
      resolve(answer);
    };
    const onMessage = (message: unknown) => {
      const answer = (message as Record<string, unknown[] | undefined> | null)?.[ASK];
      if (answer !== undefined) finish(answer);
    };
    const timer = setTimeout(() => finish(undefined), ASK_TIMEOUT_MS);
    worker.on('message', onMessage);
    if (worker.isConnected()) worker.send(ASK);
    else finish(undefined);
  });
}
