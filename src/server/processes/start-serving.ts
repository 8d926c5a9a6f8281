import type { LoadedConfig } from '../../config/load.js';
import type { LogSink } from '../../observe/log.js';
import { renderMetrics, servingWorkers } from '../../observe/metrics.js';
import type { Tracing } from '../../observe/tracing.js';
import { noteDeath, ownSidecar } from '../fleet/membership.js';
import type { OpenedStore } from '../stores/open-store.js';
import { startPool } from './cluster.js';
import type { Serving } from './serving.js';
import { startWorker } from './worker.js';

/** Serves in this process. */
export async function startAlone(
  loaded: LoadedConfig,
  opened: OpenedStore,
  log: LogSink['log'],
  tracing: Tracing | undefined,
): Promise<Serving> {
  const worker = await startWorker(loaded, opened, log, tracing);
  servingWorkers.set(1);
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

/**
 * Serves in workers.
 *
 * @param count number of workers
 */
export async function startWorkers(
  loaded: LoadedConfig,
  count: number,
  { store }: OpenedStore,
  sink: LogSink,
): Promise<Serving> {
  ownSidecar();
  const died = (pid: number): void => noteDeath(store.fleet, pid);
  return startPool(loaded, count, sink.log, died, () => {
    sink.log.fatal('workers keep dying; giving up');
    void sink.flush().finally(() => process.exit(1));
  });
}

/** Says why the public port is not served by every worker; null if it is. */
export function workersFault({ size, hanging }: Serving): string | null {
  if (size() === 0) return 'no worker is serving';
  const pids = hanging();
  return pids.length === 0 ? null : `not responding: worker ${pids.join(', ')}`;
}
