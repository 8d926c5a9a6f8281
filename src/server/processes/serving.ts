import type { Worker as ClusterWorker } from 'node:cluster';
import type { LoadedConfig } from '../../config/load.js';
import { decisionAddresses } from '../../config/schema/listen.js';
import type { Log, LogSink } from '../../observe/log.js';
import { metrics, readMetrics, renderMetrics, renderSum, sumOfCounts } from '../../observe/metrics.js';
import type { Tracing } from '../../observe/tracing.js';
import type { ShadowDifferenceCounts } from '../../pipeline/shadow-differences.js';
import { noteDeath, ownSidecar } from '../fleet/membership.js';
import { sumDifferences } from '../shadow.js';
import type { OpenedStore } from '../stores/open-store.js';
import { askWorker, onFinalCounts } from './messages.js';
import { type PooledWorker, WorkerPool } from './worker-pool.js';
import { startWorker } from './worker.js';

/** Whatever serves the public port: this process, or the workers that it supervises. */
export interface Serving {
  readonly url: string;
  /** URL of the decision port; null when it is off. */
  readonly decisionUrl: string | null;
  /** URL of the gRPC port; null when it is off. */
  readonly grpcUrl: string | null;
  readonly size: () => number;
  /** Process ids of those that have not responded to this process for ten seconds. */
  readonly hanging: () => readonly number[];
  readonly metrics: () => Promise<{ type: string; text: string }>;
  readonly casualties: () => Promise<readonly ShadowDifferenceCounts[]>;
  /** @throws WorkerUnreachable, or Error when a process cannot prepare it */
  readonly prepare: (next: LoadedConfig) => Promise<Prepared>;
  readonly reopenAudit: () => Promise<void>;
  /**
   * Replaces each serving process; the new one serves before the old one stops accepting.
   * @throws Error when a new process does not start; the rest stays as it was
   */
  readonly restart: () => Promise<void>;
  /** Stops accepting, waits for requests in flight, and flushes last-seen data. */
  readonly drain: () => Promise<void>;
}

/** A configuration that is ready to take over. Exactly one of the two is called, once. */
interface Prepared {
  readonly commit: () => Promise<void>;
  readonly abort: () => Promise<void>;
}

export type Restarted = { readonly fault: string | null };

export class Restarter {
  readonly #serving: Serving;
  readonly #log: Log;
  #running: Promise<Restarted> | null = null;

  constructor(serving: Serving, log: Log) {
    this.#serving = serving;
    this.#log = log;
  }

  /** Concurrent calls share one replacement. @param reason what requested it, for the log */
  async restart(reason: string): Promise<Restarted> {
    this.#running ??= this.#restart(reason).finally(() => (this.#running = null));
    return this.#running;
  }

  async #restart(reason: string): Promise<Restarted> {
    try {
      await this.#serving.restart();
      this.#log.info({ reason, workers: this.#serving.size() }, 'workers replaced');
      return { fault: null };
    } catch (error) {
      const fault = error instanceof Error ? error.message : String(error);
      this.#log.error({ reason, fault }, 'workers not replaced');
      return { fault };
    }
  }
}

export async function startAlone(
  loaded: LoadedConfig,
  opened: OpenedStore,
  log: LogSink['log'],
  tracing: Tracing | undefined,
): Promise<Serving> {
  const worker = await startWorker(loaded, opened, log, tracing);
  metrics.servingWorkers.set(1);
  return {
    url: worker.url,
    decisionUrl: worker.decisionUrl,
    grpcUrl: worker.grpcUrl,
    size: () => 1,
    hanging: () => [],
    metrics: renderMetrics,
    casualties: async () => worker.casualties(),
    prepare: async (next) => {
      const { commit, abort } = worker.prepare(next);
      return { commit: async () => commit(), abort };
    },
    reopenAudit: async () => undefined,
    restart: async () => {
      throw new Error('with workers: 1 there are no workers to replace; set workers: 2 or more');
    },
    drain: () => worker.drain(),
  };
}

