import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  BatchSpanProcessor,
  type ReadableSpan,
  type SpanExporter,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { createLogThrottle } from '../log-throttle.js';
import type { TracingEvents } from './trace.js';

/** Maximum number of spans that wait for the collector; further ones are dropped. */
const MAX_WAITING = 8_192;
const BATCH = 512;
const DELAY_MS = 1_000;
const TIMEOUT_MS = 5_000;
/** Minimum time between log messages about dropped spans. */
const LOG_INTERVAL_MS = 60_000;
type Done = Parameters<SpanExporter['export']>[1];
type Code = Parameters<Done>[0]['code'];

/** `ExportResultCode.SUCCESS` */
const SUCCESS = 0 as Code; // oxlint-disable-line typescript/no-unsafe-enum-assignment -- its enumeration is in a package that is none of ours

/**
 * Sends spans in batches, in the background. Requests never wait for it: when too many spans are
 * queued, or the collector does not accept them, spans are dropped and counted.
 */
export function createSending(url: string, events: TracingEvents): SpanProcessor {
  const throttle = createLogThrottle(LOG_INTERVAL_MS);
  const drop = (spans: number, reason: string): void =>
    events.dropped(spans, throttle() === undefined ? null : reason);
  let waiting = 0;
  const exporter = new OTLPTraceExporter({ url, timeoutMillis: TIMEOUT_MS });
  const counting: SpanExporter = {
    export: (spans: ReadableSpan[], done: Done) => {
      exporter.export(spans, (result) => {
        waiting -= spans.length;
        if (result.code !== SUCCESS)
          drop(spans.length, result.error?.message ?? 'the collector rejected the spans');
        // The failure is logged here; the library would log it again.
        done({ code: SUCCESS });
      });
    },
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
  };
  const batches = new BatchSpanProcessor(counting, {
    maxQueueSize: MAX_WAITING,
    maxExportBatchSize: BATCH,
    scheduledDelayMillis: DELAY_MS,
    exportTimeoutMillis: TIMEOUT_MS * 2,
  });
  return {
    onStart: (span, context) => batches.onStart(span, context),
    onEnd: (span) => {
      if (waiting >= MAX_WAITING) {
        drop(1, 'the span queue is full');
        return;
      }
      waiting += 1;
      batches.onEnd(span);
    },
    forceFlush: () => batches.forceFlush(),
    shutdown: () => batches.shutdown(),
  };
}
