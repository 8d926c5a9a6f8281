/**
 * Counts of all workers, including those that have ended.
 *
 * Without the ended ones, a sum would drop when a worker ends, and rate queries would take the drop
 * for a counter reset.
 */
export class WorkerCounts<Worker, Counts> {
  readonly #sum: (counts: readonly Counts[]) => Counts;
  readonly #latest = new Map<Worker, Counts>();
  #departed: Counts | undefined;

  /**
   * @param sum merges the counts of workers, and drops what ends with a worker, such as the number of
   *   its connections
   */
  constructor(sum: (counts: readonly Counts[]) => Counts) {
    this.#sum = sum;
  }

  /** Records the latest counts of a worker. */
  note(worker: Worker, counts: Counts): void {
    this.#latest.set(worker, counts);
  }

  /** Keeps the counts of a worker that ended. */
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
