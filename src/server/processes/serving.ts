import type { LoadedConfig } from '../../config/load.js';
import type { LogSink } from '../../observe/log.js';
import { metrics, readMetrics, renderMetrics, renderSum, sumOfCounts } from '../../observe/metrics.js';
import type { Tracing } from '../../observe/tracing/spans.js';
import type { ShadowDifferenceCounts } from '../../pipeline/shadow.js';
import { noteDeath, ownSidecar } from '../fleet.js';
import { sumDifferences } from '../shadow.js';
import type { OpenedStore } from '../stores/open-store.js';
import { askWorker, type Command, type Counts, type ServedUrls, signalChild } from './messages.js';
import { type PooledWorker, WorkerPool } from './worker-pool.js';
import { startWorker } from './worker.js';

/** Whatever serves the public port: this process, or the workers that it supervises. */
export interface Serving extends ServedUrls {
  readonly size: () => number;
  readonly metrics: () => Promise<{ type: string; text: string }>;
  readonly casualties: () => Promise<readonly ShadowDifferenceCounts[]>;
  /**
   * Makes a configuration ready to take over. Exactly one of the two is called, once.
   * @throws WorkerUnreachable, or Error when a process cannot prepare it
   */
  readonly prepare: (next: LoadedConfig) => Promise<Record<'commit' | 'abort', () => Promise<void>>>;
  /** Stops accepting, waits for requests in flight, and flushes last-seen data. */
  readonly drain: () => Promise<void>;
}

export async function startAlone(
  loaded: LoadedConfig,
  opened: OpenedStore,
  log: LogSink['log'],
  tracing: Tracing | undefined,
): Promise<Serving> {
  const worker = await startWorker(loaded, opened, log, tracing);
  metrics.servingWorkers.set(1);
  return { ...worker, size: () => 1, metrics: renderMetrics };
}

const COUNTS_TIMEOUT_MS = 1_000;
const RELOAD_TIMEOUT_MS = 10_000;

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
    await Promise.allSettled(pool.configured.filter(({ phase }) => phase !== 'starting').map(noteOne));
    return counts.all();
  };
  const urls = await pool.start();
  return {
    ...urls,
    size: () => pool.serving.length,
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
          };
          const commitOrKill = async (member: PooledWorker) =>
            commitTo(member).catch(() => {
              // One that was ending anyway is replaced already.
              if (member.phase !== 'ending')
                sink.log.warn(
                  { worker_pid: member.worker.process.pid },
                  'worker did not reload; replacing it',
                );
              signalChild(member.worker.process, 'SIGKILL');
            });
          await Promise.all(pool.configured.map(commitOrKill));
        },
        abort: async () => void (await tellAll('abort')),
      };
    },
    drain: () => pool.drain(),
  };
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
