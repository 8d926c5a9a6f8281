// src/server: starts a server; `runtime.ts` builds the services of a configuration.
// May import listeners and all below.
// `startServer` is the beginning of every server process.

import cluster from 'node:cluster';
import { availableParallelism } from 'node:os';
import { openRoutes } from '../config/derived.js';
import type { LoadedConfig } from '../config/load.js';
import { logSettings, maskSecrets } from '../config/mask.js';
import type { AuditProcess } from '../observe/audit.js';
import { reportEvictionsTo } from '../observe/evictions.js';
import { createLog, destinationOf, type LogSink, logWarnings, settingsOf } from '../observe/log.js';
import { metrics, readMetrics, startProcessMetrics } from '../observe/metrics.js';
import { readVersion } from '../files/files.js';
import { createLogThrottle } from '../util/time.js';
import { type AdminAnswer, metricsReply, readinessReply, reloadReply, startAdmin } from './admin.js';
import { checkSigningKeys } from './accounts.js';
import { watchProviders } from './online-checks.js';
import { answerPrimary, type Counts, reportToPrimary, type ServedUrls } from './processes/messages.js';
import {
  loadModules,
  notifyReady,
  onSignals,
  type ServerParts,
  startTracing,
  tuneHeap,
} from './processes/process.js';
import { startAlone, startWorkers } from './processes/serving.js';
import { startWorker, type Worker } from './processes/worker.js';
import { applyAtStart } from './reload/directory-file.js';
import {
  createReloader,
  reportCertificate,
  signaturesOf,
  watchedFiles,
  watchFiles,
} from './reload/reload.js';
import { shadowReport } from './shadow.js';
import { startCleaning } from './stores/cleaning.js';
import { createStoreReadiness, openStore, servedFromCacheMs } from './stores/open-store.js';
import { createWebhooks } from './webhooks.js';

interface ServeOptions {
  readonly loaded: LoadedConfig;
  /** The environment for `${NAME}` in the configuration, also on a reload. */
  readonly env?: NodeJS.ProcessEnv;
  readonly welcome?: (url: string, admin: string) => string;
}

export async function startServer(options: ServeOptions): Promise<void> {
  try {
    await start(options);
  } catch (error) {
    if (!cluster.isWorker) throw error;
    const { message, stack, code } = error as NodeJS.ErrnoException;
    await reportToPrimary('failure', { message, stack, code });
    process.exit(1);
  }
}

async function start(options: ServeOptions): Promise<void> {
  tuneHeap();
  const seen = signaturesOf(watchedFiles(options.loaded));
  const { config } = options.loaded;
  const sink = createLog(logSettings(options.loaded));
  logWarnings(sink.log);
  reportEvictionsTo(sink.log, metrics.evictions);
  startProcessMetrics(readVersion());
  const serves = cluster.isWorker || workersOf(options.loaded) === 1;
  await loadModules(config, serves);
  const tracing = serves ? await startTracing(config, sink.log) : undefined;
  const opened = await openStore(options.loaded, { log: sink.log, audit: auditOf(sink), serves });
  const parts = { opened, sink, tracing };
  if (cluster.isWorker) await serveAsWorker(options.loaded, parts);
  else {
    await serveAsPrimary(options, parts, seen).catch(async (error: unknown) => {
      await sink.flush();
      throw error;
    });
  }
}

function auditOf({ log }: LogSink): AuditProcess {
  const throttle = createLogThrottle();
  return {
    log: destinationOf(log),
    configHash: () => settingsOf(log)?.configHash,
    levelFormat: () => settingsOf(log)?.levelFormat,
    onFailure: (error) => {
      metrics.auditFailures.inc();
      if (throttle() !== undefined) log.error({ err: error }, 'audit log not written');
    },
  };
}

async function serveAsWorker(loaded: LoadedConfig, parts: ServerParts): Promise<void> {
  const { opened, sink, tracing } = parts;
  const started = startWorker(loaded, parts);
  let prepared: ReturnType<Worker['prepare']> | undefined;
  /** Each prepared configuration is committed or aborted once: an earlier one may be in use. */
  const takePrepared = () => {
    const taken = prepared;
    prepared = undefined;
    return taken;
  };
  const counts = async (): Promise<Counts> => ({
    metrics: await readMetrics(),
    casualties: await (await started).casualties(),
  });
  // Commands that arrive during the start wait for its end.
  answerPrimary({
    counts,
    prepare: async (next) => {
      prepared = started.then((worker) => worker.prepare(next as LoadedConfig));
      await prepared;
    },
    commit: async () => {
      const taken = await takePrepared();
      if (taken === undefined) throw new Error('no configuration is prepared');
      await taken.commit();
    },
    abort: async () => (await takePrepared())?.abort(),
  });
  const worker = await started;
  onSignals(sink, async () => {
    void reportToPrimary('ending');
    await worker.drain();
    await opened.close();
    await tracing?.close();
    // Its last message: what the primary handed over earlier arrives before the receipt, and goes elsewhere.
    await reportToPrimary('final-counts', await counts());
  });
  const { url, decisionUrl, grpcUrl } = worker;
  await reportToPrimary('serving', { url, decisionUrl, grpcUrl } satisfies ServedUrls);
  // Without its primary, nothing would stop a worker.
  process.once('disconnect', () => process.exit(1));
}

