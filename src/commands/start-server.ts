import cluster from 'node:cluster';
import { availableParallelism } from 'node:os';
import type { LoadedConfig } from '../config/load.js';
import { loadDirectory } from '../config/directory.js';
import type { Config } from '../config/schema.js';
import { createLog, type LogSink } from '../observe/log.js';
import { renderMetrics, renderSum, setWorkers, startProcessMetrics } from '../observe/metrics.js';
import { startAdmin } from '../server/admin.js';
import { answerMetrics, startPool } from '../server/cluster.js';
import { startCleaning } from '../server/cleaning.js';
import { onSignals } from '../server/signals.js';
import { openStoreRoom, type StoreRoom } from '../server/store-room.js';
import { startWorker } from '../server/worker.js';
import { CommandFailed, describeRefusedChange } from './failure.js';

/** How `serve` and `demo` start a server. */
export interface ServeOptions {
  readonly loaded: LoadedConfig;
  /** Leave the record of each request out of the log. */
  readonly quietRequests?: boolean;
  /** Called when the server is ready. */
  readonly onReady?: (url: string, admin: string) => void;
}

/** Starts serving: in this process, or in workers that this process watches over. */
export async function startServer(options: ServeOptions): Promise<void> {
  const sink = createLog(options.quietRequests);
  startProcessMetrics();
  const { config } = options.loaded;
  const room = openStoreRoom(config);
  if (cluster.isWorker) await serveAsWorker(options.loaded, room, sink);
  else await serveAsPrimary(options, room, sink);
}

async function serveAsWorker(loaded: LoadedConfig, room: StoreRoom, sink: LogSink): Promise<void> {
  answerMetrics();
  const worker = await startWorker(loaded, room, sink.log);
  onSignals(sink, async () => {
    await worker.drain();
    await room.store.close();
  });
  // Without its primary a worker has nobody to stop it.
  process.once('disconnect', () => process.exit(1));
}

async function serveAsPrimary(options: ServeOptions, room: StoreRoom, sink: LogSink): Promise<void> {
  const { loaded } = options;
  const { config } = loaded;
  const { log } = sink;
  await applyDirectoryFile(config, room);
  const cleaning = startCleaning(room.store, log);
  const count = config.workers === 'auto' ? availableParallelism() : config.workers;
  const serving = count === 1 ? await startAlone(loaded, room, log) : await startWorkers(count, sink);

  let draining = false;
  const admin = await startAdmin(
    config.admin,
    {
      metrics: serving.metrics,
      ready: async () => ({
        store: await faultOf(room.store.probe()),
        config: null,
        workers: serving.size() > 0 ? null : 'no worker serves',
        draining: draining ? 'the server is shutting down' : null,
      }),
    },
    log,
  );
  onSignals(sink, async () => {
    draining = true;
    log.info('draining');
    clearInterval(cleaning);
    await serving.drain();
    admin.server.close();
    admin.server.closeAllConnections();
    await room.store.close();
    log.info('stopped');
  });
  log.info({ listen: serving.url, admin: admin.url, workers: count, config: loaded.file }, 'ready');
  options.onReady?.(serving.url, admin.url);
}

interface Serving {
  readonly url: string;
  readonly size: () => number;
  readonly metrics: () => Promise<{ type: string; text: string }>;
  drain(): Promise<void>;
}

async function startAlone(loaded: LoadedConfig, room: StoreRoom, log: LogSink['log']): Promise<Serving> {
  const worker = await startWorker(loaded, room, log);
  setWorkers(1);
  return { url: worker.url, size: () => 1, metrics: renderMetrics, drain: () => worker.drain() };
}

async function startWorkers(count: number, sink: LogSink): Promise<Serving> {
  const { log } = sink;
  const pool = await startPool(count, log, () => {
    log.fatal('workers keep dying; giving up');
    void sink.flush().finally(() => process.exit(1));
  });
  return { ...pool, metrics: async () => renderSum(await pool.metrics()) };
}

async function applyDirectoryFile(config: Config, room: StoreRoom): Promise<void> {
  const { file } = config.directory;
  if (file === null) return;
  const directory = loadDirectory(file, process.env, Object.keys(config.policy.roles));
  const applied = await room.directory.apply(directory, Date.now());
  if ('refused' in applied)
    throw new CommandFailed(`${file}: ${describeRefusedChange(applied.refused)}; nothing was changed`);
}

async function faultOf(probe: Promise<void>): Promise<string | null> {
  return probe.then(
    () => null,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
}
