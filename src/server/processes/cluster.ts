import cluster, { type Worker as ClusterWorker } from 'node:cluster';
import type { LoadedConfig } from '../../config/load.js';
import { decisionAddresses } from '../../config/schema/listen.js';
import type { Log } from '../../observe/log.js';
import { readMetrics, renderSum, servingWorkers, sumOfCounts } from '../../observe/metrics.js';
import { baseUrl } from '../../listeners/server.js';
import type { CasualtyCounts } from '../../pipeline/casualties.js';
import { sumCasualties } from '../shadow.js';
import { askWorker, sendConfig, onFinalCounts } from './messages.js';
import type { Serving } from './serving.js';
import { passOnUntaken } from './untaken.js';
import { WorkerCounts } from './worker-counts.js';

const FIRST_RESPAWN_MS = 100;
const MAX_RESPAWN_MS = 10_000;
/** A worker that lived this long ends a series of crashes. */
const STABLE_MS = 30_000;
/** So many crashes in a row without a stable worker between end the process instead of spinning. */
const MAX_CRASHES = 10;
/** A worker that is stopped has this long beyond `limits.drain_timeout`; then it is killed. */
const KILL_AFTER_MS = 5_000;
const METRICS_TIMEOUT_MS = 1_000;
const RELOAD_TIMEOUT_MS = 10_000;

/**
 * Starts `count` copies of this process as workers on one port and replaces each one that dies.
 *
 * @param died called with the process id of a worker that ended, however it did
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
  /** What each worker runs by now. */
  const runs = new Map<ClusterWorker, LoadedConfig>();
  const metrics = new WorkerCounts<ClusterWorker, unknown[]>(sumOfCounts);
  const casualties = new WorkerCounts<ClusterWorker, CasualtyCounts[]>((counts) =>
    sumCasualties(current, counts.flat()),
  );
  /** Asks every worker what it counted. One that does not answer in time counts as it did the last time. */
  const askAll = async <Counts>(ask: 'metrics' | 'casualties', into: WorkerCounts<ClusterWorker, Counts>) => {
    const noteOne = async (worker: ClusterWorker) =>
      into.note(worker, (await askWorker(worker, ask, METRICS_TIMEOUT_MS)) as Counts);
    await Promise.allSettled(Array.from(serving, noteOne));
    return into.all();
  };
  /** Workers that were told to end and have a replacement already. */
  const leaving = new Set<ClusterWorker>();
  /** Workers that began before a reload and run what was current then, each with the one that takes its place. */
  const stale = new WeakMap<ClusterWorker, Promise<ClusterWorker>>();
  const replaceStale = (worker: ClusterWorker): void => {
    if (runs.get(worker) === current || stale.has(worker)) return;
    log.info({ worker_pid: worker.process.pid }, 'worker started before the reload; replacing it');
    const successor = end(worker).then(() => {
      if (draining) throw new Error('the server is ending');
      return fork();
    });
    // Only a replacement of workers waits for it.
    successor.catch(() => undefined);
    stale.set(worker, successor);
  };

  // At the end of a drain there are none. When the process is made to end before, a worker that hangs must not go on.
  process.once('exit', () => {
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGKILL');
  });

  const { http, grpc } = decisionAddresses(loaded.config.decision);
  const listeners = [loaded.config.listen, http, grpc].filter((each) => each !== null).length;
  const secure = loaded.certificate !== null;

  const fork = (): ClusterWorker => {
    const startedAt = Date.now();
    const worker = cluster.fork();
    passOnUntaken(worker, () => Array.from(serving).at(-1));
    sendConfig(worker, () => {
      runs.set(worker, current);
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
      runs.delete(worker);
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

  /** Starts a worker and waits until it, or whoever takes its place, listens and runs what is current. */
  const newcomer = async (): Promise<void> => {
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
    metrics: async () => renderSum([await readMetrics(), ...(await askAll('metrics', metrics))]),
    casualties: async () => (await askAll('casualties', casualties)).flat(),
    prepare: async (next) => {
      const asked = [...serving];
      const tell = (ask: 'commit' | 'abort') =>
        Promise.allSettled(asked.map((worker) => askWorker(worker, ask, RELOAD_TIMEOUT_MS)));
      const prepared = await Promise.allSettled(
        asked.map((worker) => askWorker(worker, 'prepare', RELOAD_TIMEOUT_MS, next)),
      );
      const failed = prepared.find((each) => each.status === 'rejected');
      if (failed !== undefined) {
        await tell('abort');
        throw failed.reason as Error;
      }
      return {
        commit: async () => {
          current = next;
          const replies = await tell('commit');
          replies.forEach(({ status }, i) => {
            if (status === 'fulfilled') runs.set(asked[i] as ClusterWorker, next);
          });
          serving.forEach(replaceStale);
        },
        abort: async () => void (await tell('abort')),
      };
    },
    restart: async () => {
      const before = Array.from(serving);
      for (const old of before) {
        if (draining || !serving.has(old)) continue;
        await newcomer();
        leaving.add(old);
        serving.delete(old);
        servingWorkers.set(serving.size);
        await end(old);
        log.info({ worker_pid: old.process.pid }, 'worker replaced');
      }
    },
    drain: async () => {
      draining = true;
      const gone = Object.values(cluster.workers ?? {}).map((worker) => end(worker));
      await Promise.all(gone);
    },
  };
}

/** What each worker listens on. */
interface Listeners {
  /** How many ports: the public one, and the decision ports behind it. */
  readonly listeners: number;
  /** Whether the public port speaks TLS. */
  readonly secure: boolean;
}

/** Calls back when a worker listens everywhere, with the URLs in the order in which it began to. */
function whenListening(
  worker: ClusterWorker,
  { listeners, secure }: Listeners,
  listens: (urls: string[]) => void,
): void {
  const urls: string[] = [];
  worker.on('listening', ({ address, port }) => {
    // The public port is the first, and the only one that speaks TLS.
    urls.push(baseUrl({ address: address ?? '0.0.0.0', port }, secure && urls.length === 0));
    if (urls.length === listeners) listens(urls);
  });
}

/** The URLs of a worker, when it listens everywhere. @throws Error when it ends before */
async function listening(worker: ClusterWorker, listeners: Listeners): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    whenListening(worker, listeners, resolve);
    worker.once('exit', () =>
      reject(new Error('a worker ended before it listened; its reason is in the log')),
    );
  });
}

/** Tells a worker to end, and kills one that does not. @param limit milliseconds for what it has in flight */
async function endOf(worker: ClusterWorker | undefined, limit: number, log: Log): Promise<void> {
  if (worker === undefined || worker.isDead()) return;
  const gone = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  worker.process.kill('SIGTERM');
  const timer = setTimeout(() => {
    log.error({ worker_pid: worker.process.pid }, 'worker killed; drain timeout exceeded');
    worker.process.kill('SIGKILL');
  }, limit + KILL_AFTER_MS);
  await gone;
  clearTimeout(timer);
}
