import { execFile } from 'node:child_process';
import cluster from 'node:cluster';
import { setFlagsFromString } from 'node:v8';
import type { Config } from '../../config/schema/config.js';
import type { Log, LogSink } from '../../observe/log.js';
import { metrics } from '../../observe/metrics.js';
import type { Tracing } from '../../observe/tracing/spans.js';
import type { OpenedStore } from '../stores/open-store.js';
import { isEnd, releaseSignals } from './early-signals.js';

/** What every process of a server opens first. */
export interface ServerParts {
  readonly opened: OpenedStore;
  readonly sink: LogSink;
  readonly tracing: Tracing | undefined;
}

/**
 * SIGTERM or SIGINT drains the process and exits with 0; a second one exits at once, except in a worker.
 * After an uncaught exception, the process logs it, drains and exits with 1. Signals that arrived during the
 * start take effect now.
 */
export function onSignals(sink: LogSink, drain: () => Promise<void>, reload = (): void => undefined): void {
  const { log } = sink;
  let ending = false;
  const end = (code: number): void => {
    if (ending) process.exit(code === 0 ? 1 : code);
    ending = true;
    void drain()
      .catch((error: unknown) => {
        log.error({ err: error }, 'drain failed');
        code = 1;
      })
      .then(() => sink.flush())
      .finally(() => process.exit(code));
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      // The service manager may signal a worker too, which its primary has told to end.
      if (isEnd(signal) && !(ending && cluster.isWorker)) end(0);
    });
  // A worker receives it too when the whole process group is signaled, but the primary commands it.
  process.on('SIGHUP', reload);
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'uncaught exception');
    end(1);
  });
  releaseSignals();
}

/**
 * Tells systemd that the server is ready, for `Type=notify` (sd_notify(3)). Its own program does it, because
 * Node.js has no datagrams over Unix sockets.
 */
export function notifyReady(log: Log): void {
  if (process.env['NOTIFY_SOCKET'] === undefined) return;
  execFile('systemd-notify', ['--ready'], (error) => {
    if (error !== null) log.error({ err: error }, 'systemd not notified that the server is ready');
  });
}

/**
 * Sets V8 flags for the collection of garbage; call it once, before the first request. The first keeps
 * allocations of requests in the young generation (no "allocation site pretenuring"): one long-lived object
 * keeps its whole request. With the second, a full collection runs when the heap has grown by 30 %.
 */
export function tuneHeap(): void {
  setFlagsFromString('--no-allocation-site-pretenuring');
  setFlagsFromString('--heap-growing-percent=30');
}

/**
 * Loads what requests may need later. Node.js repeats the error of a failed first load until the process
 * ends, and files may be replaced by an upgrade meanwhile.
 * @param serves whether this process serves requests; if not, it may still send webhooks
 */
export async function loadModules(
  { directory, jwt_issuers, login, webhooks }: Config,
  serves = true,
): Promise<void> {
  const sends = webhooks.length > 0;
  const verifies = serves && jwt_issuers.length > 0;
  const logsIn = serves && login.oidc.length > 0;
  await Promise.all([
    sends && import('../../webhooks/deliver.js'),
    verifies && import('../../accounts/jwt/verifier.js'),
    logsIn && import('../../accounts/oidc/provider.js'),
    (sends || verifies || logsIn || (serves && directory.http !== null)) && import('undici'),
  ]);
}

export async function startTracing({ tracing }: Config, log: Log): Promise<Tracing | undefined> {
  if (tracing === null) return undefined;
  // Processes without tracing do not load the SDK.
  const { createTracing } = await import('../../observe/tracing/spans.js');
  return createTracing(tracing, (spans, reason) => {
    metrics.droppedSpans.inc(spans);
    if (reason !== null) log.warn({ reason, otlp: tracing.otlp }, 'trace export failed; spans dropped');
  });
}
