import cluster from 'node:cluster';
import { availableParallelism } from 'node:os';
import type { LoadedConfig } from '../../config/load.js';
import { createLog, logWarnings, type LogSink } from '../../observe/log.js';
import {
  countAuditFailure,
  readMetrics,
  renderMetrics,
  setWorkers,
  startProcessMetrics,
} from '../../observe/metrics.js';
import { startAdmin } from '../../server/admin.js';
import { startPool } from '../../server/processes/cluster.js';
import { startCleaning } from '../../server/stores/cleaning.js';
import { answerPrimary } from '../../server/processes/messages.js';
import { certificateFiles, tellCertificate } from '../../server/reload/certificate.js';
import { applyDirectoryFile, Reloader } from '../../server/reload/reload.js';
import type { Serving } from '../../server/processes/serving.js';
import { onSignals } from '../../server/processes/signals.js';
import { openStoreRoom, type StoreRoom } from '../../server/stores/store-room.js';
import { StoreUnavailable } from '../../store/store.js';
import { watchFiles } from '../../server/reload/watch.js';
import { startWorker } from '../../server/processes/worker.js';

const APPLY_RETRY_MS = 1_000;

/** How `serve` and `demo` start a server. */
export interface ServeOptions {
  readonly loaded: LoadedConfig;
  /** What the configuration's `${NAME}` expand to, also when it is reloaded. */
  readonly env?: NodeJS.ProcessEnv;
  /** Leave the record of each request out of the log. */
  readonly quietRequests?: boolean;
  /** What to print for people when the server is ready. */
  readonly welcome?: (url: string, admin: string) => string;
}

/** Starts serving: in this process, or in workers that this process watches over. */
export async function startServer(options: ServeOptions): Promise<void> {
  const sink = createLog(options.quietRequests);
  logWarnings(sink.log);
  startProcessMetrics();
  const serves = cluster.isWorker || workersOf(options.loaded) === 1;
  const room = await openStoreRoom(options.loaded.config, {
    log: sink.log,
    serves,
    auditFailed: countAuditFailure,
  });
  if (cluster.isWorker) await serveAsWorker(options.loaded, room, sink);
  else await serveAsPrimary(options, room, sink);
}

async function serveAsWorker(loaded: LoadedConfig, room: StoreRoom, sink: LogSink): Promise<void> {
  const worker = await startWorker(loaded, room, sink.log);
  let prepared: ReturnType<typeof worker.prepare> | undefined;
  answerPrimary({
    metrics: readMetrics,
    prepare: async (next) => {
      prepared = worker.prepare(next as LoadedConfig);
    },
    commit: async () => {
      prepared?.commit();
      // It may have been moved away; the primary writes to it as well.
      room.audit.reopen();
    },
    abort: async () => prepared?.abort(),
  });
  onSignals(sink, async () => {
    await worker.drain();
    await room.close();
  });
  // Without its primary a worker has nobody to stop it.
  process.once('disconnect', () => process.exit(1));
}

async function serveAsPrimary(options: ServeOptions, room: StoreRoom, sink: LogSink): Promise<void> {
  const { loaded } = options;
  const { config } = loaded;
  const { log } = sink;
  const directory = await applyAtStart(loaded, room, log);
  const cleaning = startCleaning(room.store, log);
  const count = workersOf(loaded);
  const serving = count === 1 ? await startAlone(loaded, room, log) : await startWorkers(loaded, count, sink);
  tellCertificate(loaded.certificate, log);
  const reloader = new Reloader(loaded, room, serving, options.env ?? process.env, log);
  const watching = watchFiles(
    () => {
      const { config } = reloader.current;
      return [loaded.file, config.directory.file ?? loaded.file, ...certificateFiles(config)];
    },
    () => void reloader.reload('a changed file'),
  );

  let draining = false;
  const admin = await startAdmin(
    config.admin,
    {
      metrics: serving.metrics,
      ready: async () => ({
        store: await faultOf(room.store.probe()),
        directory: directory.pending() ? 'the directory file is not applied yet' : null,
        config: null,
        workers: serving.size() > 0 ? null : 'no worker serves',
        draining: draining ? 'the server is shutting down' : null,
      }),
      reload: () => reloader.reload('POST /-/reload'),
    },
    log,
  );
  onSignals(
    sink,
    async () => {
      draining = true;
      log.info('draining');
      clearInterval(cleaning);
      clearInterval(watching);
      await serving.drain();
      room.audit.record({ event: 'server.stopped', outcome: 'success', actor: null });
      admin.server.close();
      admin.server.closeAllConnections();
      await room.close();
      log.info('stopped');
    },
    () => void reloader.reload('SIGHUP'),
  );
  room.audit.record({ event: 'server.started', outcome: 'success', actor: null });
  log.info({ listen: serving.url, admin: admin.url, workers: count, config: loaded.file }, 'ready');
  if (options.welcome !== undefined) sink.print(options.welcome(serving.url, admin.url));
}

function workersOf({ config }: LoadedConfig): number {
  return config.workers === 'auto' ? availableParallelism() : config.workers;
}

/**
 * Applies the directory file. A store that can't answer yet is no reason not to start: nobody is let in until it can,
 * and the file is applied then. Everything else that is wrong with the file is.
 */
async function applyAtStart(
  loaded: LoadedConfig,
  room: StoreRoom,
  log: LogSink['log'],
): Promise<{ pending: () => boolean }> {
  let pending = true;
  const apply = async (): Promise<void> => {
    await room.store.begin();
    await applyDirectoryFile(loaded, room);
    pending = false;
  };
  const retry = (): void => {
    setTimeout(() => {
      apply().then(
        () => log.info('the directory file is applied'),
        (error: unknown) => {
          if (error instanceof StoreUnavailable) retry();
          else log.error({ err: error }, 'the directory file can not be applied');
        },
      );
    }, APPLY_RETRY_MS).unref();
  };
  await apply().catch((error: unknown) => {
    if (!(error instanceof StoreUnavailable)) throw error;
    log.warn(
      { reason: error.message },
      'the store can not answer yet; the directory file is applied when it can',
    );
    retry();
  });
  return { pending: () => pending };
}

async function startAlone(loaded: LoadedConfig, room: StoreRoom, log: LogSink['log']): Promise<Serving> {
  const worker = await startWorker(loaded, room, log);
  setWorkers(1);
  return {
    url: worker.url,
    size: () => 1,
    metrics: renderMetrics,
    prepare: async (next) => {
      const { commit, abort } = worker.prepare(next);
      return { commit: async () => commit(), abort };
    },
    drain: () => worker.drain(),
  };
}

async function startWorkers(loaded: LoadedConfig, count: number, sink: LogSink): Promise<Serving> {
  return startPool(loaded, count, sink.log, () => {
    sink.log.fatal('workers keep dying; giving up');
    void sink.flush().finally(() => process.exit(1));
  });
}

async function faultOf(probe: Promise<void>): Promise<string | null> {
  return probe.then(
    () => null,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
}
