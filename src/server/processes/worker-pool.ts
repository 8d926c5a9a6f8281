import cluster, { type Worker as ClusterWorker } from 'node:cluster';
import type { LoadedConfig } from '../../config/load.js';
import type { Log } from '../../observe/log.js';
import { metrics } from '../../observe/metrics.js';
import { MAX_TIMER_MS } from '../../util/time.js';
import { answer, type Counts, type Report, type ServedUrls, signalChild } from './messages.js';

const FIRST_RESPAWN_MS = 100;
const MAX_RESPAWN_MS = 10_000;
/** Minimum lifetime of a worker that ends a series of crashes. */
const STABLE_MS = 30_000;
/** Consecutive crashes, without a stable worker in between, after which the process exits. */
const MAX_CRASHES = 10;
/** Extra time beyond `limits.drain_timeout` before a stopping worker is killed. */
const KILL_AFTER_MS = 5_000;

/** A worker process, from its fork to its exit. */
export interface PooledWorker {
  readonly worker: ClusterWorker;
  readonly startedAt: number;
  isConfigured: boolean;
  /** An `ending` worker accepts no more connections and finishes its requests in flight. */
  phase: 'starting' | 'serving' | 'ending';
  /** The error that ends it, as it reports. */
  failure?: Error;
}

interface PoolSettings {
  readonly count: number;
  readonly current: () => LoadedConfig;
  readonly log: Log;
  /** Called with the last counts of a worker that ends. */
  readonly counted: (member: PooledWorker, counts: Counts) => void;
  /** Called with each worker that ended, however it ended. */
  readonly exited: (member: PooledWorker) => void;
  /** Called when workers keep dying and no more are started. */
  readonly onCrashLoop: () => void;
}

/** Keeps a number of workers running. Each one that stops accepting connections is replaced by another. */
export class WorkerPool {
  readonly #settings: PoolSettings;
  readonly #members = new Set<PooledWorker>();
  #draining = false;
  #crashes = 0;

  constructor(settings: PoolSettings) {
    this.#settings = settings;
    // After a drain there are no workers. If the process exits earlier, a hanging worker must not survive.
    process.once('exit', () => {
      for (const { worker } of this.#members) signalChild(worker.process, 'SIGKILL');
    });
  }

  get serving(): PooledWorker[] {
    return Array.from(this.#members).filter(({ phase }) => phase === 'serving');
  }

  /** The workers that have a configuration, until they exit. They take every reload. */
  get configured(): PooledWorker[] {
    return Array.from(this.#members).filter(({ isConfigured }) => isConfigured);
  }

  /** @throws Error when one ends before it serves */
  async start(): Promise<ServedUrls> {
    const starting = Array.from({ length: this.#settings.count }, async () => this.#fork());
    const [urls] = await Promise.all(starting);
    return urls as ServedUrls;
  }

  /** Ends the workers, and kills those that do not exit in time. */
  async drain(): Promise<void> {
    this.#draining = true;
    const { current, log } = this.#settings;
    const exits = Array.from(this.#members, async (member) => {
      this.#leaves(member);
      signalChild(member.worker.process, 'SIGTERM');
      return new Promise((resolve) => member.worker.once('exit', resolve));
    });
    const kill = (): void => {
      for (const { worker } of this.#members) {
        log.error({ worker_pid: worker.process.pid }, 'worker killed; drain timeout exceeded');
        signalChild(worker.process, 'SIGKILL');
      }
    };
    const { drain_timeout: timeout } = current().config.limits;
    const timer = setTimeout(kill, Math.min(timeout + KILL_AFTER_MS, MAX_TIMER_MS));
    await Promise.all(exits);
    clearTimeout(timer);
  }

  /** Starts a worker. @returns what it serves, once it does; rejects if it exits before that */
  async #fork(): Promise<ServedUrls> {
    const { current, counted } = this.#settings;
    const worker = cluster.fork();
    const member: PooledWorker = { worker, startedAt: performance.now(), isConfigured: false, phase: 'starting' };
    this.#members.add(member);
    return new Promise((serves, fails) => {
      answer<Report>(worker, {
        hello: () => {
          member.isConfigured = true;
          return current();
        },
        serving: (urls) => {
          if (member.phase === 'starting') member.phase = 'serving';
          this.#countServing();
          serves(urls as ServedUrls);
        },
        ending: () => this.#leaves(member),
        'final-counts': (counts) => counted(member, counts as Counts),
        failure: (fields) => void (member.failure = Object.assign(new Error(), fields)),
      });
      worker.once('exit', (code, signal) => {
        this.#exited(member, { code, signal });
        fails(member.failure ?? new Error('a worker exited before it was ready; see the log for the cause'));
      });
    });
  } // prettier-ignore

  #exited(member: PooledWorker, how: { code: number; signal: string }): void {
    const { log, exited } = this.#settings;
    const { worker, failure: err } = member;
    this.#members.delete(member);
    if (!this.#draining) log.error({ worker_pid: worker.process.pid, ...how, err }, 'worker died');
    exited(member);
    this.#leaves(member);
  }

  /** Called when a worker exits, or accepts no more connections: another one replaces it. */
  #leaves(member: PooledWorker): void {
    if (member.phase === 'ending') return;
    member.phase = 'ending';
    this.#countServing();
    if (this.#draining) return;
    this.#crashes = performance.now() - member.startedAt >= STABLE_MS ? 1 : this.#crashes + 1;
    const wait = Math.min(MAX_RESPAWN_MS, FIRST_RESPAWN_MS * 2 ** (this.#crashes - 1));
    if (this.#crashes > MAX_CRASHES) this.#settings.onCrashLoop();
    else setTimeout(() => this.#replace(), wait);
  }

  #replace(): void {
    // One that exits early is replaced in turn.
    if (!this.#draining) this.#fork().catch(() => undefined);
  }

  #countServing(): void {
    metrics.servingWorkers.set(this.serving.length);
  }
}
