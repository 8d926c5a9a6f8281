import cluster from 'node:cluster';
import { setFlagsFromString } from 'node:v8';
import type { LogSink } from '../../observe/log.js';
import { isEnd, releaseSignals } from './early-signals.js';

/**
 * SIGTERM or SIGINT drains the process and exits with 0; a second one exits at once, except in a worker.
 * After an uncaught exception, the process logs it, drains and exits with 1. Signals that arrived during the
 * start take effect now.
 */
export function onSignals(
  sink: LogSink,
  drain: () => Promise<void>,
  tasks: { readonly SIGHUP?: () => void; readonly SIGUSR2?: () => void } = {},
): void {
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
  // Workers receive these too when the whole process group is signaled, but the primary commands them.
  process.on('SIGHUP', () => tasks.SIGHUP?.());
  process.on('SIGUSR2', () => tasks.SIGUSR2?.());
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'uncaught exception');
    end(1);
  });
  releaseSignals();
}

/**
 * Sets V8 flags that make collections of garbage cheaper; call it once, before the first request. The first
 * keeps allocations of requests in the young generation (no "allocation site pretenuring"): one long-lived
 * object keeps its whole request. With the second, a full collection runs when the heap has doubled.
 */
export function tuneHeap(): void {
  setFlagsFromString('--no-allocation-site-pretenuring');
  setFlagsFromString('--heap-growing-percent=100');
}
