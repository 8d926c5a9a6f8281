import cluster, { type Worker as ClusterWorker } from 'node:cluster';
import type { LoadedConfig } from '../../config/load.js';
import { decisionAddresses } from '../../config/schema/listen.js';
import type { Log } from '../../observe/log.js';
import { readMetrics, renderSum, servingWorkers, sumOfCounts } from '../../observe/metrics.js';
import { baseUrl } from '../../listeners/server.js';
import type { ShadowDifferenceCounts } from '../../pipeline/shadow-differences.js';
import { sumDifferences } from '../shadow.js';
import { watchHeartbeats } from './heartbeats.js';
import { askWorker, sendConfig, onFinalCounts } from './messages.js';
import type { Serving } from './serving.js';
import { redistributeUnaccepted } from './unaccepted.js';
import { WorkerCounts } from './worker-counts.js';

const FIRST_RESPAWN_MS = 100;
const MAX_RESPAWN_MS = 10_000;
/** Minimum lifetime of a worker that ends a series of crashes. */
const STABLE_MS = 30_000;
/** Consecutive crashes, without a stable worker in between, after which the process exits. */
const MAX_CRASHES = 10;
/** Extra time beyond `limits.drain_timeout` before a stopping worker is killed. */
const KILL_AFTER_MS = 5_000;
const METRICS_TIMEOUT_MS = 1_000;
const REOPEN_TIMEOUT_MS = 1_000;
const RELOAD_TIMEOUT_MS = 10_000;

/**
 * Starts `count` copies of this process as workers on one port, and replaces each one that dies.
 *
 * @param died called with the process id of each worker that ended, however it ended
 * @param onCrashLoop called when workers keep dying and no more are started
 */
