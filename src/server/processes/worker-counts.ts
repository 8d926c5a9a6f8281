/**
 * What workers counted, also those that are gone. Without them a sum would fall when a worker ends, and whoever takes a
 * rate of it takes a fall for a restart from 0.
 */
export class WorkerCounts<Worker, Counts> {
  readonly #sum: (counts: readonly Counts[]) => Counts;
  readonly #latest = new Map<Worker, Counts>();
  #departed: Counts | undefined;

  /** @param sum makes one of several */
  constructor(sum: (counts: readonly Counts[]) => Counts) {
    this.#sum = sum;
  }

  /** Notes what a worker counted until now. */
  note(worker: Worker, counts: Counts): void {
    this.#latest.set(worker, counts);
  }

  /** A worker is gone: what it counted stays counted. */
  depart(worker: Worker): void {
    const last = this.#latest.get(worker);
    this.#latest.delete(worker);
    if (last === undefined) return;
    this.#departed = this.#departed === undefined ? last : this.#sum([this.#departed, last]);
  }

  /** What to sum: each worker that reported, and the counts of those that ended. */
  all(): Counts[] {
    return [...this.#latest.values(), ...(this.#departed === undefined ? [] : [this.#departed])];
  }
}
