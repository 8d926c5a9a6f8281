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
/** For a worker that is ending. If it hangs, it delays a reload by no more than this, twice. */
const ENDING_TIMEOUT_MS = 1_000;

/**
 * For a new worker to listen, if it starts alone. It waits for no one but the store: for its write
 * lock, or for two or three answers of a Redis.
 */
const START_TIMEOUT_MS = 60_000;

type ReloadCommand = 'prepare' | 'commit' | 'abort';

/** Sends a command of a reload to a worker. */
async function askMember(
  { worker, phase }: PooledWorker,
  ask: ReloadCommand,
  value?: LoadedConfig,
): Promise<void> {
  await askWorker(worker, ask, phase === 'ending' ? ENDING_TIMEOUT_MS : RELOAD_TIMEOUT_MS, value);
}

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
  const metrics = new WorkerCounts<PooledWorker, unknown[]>(sumOfCounts);
  const casualties = new WorkerCounts<PooledWorker, ShadowDifferenceCounts[]>((counts) =>
    sumDifferences(current, counts.flat()),
  );
  const { http, grpc } = decisionAddresses(loaded.config.decision);
  const pool = new WorkerPool({
    count,
    listeners: {
      ports: [loaded.config.listen, http, grpc].filter((each) => each !== null).length,
      secure: loaded.certificate !== null,
    },
    startTimeout: START_TIMEOUT_MS,
    current: () => current,
    log,
    forked: (member) =>
      onFinalCounts(member.worker, (counts) => {
        metrics.note(member, counts.metrics);
        casualties.note(member, counts.casualties);
      }),
    exited: (member) => {
      metrics.depart(member);
      casualties.depart(member);
      const { pid } = member.worker.process;
      if (pid !== undefined) died(pid);
    },
    onCrashLoop,
  });
  /**
   * Asks every worker for its counts. A worker that does not respond in time counts with its last
   * report.
   */
  const collectCounts = async <Counts>(
    ask: 'metrics' | 'casualties',
    into: WorkerCounts<PooledWorker, Counts>,
  ) => {
    const noteOne = async (member: PooledWorker) =>
      into.note(member, (await askWorker(member.worker, ask, METRICS_TIMEOUT_MS)) as Counts);
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
      const members = pool.configured;
      const sendAll = async (ask: ReloadCommand, value?: LoadedConfig) =>
        Promise.allSettled(members.map((member) => askMember(member, ask, value)));
      const prepared = await sendAll('prepare', next);
      // One that is starting or ending is asked too, but is no reason to keep the configuration.
      const failed = prepared.find(
        (each, i) => each.status === 'rejected' && members[i]?.phase === 'serving',
      );
      if (failed?.status === 'rejected') {
        // A worker that does not respond gets this once it continues, before any later command.
        void sendAll('abort');
        throw failed.reason as Error;
      }
      return {
        commit: async () => {
          current = next;
          const commitTo = async (member: PooledWorker) => {
            // It got the previous configuration since the others prepared the next one.
            if (!members.includes(member)) await askMember(member, 'prepare', next);
            await askMember(member, 'commit');
            member.config = next;
          };
          await Promise.allSettled(pool.configured.map(commitTo));
          pool.replaceStale();
        },
        abort: async () => void (await sendAll('abort')),
      };
    },
    reopenAudit: async () => {
      const reopened = pool.configured.map(({ worker }) => askWorker(worker, 'reopen', REOPEN_TIMEOUT_MS));
      await Promise.allSettled(reopened);
    },
    restart: () => pool.replaceAll(),
    drain: () => pool.drain(),
  };
}
