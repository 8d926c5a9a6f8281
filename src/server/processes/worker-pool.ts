import cluster, { type Worker as ClusterWorker } from 'node:cluster';
import type { LoadedConfig } from '../../config/load.js';
import type { Log } from '../../observe/log.js';
import { metrics } from '../../observe/metrics.js';
import { MAX_TIMER_MS } from '../../util/time.js';
import { type Counts, onReports, type ServedUrls } from './messages.js';

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
  config: LoadedConfig | null;
  /** An `ending` worker accepts no more connections and finishes its requests in flight. */
  phase: 'starting' | 'serving' | 'ending';
  /** Whether it ends by itself, after an error or a signal from elsewhere. */
  endsItself: boolean;
  /** Resolves when it serves; rejects when it ends before that. */
  readonly served: Promise<ServedUrls>;
  readonly exited: Promise<void>;
  /** The error that ends it, as it reports. */
  failure?: Error;
}

interface PoolSettings {
  readonly count: number;
  /** Milliseconds for a worker to start alone. */
  readonly startTimeout: number;
  readonly current: () => LoadedConfig;
  readonly log: Log;
  /** Called with the last counts of a worker that ends. */
  readonly counted: (member: PooledWorker, counts: Counts) => void;
  /** Called with each worker that ended, however it ended. */
  readonly exited: (member: PooledWorker) => void;
  /** Called when workers keep dying and no more are started. */
  readonly onCrashLoop: () => void;
}

/** Keeps a number of workers running. Ending workers do not count; at most one is started for each. */
export class WorkerPool {
  readonly #settings: PoolSettings;
  readonly #members = new Set<PooledWorker>();
  #draining = false;
  #crashes = 0;

