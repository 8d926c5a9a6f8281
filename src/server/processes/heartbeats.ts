import type { Worker as ClusterWorker } from 'node:cluster';
import { askWorker } from './messages.js';

/** Time between two questions to a worker. */
const INTERVAL_MS = 1_000;
/** Time without a reply after which a worker counts as hanging. */
const TIMEOUT_MS = 10_000;

/**
 * Asks each worker regularly whether it responds. A process that hangs does not exit, so
 * only its silence shows it.
 *
 * @param workers returns the serving workers
 * @returns the process ids of the workers that have not replied for ten seconds
 */
export function watchHeartbeats(workers: () => readonly ClusterWorker[]): () => readonly number[] {
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
