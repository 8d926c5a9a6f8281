import type { LoadedConfig } from '../../config/load.js';
import { decisionAddresses } from '../../config/schema/listen.js';
import type { Log } from '../../observe/log.js';
import { readMetrics, renderSum, sumOfCounts } from '../../observe/metrics.js';
import type { ShadowDifferenceCounts } from '../../pipeline/shadow-differences.js';
import { sumDifferences } from '../shadow.js';
import { watchHeartbeats } from './heartbeats.js';
import { askWorker, onFinalCounts } from './messages.js';
import type { Serving } from './serving.js';
import { WorkerCounts } from './worker-counts.js';
import { type PooledWorker, WorkerPool } from './worker-pool.js';

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
  const metrics = new WorkerCounts<PooledWorker['worker'], unknown[]>(sumOfCounts);
  const casualties = new WorkerCounts<PooledWorker['worker'], ShadowDifferenceCounts[]>((counts) =>
    sumDifferences(current, counts.flat()),
  );
  const { http, grpc } = decisionAddresses(loaded.config.decision);
  const pool = new WorkerPool({
    count,
    listeners: {
      ports: [loaded.config.listen, http, grpc].filter((each) => each !== null).length,
      secure: loaded.certificate !== null,
    },
    current: () => current,
    log,
    forked: (worker) =>
      onFinalCounts(worker, (counts) => {
        metrics.note(worker, counts.metrics);
        casualties.note(worker, counts.casualties);
      }),
    exited: (worker) => {
      metrics.depart(worker);
      casualties.depart(worker);
      if (worker.process.pid !== undefined) died(worker.process.pid);
    },
    onCrashLoop,
  });
  /**
   * Asks every worker for its counts. A worker that does not respond in time counts with its last
   * report.
   */
  const collectCounts = async <Counts>(
    ask: 'metrics' | 'casualties',
    into: WorkerCounts<PooledWorker['worker'], Counts>,
  ) => {
    const noteOne = async ({ worker }: PooledWorker) =>
      into.note(worker, (await askWorker(worker, ask, METRICS_TIMEOUT_MS)) as Counts);
    await Promise.allSettled(pool.running.map(noteOne));
    return into.all();
  };

  const [url = '', ...others] = await pool.start();
  const decisionUrl = http === null ? null : (others.shift() ?? null);
  const [grpcUrl = null] = others;
  return {
    url,
    decisionUrl,
    grpcUrl,
    size: () => pool.serving.length,
    hanging: watchHeartbeats(() => pool.serving.map(({ worker }) => worker)),
    metrics: async () => renderSum([await readMetrics(), ...(await collectCounts('metrics', metrics))]),
    casualties: async () => (await collectCounts('casualties', casualties)).flat(),
    prepare: async (next) => {
      const members = pool.running;
      const sendAll = async (ask: 'prepare' | 'commit' | 'abort', value?: LoadedConfig) =>
        Promise.allSettled(members.map(({ worker }) => askWorker(worker, ask, RELOAD_TIMEOUT_MS, value)));
      const prepared = await sendAll('prepare', next);
      // A worker that is ending takes the configuration for its last requests, if it still can.
      const failed = prepared.find((each, i) => each.status === 'rejected' && members[i]?.phase !== 'ending');
      if (failed?.status === 'rejected') {
        // A worker that does not respond gets this once it continues, before any later command.
        void sendAll('abort');
        throw failed.reason as Error;
      }
      return {
        commit: async () => {
          current = next;
          const replies = await sendAll('commit');
          members.forEach((member, i) => {
            if (replies[i]?.status === 'fulfilled') member.config = next;
          });
          pool.replaceStale();
        },
        abort: async () => void (await sendAll('abort')),
      };
    },
    reopenAudit: async () => {
      await Promise.allSettled(
        pool.running.map(({ worker }) => askWorker(worker, 'reopen', REOPEN_TIMEOUT_MS)),
      );
    },
    restart: () => pool.replaceAll(),
    drain: () => pool.drain(),
  };
}
