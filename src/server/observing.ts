import type { Config } from '../config/schema/config.js';
import type { Log } from '../observe/log.js';
import { droppedSpans } from '../observe/metrics.js';
import { observeStoreOperation } from '../observe/metrics/store.js';
import { currentTrace, openTracing, type Tracing } from '../observe/tracing.js';
import type { OnOperation } from '../store/measured.js';

export async function startTracing({ tracing }: Config, log: Log): Promise<Tracing | undefined> {
  if (tracing === null) return undefined;
  return openTracing(tracing, {
    dropped: (spans, reason) => {
      droppedSpans.inc(spans);
      if (reason !== null) log.warn({ reason, otlp: tracing.otlp }, 'trace export failed; spans dropped');
    },
  });
}

/** Counts store operations, and adds them to the trace of the current request. */
export function storeObserver(tracing: Tracing | undefined): OnOperation {
  if (tracing === undefined) return measure;
  return (operation, startedAt, failed, left) => {
    measure(operation, startedAt, failed, left);
    currentTrace()?.stored(operation, startedAt, failed, left);
  };
}

const measure: OnOperation = (operation, startedAt, failed) =>
  observeStoreOperation(operation, (performance.now() - startedAt) / 1000, failed);
