import { sumOfCounts } from '../../observe/metrics.js';

/** Metrics of one process, as it tells them. */
export type MetricsSnapshot = unknown[];

/**
 * The metrics of workers, also of those that are gone. Without them a sum would fall when a worker ends, and whoever takes a
 * rate of it takes a fall for a restart from 0.
 */
export class WorkerMetrics<Worker> {
  readonly #latest = new Map<Worker, MetricsSnapshot>();
  #departed: MetricsSnapshot = [];

  /** Notes the latest metrics of a worker. */
  note(worker: Worker, tally: MetricsSnapshot): void {
    this.#latest.set(worker, tally);
  }

  /** A worker is gone: what it counted stays counted. */
  depart(worker: Worker): void {
    const last = this.#latest.get(worker);
    this.#latest.delete(worker);
    if (last !== undefined) this.#departed = sumOfCounts([this.#departed, last]);
  }

  /** What to sum: each worker that reported, and the counts of those that ended. */
  all(): MetricsSnapshot[] {
    return [...this.#latest.values(), this.#departed];
  }
}