export async function startPool(
  loaded: LoadedConfig,
  count: number,
  log: Log,
  died: (pid: number) => void,
  onCrashLoop: () => void,
): Promise<Serving> {
  let current = loaded;
  let draining = false;
  let crashes = 0;
  const end = async (worker: ClusterWorker | undefined) =>
    endOf(worker, current.config.limits.drain_timeout, log);
  const serving = new Set<ClusterWorker>();
  /** The configuration that each worker currently runs. */
  const configOf = new Map<ClusterWorker, LoadedConfig>();
  const metrics = new WorkerCounts<ClusterWorker, unknown[]>(sumOfCounts);
  const casualties = new WorkerCounts<ClusterWorker, ShadowDifferenceCounts[]>((counts) =>
    sumDifferences(current, counts.flat()),
  );
  /**
   * Asks every worker for its counts. A worker that does not respond in time counts with its last
   * report.
   */
  const collectCounts = async <Counts>(
    ask: 'metrics' | 'casualties',
    into: WorkerCounts<ClusterWorker, Counts>,
  ) => {
    const noteOne = async (worker: ClusterWorker) =>
      into.note(worker, (await askWorker(worker, ask, METRICS_TIMEOUT_MS)) as Counts);
    await Promise.allSettled(Array.from(serving, noteOne));
    return into.all();
  };
  /** Workers that are ending and have already been replaced. */
  const leaving = new Set<ClusterWorker>();
  /**
   * Workers started before a reload that run the configuration from then, each with its successor.
   */
  const stale = new WeakMap<ClusterWorker, Promise<ClusterWorker>>();
  const replaceStale = (worker: ClusterWorker): void => {
    if (configOf.get(worker) === current || stale.has(worker)) return;
    log.info({ worker_pid: worker.process.pid }, 'worker started before the reload; replacing it');
    const successor = end(worker).then(() => {
      if (draining) throw new Error('the server is shutting down');
      return fork();
    });
    // Only a restart of the workers awaits it.
    successor.catch(() => undefined);
    stale.set(worker, successor);
  };

  // After a drain there are no workers. If the process exits earlier, a hanging worker must not
  // survive.
  process.once('exit', () => {
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGKILL');
  });

  const { http, grpc } = decisionAddresses(loaded.config.decision);
  const listeners = [loaded.config.listen, http, grpc].filter((each) => each !== null).length;
  const secure = loaded.certificate !== null;

  const fork = (): ClusterWorker => {
    const startedAt = Date.now();
    const worker = cluster.fork();
    redistributeUnaccepted(worker, () => Array.from(serving).at(-1));
    sendConfig(worker, () => {
      configOf.set(worker, current);
      return current;
    });
    whenListening(worker, { listeners, secure }, () => {
      serving.add(worker);
      servingWorkers.set(serving.size);
      replaceStale(worker);
    });
    onFinalCounts(worker, (counts) => {
      metrics.note(worker, counts.metrics);
      casualties.note(worker, counts.casualties);
    });
    worker.once('exit', (code, signal) => {
      metrics.depart(worker);
      casualties.depart(worker);
      if (worker.process.pid !== undefined) died(worker.process.pid);
      serving.delete(worker);
      configOf.delete(worker);
      servingWorkers.set(serving.size);
      if (leaving.delete(worker) || stale.has(worker) || draining) return;
      crashes = Date.now() - startedAt >= STABLE_MS ? 1 : crashes + 1;
      log.error({ worker_pid: worker.process.pid, code, signal }, 'worker died');
      if (crashes > MAX_CRASHES) onCrashLoop();
      else
        setTimeout(
          () => void (draining || fork()),
          Math.min(MAX_RESPAWN_MS, FIRST_RESPAWN_MS * 2 ** (crashes - 1)),
        );
    });
    return worker;
  };

  /**
   * Starts a worker, and waits until it or its successor listens with the current configuration.
   */
  const startCurrentWorker = async (): Promise<void> => {
    let worker = fork();
    await listening(worker, { listeners, secure });
    for (let next = stale.get(worker); next !== undefined; next = stale.get(worker)) {
      worker = await next;
      await listening(worker, { listeners, secure });
    }
  };

  const [urls = []] = await Promise.all(
    Array.from({ length: count }, () => listening(fork(), { listeners, secure })),
  );
  const [url = '', ...others] = urls;
  const decisionUrl = http === null ? null : (others.shift() ?? null);
  const [grpcUrl = null] = others;
  return {
    url,
    decisionUrl,
    grpcUrl,
    size: () => serving.size,
    hanging: watchHeartbeats(serving),
    metrics: async () => renderSum([await readMetrics(), ...(await collectCounts('metrics', metrics))]),
    casualties: async () => (await collectCounts('casualties', casualties)).flat(),
    prepare: async (next) => {
      const workers = [...serving];
      const sendAll = (ask: 'commit' | 'abort') =>
        Promise.allSettled(workers.map((worker) => askWorker(worker, ask, RELOAD_TIMEOUT_MS)));
      const prepared = await Promise.allSettled(
        workers.map((worker) => askWorker(worker, 'prepare', RELOAD_TIMEOUT_MS, next)),
      );
      const failed = prepared.find((each) => each.status === 'rejected');
      if (failed !== undefined) {
        // A worker that does not respond gets this once it continues, before any later command.
        void sendAll('abort');
        throw failed.reason as Error;
      }
      return {
        commit: async () => {
          current = next;
          const replies = await sendAll('commit');
          replies.forEach(({ status }, i) => {
            if (status === 'fulfilled') configOf.set(workers[i] as ClusterWorker, next);
          });
          serving.forEach(replaceStale);
        },
        abort: async () => void (await sendAll('abort')),
      };
    },
    reopenAudit: async () => {
      const reopened = Array.from(serving, (worker) => askWorker(worker, 'reopen', REOPEN_TIMEOUT_MS));
      await Promise.allSettled(reopened);
    },
    restart: async () => {
      const before = Array.from(serving);
      for (const old of before) {
        if (draining || !serving.has(old)) continue;
        await startCurrentWorker();
        leaving.add(old);
        serving.delete(old);
        servingWorkers.set(serving.size);
        await end(old);
        log.info({ worker_pid: old.process.pid }, 'worker replaced');
      }
    },
    drain: async () => {
      draining = true;
      const ended = Object.values(cluster.workers ?? {}).map((worker) => end(worker));
      await Promise.all(ended);
    },
  };
}

/** What each worker listens on. */
interface Listeners {
  /** Number of ports: the public one, and the decision ports after it. */
  readonly listeners: number;
  /** Whether the public port speaks TLS. */
  readonly secure: boolean;
}

/** Calls back when a worker listens on all ports, with the URLs in the order of listening. */
function whenListening(
  worker: ClusterWorker,
  { listeners, secure }: Listeners,
  listens: (urls: string[]) => void,
): void {
  const urls: string[] = [];
  worker.on('listening', ({ address, port }) => {
    // The public port is the first, and the only one with TLS.
    urls.push(baseUrl({ address: address ?? '0.0.0.0', port }, secure && urls.length === 0));
    if (urls.length === listeners) listens(urls);
  });
}

/**
 * Returns the URLs of a worker once it listens on all ports.
 *
 * @throws Error when it ends before that
 */
async function listening(worker: ClusterWorker, listeners: Listeners): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    whenListening(worker, listeners, resolve);
    worker.once('exit', () =>
      reject(new Error('a worker exited before it was ready; see the log for the cause')),
    );
  });
}

/**
 * Ends a worker, and kills it if it does not exit in time.
 *
 * @param limit milliseconds for its requests in flight
 */
async function endOf(worker: ClusterWorker | undefined, limit: number, log: Log): Promise<void> {
  if (worker === undefined || worker.isDead()) return;
  const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  worker.process.kill('SIGTERM');
  const timer = setTimeout(() => {
    log.error({ worker_pid: worker.process.pid }, 'worker killed; drain timeout exceeded');
    worker.process.kill('SIGKILL');
  }, limit + KILL_AFTER_MS);
  await exited;
  clearTimeout(timer);
}
