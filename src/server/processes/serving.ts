import type { Worker as ClusterWorker } from 'node:cluster';
import type { LoadedConfig } from '../../config/load.js';
import type { Log, LogSink } from '../../observe/log.js';
import { metrics, readMetrics, renderMetrics, renderSum, sumOfCounts } from '../../observe/metrics.js';
import type { Tracing } from '../../observe/tracing.js';
import type { ShadowDifferenceCounts } from '../../pipeline/shadow.js';
import { noteDeath, ownSidecar } from '../fleet.js';
import { sumDifferences } from '../shadow.js';
import type { OpenedStore } from '../stores/open-store.js';
import { askWorker, type Command, type Counts, type ServedUrls } from './messages.js';
import { type PooledWorker, WorkerPool } from './worker-pool.js';
import { startWorker } from './worker.js';

/** Whatever serves the public port: this process, or the workers that it supervises. */
export interface Serving extends ServedUrls {
  readonly size: () => number;
  /** Process ids of those that have not responded to this process for ten seconds. */
  readonly hanging: () => readonly number[];
  readonly metrics: () => Promise<{ type: string; text: string }>;
  readonly casualties: () => Promise<readonly ShadowDifferenceCounts[]>;
  /**
   * Makes a configuration ready to take over. Exactly one of the two is called, once.
   * @throws WorkerUnreachable, or Error when a process cannot prepare it
   */
  readonly prepare: (next: LoadedConfig) => Promise<Record<'commit' | 'abort', () => Promise<void>>>;
  readonly reopenAudit: () => Promise<void>;
  /**
   * Replaces each serving process; the new one serves before the old one stops accepting.
   * @throws Error when a new process does not start; the rest stays as it was
   */
  readonly restart: () => Promise<void>;
  /** Stops accepting, waits for requests in flight, and flushes last-seen data. */
  readonly drain: () => Promise<void>;
}

export type Restarted = { readonly fault: string | null };

/**
 * Concurrent calls of the returned function share one replacement of the workers. Its argument says what
 * requested it, for the log.
 */
export function createRestart(serving: Serving, log: Log): (reason: string) => Promise<Restarted> {
  let running: Promise<Restarted> | null = null;
  const restart = async (reason: string): Promise<Restarted> => {
    try {
      await serving.restart();
      log.info({ reason, workers: serving.size() }, 'workers replaced');
      return { fault: null };
    } catch (error) {
      const fault = error instanceof Error ? error.message : String(error);
      log.error({ reason, fault }, 'workers not replaced');
      return { fault };
    }
  };
  return async (reason) => (running ??= restart(reason).finally(() => (running = null)));
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

/** Says why the public port is not served by every worker; null if it is. */
export function workersFault({ size, hanging }: Serving): string | null {
  if (size() === 0) return 'no worker is serving';
  const pids = hanging();
  return pids.length === 0 ? null : `not responding: worker ${pids.join(', ')}`;
}

const COUNTS_TIMEOUT_MS = 1_000;
const REOPEN_TIMEOUT_MS = 1_000;
const RELOAD_TIMEOUT_MS = 10_000;
/** For a new worker to serve; it waits for no one but the store. */
const START_TIMEOUT_MS = 60_000;

async function tell({ worker }: PooledWorker, command: Command, value?: LoadedConfig): Promise<unknown> {
  return askWorker(worker, command, RELOAD_TIMEOUT_MS, value);
}

/** Starts `count` copies of this process as workers on one port, and replaces each one that dies. */
export async function startWorkers(
  loaded: LoadedConfig,
  count: number,
  { store }: OpenedStore,
  sink: LogSink,
): Promise<Serving> {
  ownSidecar();
  let current = loaded;
  const counts = new WorkerCounts<PooledWorker>();
  const pool = new WorkerPool({
    count,
    startTimeout: START_TIMEOUT_MS,
    current: () => current,
    log: sink.log,
    counted: (member, last) => counts.note(member, last),
    exited: (member) => {
      counts.depart(member, current);
      const { pid } = member.worker.process;
      if (pid !== undefined) noteDeath(store.fleet, pid);
    },
    onCrashLoop: () => {
      sink.log.fatal('workers keep dying; giving up');
      void sink.flush().finally(() => process.exit(1));
    },
  });
  /** A worker that does not respond in time counts with its last report. */
  const collectCounts = async () => {
    const noteOne = async (member: PooledWorker) =>
      counts.note(member, (await askWorker(member.worker, 'counts', COUNTS_TIMEOUT_MS)) as Counts);
    await Promise.allSettled(pool.running.map(noteOne));
    return counts.all();
  };
  const urls = await pool.start();
  return {
    ...urls,
    size: () => pool.serving.length,
    hanging: watchHeartbeats(() => pool.serving.map(({ worker }) => worker)),
    metrics: async () =>
      renderSum([await readMetrics(), ...(await collectCounts()).map(({ metrics }) => metrics)]),
    casualties: async () => (await collectCounts()).flatMap(({ casualties }) => casualties),
    prepare: async (next) => {
      const members = pool.configured;
      const tellAll = async (command: Command, value?: LoadedConfig) =>
        Promise.allSettled(members.map(async (member) => tell(member, command, value)));
      const prepared = await tellAll('prepare', next);
      // One that is starting or ending is told too, but is no reason to keep the configuration.
      const failed = prepared.find(
        (each, i) => each.status === 'rejected' && members[i]?.phase === 'serving',
      );
      if (failed?.status === 'rejected') {
        // A worker that does not respond gets this once it continues, before any later command.
        void tellAll('abort');
        throw failed.reason as Error;
      }
      return {
        commit: async () => {
          current = next;
          const commitTo = async (member: PooledWorker) => {
            // It got the previous configuration since the others prepared the next one.
            if (!members.includes(member)) await tell(member, 'prepare', next);
            await tell(member, 'commit');
            member.config = next;
          };
          await Promise.allSettled(pool.configured.map(commitTo));
          pool.replaceStale();
        },
        abort: async () => void (await tellAll('abort')),
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
export class WorkerCounts<Worker> {
  readonly #latest = new Map<Worker, Counts>();
  #departed: Counts = { metrics: [], casualties: [] };

  note(worker: Worker, counts: Counts): void {
    this.#latest.set(worker, counts);
  }

  /** Keeps what an ended worker counted, but not what it held, such as the number of its connections. */
  depart(worker: Worker, loaded: LoadedConfig): void {
    const last = this.#latest.get(worker);
    if (last === undefined) return;
    this.#latest.delete(worker);
    const { metrics, casualties } = this.#departed;
    this.#departed = {
      metrics: sumOfCounts([metrics, last.metrics]),
      casualties: sumDifferences(loaded, [...casualties, ...last.casualties]),
    };
  }

  all(): Counts[] {
    return [...this.#latest.values(), this.#departed];
  }
}
