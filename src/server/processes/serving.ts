import type { ChildProcess } from 'node:child_process';
import cluster from 'node:cluster';
import type { LoadedConfig } from '../../config/load.js';
import type { LogSink } from '../../observe/log.js';
import { metrics, readMetrics, renderMetrics, renderSum, sumOfCounts } from '../../observe/metrics.js';
import type { ShadowDifferenceCounts } from '../../pipeline/shadow.js';
import type { FleetStore } from '../../store/core/fleet.js';
import { MAX_TIMER_MS } from '../../util/time.js';
import { noteDeath, ownSidecar } from '../fleet.js';
import { sumDifferences } from '../shadow.js';
import {
  answer,
  askWorker,
  type Command,
  type Counts,
  type Report,
  type ServedUrls,
  signalChild,
} from './messages.js';
import type { ServerParts } from './process.js';
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

export async function startAlone(loaded: LoadedConfig, parts: ServerParts): Promise<Serving> {
  const worker = await startWorker(loaded, parts);
  metrics.servingWorkers.set(1);
  return { ...worker, size: () => 1, metrics: renderMetrics };
}

/** Starts `count` copies of this process as workers on one port. */
export async function startWorkers(
  loaded: LoadedConfig,
  count: number,
  { opened, sink }: ServerParts,
): Promise<Serving> {
  ownSidecar();
  const workers = new Workers(loaded, opened.store.fleet, sink);
  const urls = await workers.start(count);
  return {
    ...urls,
    size: () => workers.serving.length,
    metrics: async () => {
      const counts = await workers.counts();
      return renderSum([await readMetrics(), ...counts.map(({ metrics }) => metrics)]);
    },
    casualties: async () => (await workers.counts()).flatMap(({ casualties }) => casualties),
    prepare: async (next) => workers.prepare(next),
    drain: async () => workers.drain(),
  };
}

const COUNTS_TIMEOUT_MS = 1_000;
const RELOAD_TIMEOUT_MS = 10_000;
const FIRST_RESPAWN_MS = 100;
const MAX_RESPAWN_MS = 10_000;
/** Minimum lifetime of a worker that ends a series of crashes. */
const STABLE_MS = 30_000;
/** Consecutive crashes, without a stable worker in between, after which the process exits. */
const MAX_CRASHES = 10;
/** Extra time beyond `limits.drain_timeout` before a stopping worker is killed. */
const KILL_AFTER_MS = 5_000;

/** A worker process, from its fork to its exit. */
interface Member {
  readonly worker: ChildProcess;
  readonly startedAt: number;
  isConfigured: boolean;
  /** An `ending` worker accepts no more connections and finishes its requests in flight. */
  phase: 'starting' | 'serving' | 'ending';
  /** What it counted, as last reported. */
  counts?: Counts;
  /** The error that ends it, as it reports. */
  failure?: Error;
}

/** Keeps a number of workers running. Each one that stops accepting connections is replaced by another. */
class Workers {
  readonly #fleet: FleetStore;
  readonly #sink: LogSink;
  readonly #members = new Set<Member>();
  #current: LoadedConfig;
  #ended: Counts = { metrics: [], casualties: [] };
  #draining = false;
  #crashes = 0;