/** @param count number of workers */
export async function startWorkers(
  loaded: LoadedConfig,
  count: number,
  { store }: OpenedStore,
  sink: LogSink,
): Promise<Serving> {
  ownSidecar();
  const died = (pid: number): void => noteDeath(store.fleet, pid);
  return startPool(loaded, count, sink.log, died, () => {
    sink.log.fatal('workers keep dying; giving up');
    void sink.flush().finally(() => process.exit(1));
  });
}

/** Says why the public port is not served by every worker; null if it is. */
export function workersFault({ size, hanging }: Serving): string | null {
  if (size() === 0) return 'no worker is serving';
  const pids = hanging();
  return pids.length === 0 ? null : `not responding: worker ${pids.join(', ')}`;
}

const METRICS_TIMEOUT_MS = 1_000;
const REOPEN_TIMEOUT_MS = 1_000;
const RELOAD_TIMEOUT_MS = 10_000;
/** For a worker that is ending. If it hangs, it delays a reload by no more than this, twice. */
const ENDING_TIMEOUT_MS = 1_000;

/** For a new worker to listen, if it starts alone; it waits for no one but the store. */
const START_TIMEOUT_MS = 60_000;

type ReloadCommand = 'prepare' | 'commit' | 'abort';

async function askMember(
  { worker, phase }: PooledWorker,
  ask: ReloadCommand,
  value?: LoadedConfig,
): Promise<void> {
  await askWorker(worker, ask, phase === 'ending' ? ENDING_TIMEOUT_MS : RELOAD_TIMEOUT_MS, value);
}

/** Starts `count` copies of this process as workers on one port, and replaces each one that dies. */
async function startPool(
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
  /** A worker that does not respond in time counts with its last report. */
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

/** Time between two questions to a worker. */
const INTERVAL_MS = 1_000;
/** Time without a reply after which a worker counts as hanging. */
const TIMEOUT_MS = 10_000;

/**
 * Asks each worker regularly whether it responds: a process that hangs does not exit.
 * @returns the process ids of the workers that have not replied for ten seconds
 */
function watchHeartbeats(workers: () => readonly ClusterWorker[]): () => readonly number[] {
  const asked = new WeakSet<ClusterWorker>();
  const silent = new WeakSet<ClusterWorker>();
  const ask = (worker: ClusterWorker): void => {
    if (asked.has(worker)) return;
    asked.add(worker);
    askWorker(worker, 'ping', TIMEOUT_MS)
      .then(
        () => silent.delete(worker),
        () => silent.add(worker),
      )
      .finally(() => asked.delete(worker));
  };
  setInterval(() => workers().forEach(ask), INTERVAL_MS).unref();
  return () =>
    workers()
      .filter((worker) => silent.has(worker))
      .map(({ process }) => process.pid ?? 0);
}

/** Counts of all workers, including those that ended: a sum that drops would look like a counter reset. */
export class WorkerCounts<Worker, Counts> {
  readonly #sum: (counts: readonly Counts[]) => Counts;
  readonly #latest = new Map<Worker, Counts>();
  #departed: Counts | undefined;

  /** @param sum merges counts, and drops what ends with a worker, such as the number of its connections */
  constructor(sum: (counts: readonly Counts[]) => Counts) {
    this.#sum = sum;
  }

  note(worker: Worker, counts: Counts): void {
    this.#latest.set(worker, counts);
  }

  depart(worker: Worker): void {
    const last = this.#latest.get(worker);
    this.#latest.delete(worker);
    if (last === undefined) return;
    this.#departed = this.#sum(this.#departed === undefined ? [last] : [this.#departed, last]);
  }

  /** Returns the counts to sum: one per reporting worker, and one for all that ended. */
  all(): Counts[] {
    return [...this.#latest.values(), ...(this.#departed === undefined ? [] : [this.#departed])];
  }
}