/** @param seen signatures of the watched files at the start, which may take long */
async function serveAsPrimary(options: ServeOptions, parts: ServerParts, seen: string): Promise<void> {
  const { opened, sink, tracing } = parts;
  const { loaded } = options;
  const { config } = loaded;
  const { log } = sink;
  const late = await applyAtStart(loaded, opened, log);
  await checkSigningKeys(config, opened);
  const count = workersOf(loaded);
  const serving = count === 1 ? await startAlone(loaded, parts) : await startWorkers(loaded, count, parts);
  reportCertificate(loaded.certificate, log);
  const webhooks = createWebhooks(opened, log);
  const reloader = createReloader(loaded, opened, serving, options.env ?? process.env, log, (next) => {
    late.applied();
    webhooks.use(next.config);
  });
  late.retry(async () => reloader.applyDirectory());
  webhooks.use(config);
  const stopCleaning = startCleaning(opened, log, () => reloader.current().config.tokens);
  const watching = watchFiles(reloader.watched, seen, () => void reloader.reload('a changed file'));

  const store = createStoreReadiness(opened.store.maintenance, servedFromCacheMs(config));
  const providerWarnings = watchProviders();
  let draining = false;
  const readiness = async () => {
    const { fault, isReady } = await store();
    const others = {
      directory: late.fault(),
      config: null,
      workers: serving.size() === 0 ? 'no worker is serving' : null,
      draining: draining ? 'the server is shutting down' : null,
    };
    const ready = isReady && Object.values(others).every((other) => other === null);
    return readinessReply(
      { store: fault, ...others },
      providerWarnings(reloader.current().config.login.oidc),
      ready,
    );
  };
  const resend = async (query: URLSearchParams) => {
    const ids = query.getAll('id');
    const resent = await webhooks.resend(query.get('endpoint') ?? undefined, ids.length > 0 ? ids : null);
    if (resent !== undefined) return { body: { resent } };
    const detail = 'there is no such endpoint; see /-/webhooks';
    return { status: 404, body: { msg: 'Record not found', detail } };
  };
  const paths = {
    views: new Map<string, AdminAnswer>([
      ['/healthz', () => ({ body: { status: 'ok' } })],
      ['/readyz', readiness],
      ['/metrics', async () => metricsReply(await serving.metrics())],
      ['/-/config', () => ({ body: maskSecrets(reloader.current()) })],
      ['/-/shadow', async () => ({ body: shadowReport(reloader.current(), await serving.casualties()) })],
      ['/-/webhooks', async () => ({ body: await webhooks.report() })],
    ]),
    tasks: new Map<string, AdminAnswer>([
      ['/-/reload', async () => reloadReply(await reloader.reload('POST /-/reload'))],
      ['/-/webhooks/resend', resend],
    ]),
  };
  const admin = await startAdmin(config.admin, paths, log).catch(async (error: unknown) => {
    await serving.drain();
    throw error;
  });
  onSignals(
    sink,
    async () => {
      draining = true;
      log.info('draining');
      stopCleaning();
      clearInterval(watching);
      await Promise.all([serving.drain(), webhooks.stop()]);
      // The process stops even if the entry cannot be written.
      opened.audit.note({ event: 'server.stopped', outcome: 'success', actor: null });
      admin.server.close();
      admin.server.closeAllConnections();
      await opened.close();
      await tracing?.close();
      log.info('stopped');
    },
    () => void reloader.reload('SIGHUP'),
  );
  opened.audit.record({ event: 'server.started', outcome: 'success', actor: null });
  const open = openRoutes(config);
  const ready = {
    listen: serving.url,
    admin: admin.url,
    decision: serving.decisionUrl ?? undefined,
    decision_grpc: serving.grpcUrl ?? undefined,
    workers: count,
    config: loaded.file,
    ...(open.length > 0 && { open_routes: open }),
  };
  // Logged whatever the log level is.
  log.child({}, { level: 'info' }).info(ready, 'ready');
  notifyReady(log);
  if (options.welcome !== undefined) sink.print(options.welcome(serving.url, admin.url));
}

function workersOf({ config }: LoadedConfig): number {
  return config.workers === 'auto' ? availableParallelism() : config.workers;
}