  constructor(settings: PoolSettings) {
    this.#settings = settings;
    // After a drain there are no workers. If the process exits earlier, a hanging worker must not survive.
    process.once('exit', () => {
      for (const { worker } of this.#members) worker.process.kill('SIGKILL');
    });
  }

  get serving(): PooledWorker[] {
    return Array.from(this.#members).filter(({ phase }) => phase === 'serving');
  }

  get running(): PooledWorker[] {
    return Array.from(this.#members).filter(({ phase }) => phase !== 'starting');
  }

  /** The workers that have a configuration, until they exit. They take every reload. */
  get configured(): PooledWorker[] {
    return Array.from(this.#members).filter(({ config }) => config !== null);
  }

  /** @throws Error when one ends before it serves */
  async start(): Promise<ServedUrls> {
    const { count } = this.#settings;
    // They share the processors.
    const starting = Array.from({ length: count }, async () => this.#fork(count).served);
    const [urls] = await Promise.all(starting);
    return urls as ServedUrls;
  }

  /**
   * Replaces every worker that exists now: the new one listens before the old one ends.
   * @throws Error when a new worker does not start; the rest stays as it was
   */
  async replaceAll(): Promise<void> {
    const { log } = this.#settings;
    for (const old of this.#staying()) {
      if (!this.#isStaying(old)) continue;
      await this.#startCurrent();
      if (!this.#isStaying(old)) continue;
      await this.#retire(old);
      log.info({ worker_pid: old.worker.process.pid }, 'worker replaced');
    }
    this.#refuseWhileDraining();
  }

  /** Replaces the workers that did not take the current configuration. */
  replaceStale(): void {
    const { current, log } = this.#settings;
    for (const member of this.#staying()) {
      if (member.config === null || member.config === current()) continue;
      log.warn({ worker_pid: member.worker.process.pid }, 'worker did not reload; replacing it');
      void this.#retire(member);
      this.#refill();
    }
  }

  async drain(): Promise<void> {
    this.#draining = true;
    await Promise.all(Array.from(this.#members, (member) => this.#retire(member)));
  }

  #staying(): PooledWorker[] {
    return Array.from(this.#members).filter((member) => this.#isStaying(member));
  }

  #isStaying(member: PooledWorker): boolean {
    return this.#members.has(member) && member.phase !== 'ending';
  }

  #refuseWhileDraining(): void {
    if (this.#draining) throw new Error('the server is shutting down');
  }

  /** @param together number of workers that start at once */
  #fork(together = 1): PooledWorker {
    const { startTimeout, current, log, counted } = this.#settings;
    const startedAt = performance.now();
    const worker = cluster.fork();
    let serves!: (urls: ServedUrls) => void;
    const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
    const served = new Promise<ServedUrls>((resolve, reject) => {
      serves = resolve;
      worker.once('exit', () =>
        reject(member.failure ?? new Error('a worker exited before it was ready; see the log for the cause')),
      );
    });
    const member: PooledWorker = { worker, config: null, phase: 'starting', endsItself: false, served, exited };
    this.#members.add(member);
    const limit = startTimeout * together;
    const timer = setTimeout(() => {
      log.error({ worker_pid: worker.process.pid, limit_ms: limit }, 'worker killed; not ready in time');
      worker.process.kill('SIGKILL');
    }, limit);
    served.catch(() => undefined).finally(() => clearTimeout(timer));
    onReports(worker, {
      hello: () => (member.config = current()),
      serving: (urls) => {
        if (member.phase === 'starting') member.phase = 'serving';
        this.#countServing();
        serves(urls as ServedUrls);
      },
      ending: () => this.#endsItself(member, startedAt),
      'final-counts': (counts) => counted(member, counts as Counts),
      failure: (fields) => void (member.failure = Object.assign(new Error(), fields)),
    });
    worker.once('exit', (code, signal) => this.#exited(member, startedAt, { code, signal }));
    return member;
  } // prettier-ignore

  #exited(member: PooledWorker, startedAt: number, how: { code: number; signal: string }): void {
    const { log, exited } = this.#settings;
    this.#members.delete(member);
    this.#countServing();
    exited(member);
    const died = member.phase !== 'ending' || (member.endsItself && !this.#draining);
    const { worker, failure: err } = member;
    if (died) log.error({ worker_pid: worker.process.pid, ...how, err }, 'worker died');
    if (member.phase !== 'ending') this.#replaceLater(startedAt);
    else if (!member.endsItself) this.#refill();
  }

  /** Replaces a worker that finishes its requests in flight, unless this process ends it. */
  #endsItself(member: PooledWorker, startedAt: number): void {
    if (member.phase === 'ending') return;
    member.endsItself = true;
    void this.#retire(member);
    this.#replaceLater(startedAt);
  }

  #replaceLater(startedAt: number): void {
    if (this.#isComplete()) return;
    this.#crashes = performance.now() - startedAt >= STABLE_MS ? 1 : this.#crashes + 1;
    const wait = Math.min(MAX_RESPAWN_MS, FIRST_RESPAWN_MS * 2 ** (this.#crashes - 1));
    if (this.#crashes > MAX_CRASHES) this.#settings.onCrashLoop();
    else setTimeout(() => this.#refill(), wait);
  }

  #isComplete(): boolean {
    return this.#staying().length >= this.#settings.count;
  }

  #refill(): void {
    if (!this.#draining && !this.#isComplete()) this.#fork();
  }

  /** Starts a worker, and another one if it does not take a reload meanwhile. */
  async #startCurrent(): Promise<void> {
    for (;;) {
      const member = this.#fork();
      await member.served;
      if (member.phase === 'serving') return;
      this.#refuseWhileDraining();
    }
  }

  /** Ends a worker, and kills it if it does not exit in time. */
  async #retire(member: PooledWorker): Promise<void> {
    const { current, log } = this.#settings;
    const { worker, phase, exited, endsItself } = member;
    if (phase === 'ending' || worker.isDead()) return exited;
    member.phase = 'ending';
    this.#countServing();
    if (!endsItself) worker.process.kill('SIGTERM');
    const timer = setTimeout(
      () => {
        log.error({ worker_pid: worker.process.pid }, 'worker killed; drain timeout exceeded');
        worker.process.kill('SIGKILL');
      },
      Math.min(current().config.limits.drain_timeout + KILL_AFTER_MS, MAX_TIMER_MS),
    );
    await exited;
    clearTimeout(timer);
  }

  #countServing(): void {
    metrics.servingWorkers.set(this.serving.length);
  }
}
