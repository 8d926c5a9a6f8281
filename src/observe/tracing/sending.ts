import { setTimeout as sleep } from 'node:timers/promises';
import { JsonTraceSerializer } from '@opentelemetry/otlp-transformer';
import {
  BatchSpanProcessor,
  type ReadableSpan,
  type SpanExporter,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { fetchLimited, openAgent } from '../../net/fetch-limited.js';
import { createLogThrottle } from '../../util/time.js';

/** Maximum number of spans that wait for the collector; further ones are dropped. */
const MAX_WAITING = 8_192;
const BATCH = 512;
const DELAY_MS = 1_000;
/** Time for the collector to accept a batch, in milliseconds. */
const TIMEOUT_MS = 5_000;
const RETRY_MS = 1_000;
/** Maximum size of the collector's response, in bytes. */
const MAX_ANSWER = 64 * 1024;
const CONNECTIONS = 2;
/** Minimum time between log messages about dropped spans. */
const LOG_INTERVAL_MS = 60_000;
/** Statuses after which a batch may be sent again (OTLP 1.9, "Retryable Response Codes"). */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);
type Code = Parameters<Parameters<SpanExporter['export']>[1]>[0]['code'];

/** `ExportResultCode.SUCCESS` */
const SUCCESS = 0 as Code; // oxlint-disable-line typescript/no-unsafe-enum-assignment -- its enumeration is in a package that is none of ours

/** @param reason given for the first loss in a while; null in between */
export type OnDropped = (spans: number, reason: string | null) => void;

const LIMITS = { timeout: TIMEOUT_MS, maxBody: MAX_ANSWER };

/**
 * Sends spans in batches, in the background. Requests never wait for it: when too many spans are
 * queued, or the collector does not accept them, spans are dropped and counted.
 */
export function createSending(url: string, onDropped: OnDropped): SpanProcessor {
  const throttle = createLogThrottle(LOG_INTERVAL_MS);
  const drop = (spans: number, reason: string): void =>
    onDropped(spans, throttle() === undefined ? null : reason);
  const headers = { ...headersOfEnvironment(), 'Content-Type': 'application/json' };
  let agent: ReturnType<typeof openAgent> | undefined;
  const post = async (body: string, timeout: number): Promise<number> => {
    const ofUrl = await (agent ??= openAgent(LIMITS, CONNECTIONS));
    const options = { ...LIMITS, timeout, method: 'POST', headers, body, agent: ofUrl } as const;
    return (await fetchLimited(url, options)).status;
  };
  let waiting = 0;
  const exporter: SpanExporter = {
    export: (spans, done) => {
      send(spans, post)
        .catch((error: Error) => drop(spans.length, error.message))
        .finally(() => {
          waiting -= spans.length;
          // A failure is logged above; the library would log it again.
          done({ code: SUCCESS });
        });
    },
    shutdown: async () => (await agent)?.close(),
  };
  const batches = new BatchSpanProcessor(exporter, {
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

/** Sends spans by OTLP as JSON until they are accepted. @throws Error that says why they are not */
async function send(
  spans: ReadableSpan[],
  post: (body: string, timeout: number) => Promise<number>,
): Promise<void> {
  const body = Buffer.from(JsonTraceSerializer.serializeRequest(spans) ?? []).toString();
  const end = performance.now() + TIMEOUT_MS;
  for (;;) {
    const timeout = Math.max(1, Math.ceil(end - performance.now()));
    const status = await post(body, timeout).catch((error: Error) => error);
    if (typeof status === 'number' && status < 300) return;
    const passes = typeof status !== 'number' || RETRYABLE.has(status);
    if (!passes || performance.now() + RETRY_MS >= end)
      throw typeof status === 'number' ? new Error(`the collector responded with ${status}`) : status;
    await sleep(RETRY_MS);
  }
}

/** Returns the fields in the variables of OpenTelemetry, like `api-key=secret,tenant=a%20b`. */
function headersOfEnvironment({ env } = process): Record<string, string> {
  const text = env['OTEL_EXPORTER_OTLP_TRACES_HEADERS'] ?? env['OTEL_EXPORTER_OTLP_HEADERS'] ?? '';
  const pairs = [...text.matchAll(/([^=,\s]+)\s*=([^,]*)/g)];
  return Object.fromEntries(
    pairs.map(([, name = '', value = '']) => [name, decodeURIComponent(value.trim())]),
  );
}
