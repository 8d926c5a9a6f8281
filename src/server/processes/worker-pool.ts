import cluster, { type Worker as ClusterWorker } from 'node:cluster';
import type { LoadedConfig } from '../../config/load.js';
import type { Log } from '../../observe/log.js';
import { metrics } from '../../observe/metrics.js';
import { onEnding, onFailure, sendConfig } from './messages.js';
import {
  endWorker,
  killUnlessListening,
  type Listeners,
  listening,
  redistributeUnaccepted,
  whenListening,
} from './worker-lifecycle.js';

const FIRST_RESPAWN_MS = 100;
const MAX_RESPAWN_MS = 10_000;
/** Minimum lifetime of a worker that ends a series of crashes. */
const STABLE_MS = 30_000;
/** Consecutive crashes, without a stable worker in between, after which the process exits. */
const MAX_CRASHES = 10;

/** A worker process, from its fork to its exit. */
export interface PooledWorker {
  readonly worker: ClusterWorker;
  config: LoadedConfig | null;
  /** An `ending` worker accepts no more connections and finishes its requests in flight. */
  phase: 'starting' | 'serving' | 'ending';
  /** Whether it ends by itself, after an error or a signal from elsewhere. */
  endsItself: boolean;
  /** The error that ends it, as it reports. */
  failure?: Error;
  /** Resolves when an `ending` worker has exited. */
  ended?: Promise<void>;
}

interface PoolSettings {
  readonly count: number;
  readonly listeners: Listeners;
  readonly startTimeout: number;
  readonly current: () => LoadedConfig;
  readonly log: Log;
  readonly forked: (member: PooledWorker) => void;
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

  /** @throws Error when one exits before it listens */
  async start(): Promise<readonly string[]> {
    const starting = Array.from({ length: this.#settings.count }, () => this.#listening(this.#fork()));
    const [urls = []] = await Promise.all(starting);
    return urls;
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

  get #starting(): number {
    return Array.from(this.#members).filter(({ phase }) => phase === 'starting').length;
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

  #fork(): PooledWorker {
    const { listeners, startTimeout, current, log, forked } = this.#settings;
    const startedAt = performance.now();
    const worker = cluster.fork();
    const member: PooledWorker = { worker, config: null, phase: 'starting', endsItself: false };
    this.#members.add(member);
    redistributeUnaccepted(worker, () => this.serving.at(-1)?.worker);
    sendConfig(worker, () => (member.config = current()));
    whenListening(worker, listeners, () => {
      if (member.phase === 'ending') return;
      member.phase = 'serving';
      this.#countServing();
    });
    killUnlessListening(worker, listeners, startTimeout, () => this.#starting, log);
    onFailure(worker, (error) => (member.failure = error));
    onEnding(worker, () => this.#endsItself(member, startedAt));
    worker.once('exit', (code, signal) => this.#exited(member, startedAt, { code, signal }));
    forked(member);
    return member;
  }

  async #listening(member: PooledWorker): Promise<readonly string[]> {
    return listening(member.worker, this.#settings.listeners, () => member.failure);
  }

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
      await this.#listening(member);
      if (member.phase === 'serving') return;
      this.#refuseWhileDraining();
    }
  }

  async #retire(member: PooledWorker): Promise<void> {
    const { current, log } = this.#settings;
    member.phase = 'ending';
    this.#countServing();
    const { drain_timeout: limit } = current().config.limits;
    member.ended ??= endWorker(member.worker, member.endsItself, limit, log);
    return member.ended;
  }

  #countServing(): void {
    metrics.servingWorkers.set(this.serving.length);
  }
}