  constructor(loaded: LoadedConfig, fleet: FleetStore, sink: LogSink) {
    this.#current = loaded;
    this.#fleet = fleet;
    this.#sink = sink;
    // After a drain there are no workers. If the process exits earlier, a hanging worker must not survive.
    process.once('exit', () => {
      for (const { worker } of this.#members) signalChild(worker, 'SIGKILL');
    });
  }

  get serving(): Member[] {
    return Array.from(this.#members).filter(({ phase }) => phase === 'serving');
  }

  /** The workers that have a configuration, until they exit. They take every reload. */
  get #configured(): Member[] {
    return Array.from(this.#members).filter(({ isConfigured }) => isConfigured);
  }

  /** @throws Error when one ends before it serves */
  async start(count: number): Promise<ServedUrls> {
    const starting = Array.from({ length: count }, async () => this.#fork());
    const [urls] = await Promise.all(starting);
    return urls as ServedUrls;
  }

  /** What all workers counted. One that does not respond in time counts with its last report. */
  async counts(): Promise<Counts[]> {
    const asked = this.#configured.filter(({ phase }) => phase !== 'starting');
    const noted = asked.map(async (member) => {
      member.counts = (await askWorker(member.worker, 'counts', COUNTS_TIMEOUT_MS)) as Counts;
    });
    await Promise.allSettled(noted);
    return [...Array.from(this.#members).flatMap(({ counts }) => counts ?? []), this.#ended];
  }

  async prepare(next: LoadedConfig): ReturnType<Serving['prepare']> {
    const members = this.#configured;
    const tellAll = async (command: Command, value?: LoadedConfig) =>
      Promise.allSettled(members.map(async (member) => tell(member, command, value)));
    const prepared = await tellAll('prepare', next);
    // One that is starting or ending is told too, but is no reason to keep the configuration.
    const failed = prepared.find((each, i) => each.status === 'rejected' && members[i]?.phase === 'serving');
    if (failed?.status === 'rejected') {
      // A worker that does not respond gets this once it continues, before any later command.
      void tellAll('abort');
      throw failed.reason as Error;
    }
    return {
      commit: async () => {
        this.#current = next;
        const commitTo = async (member: Member) => {
          // It got the previous configuration since the others prepared the next one.
          if (!members.includes(member)) await tell(member, 'prepare', next);
          await tell(member, 'commit');
        };
        const commitOrKill = async (member: Member) =>
          commitTo(member).catch(() => this.#killUncommitted(member));
        await Promise.all(this.#configured.map(commitOrKill));
      },
      abort: async () => void (await tellAll('abort')),
    };
  }

  #killUncommitted({ worker, phase }: Member): void {
    // One that was ending anyway is replaced already.
    if (phase !== 'ending')
      this.#sink.log.warn({ worker_pid: worker.pid }, 'worker did not reload; replacing it');
    signalChild(worker, 'SIGKILL');
  }

  /** Ends the workers, and kills those that do not exit in time. */
  async drain(): Promise<void> {
    this.#draining = true;
    const exits = Array.from(this.#members, async (member) => {
      this.#leaves(member);
      signalChild(member.worker, 'SIGTERM');
      return new Promise((resolve) => member.worker.once('exit', resolve));
    });
    const kill = (): void => {
      for (const { worker } of this.#members) {
        this.#sink.log.error({ worker_pid: worker.pid }, 'worker killed; drain timeout exceeded');
        signalChild(worker, 'SIGKILL');
      }
    };
    const { drain_timeout: timeout } = this.#current.config.limits;
    const timer = setTimeout(kill, Math.min(timeout + KILL_AFTER_MS, MAX_TIMER_MS));
    await Promise.all(exits);
    clearTimeout(timer);
  }

  /** Starts a worker. @returns what it serves, once it does; rejects if it exits before that */
  async #fork(): Promise<ServedUrls> {
    const worker = cluster.fork().process;
    const startedAt = performance.now();
    const member: Member = { worker, startedAt, isConfigured: false, phase: 'starting' };
    this.#members.add(member);
    return new Promise((serves, fails) => {
      answer<Report>(worker, {
        hello: () => {
          member.isConfigured = true;
          return this.#current;
        },
        serving: (urls) => {
          if (member.phase === 'starting') member.phase = 'serving';
          this.#countServing();
          serves(urls as ServedUrls);
        },
        ending: () => this.#leaves(member),
        'final-counts': (counts) => void (member.counts = counts as Counts),
        failure: (fields) => void (member.failure = Object.assign(new Error(), fields)),
      });
      worker.once('exit', (code, signal) => {
        this.#exited(member, { code, signal });
        fails(member.failure ?? new Error('a worker exited before it was ready; see the log for the cause'));
      });
    });
  }

  #exited(member: Member, how: { code: number | null; signal: string | null }): void {
    const { failure: err, counts } = member;
    const { pid } = member.worker;
    this.#members.delete(member);
    if (!this.#draining) this.#sink.log.error({ worker_pid: pid, ...how, err }, 'worker died');
    if (counts !== undefined) this.#ended = sumOfEnded([this.#ended, counts], this.#current);
    if (pid !== undefined) noteDeath(this.#fleet, pid);
    this.#leaves(member);
  }

  /** Called when a worker exits, or accepts no more connections: another one replaces it. */
  #leaves(member: Member): void {
    if (member.phase === 'ending') return;
    member.phase = 'ending';
    this.#countServing();
    if (this.#draining) return;
    this.#crashes = performance.now() - member.startedAt >= STABLE_MS ? 1 : this.#crashes + 1;
    const wait = Math.min(MAX_RESPAWN_MS, FIRST_RESPAWN_MS * 2 ** (this.#crashes - 1));
    if (this.#crashes <= MAX_CRASHES) {
      setTimeout(() => this.#replace(), wait);
      return;
    }
    this.#sink.log.fatal('workers keep dying; giving up');
    void this.#sink.flush().finally(() => process.exit(1));
  }

  #replace(): void {
    // One that exits early is replaced in turn.
    if (!this.#draining) this.#fork().catch(() => undefined);
  }

  #countServing(): void {
    metrics.servingWorkers.set(this.serving.length);
  }
}

async function tell({ worker }: Member, command: Command, value?: LoadedConfig): Promise<unknown> {
  return askWorker(worker, command, RELOAD_TIMEOUT_MS, value);
}

/**
 * Sums what ended workers counted, but not what they held, such as the number of their connections. A sum
 * without them would drop, which looks like a reset of the counters.
 */
export function sumOfEnded(counts: readonly Counts[], loaded: LoadedConfig): Counts {
  return {
    metrics: sumOfCounts(counts.map(({ metrics }) => metrics)),
    casualties: sumDifferences(
      loaded,
      counts.flatMap(({ casualties }) => casualties),
    ),
  };
}
