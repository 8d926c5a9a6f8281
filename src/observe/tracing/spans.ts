// src/observe/tracing: spans, and their export.
// May import what observe may.
// Loaded only where tracing is configured.

import { hostname } from 'node:os';
import {
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  BasicTracerProvider,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace-base';
import type { Config } from '../../config/schema/config.js';
import { portOf } from '../../util/addresses.js';
import { maskedStart, ownCopy } from '../../util/text.js';
import { readVersion } from '../../files/files.js';
import { createSending, type OnDropped } from './sending.js';
import { currentTrace } from '../tracing.js';

/** What a trace records about a request when its head is read. */
interface TracedRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly scheme: 'http' | 'https';
  readonly host: string;
  readonly client: string;
  readonly userAgent: string | undefined;
  /** The sender's span. */
  readonly parent: TracedParent | undefined;
}

interface TracedParent {
  readonly traceId: string;
  readonly spanId: string;
  /** Whether the trace is sampled; undefined when the sender is not trusted. */
  readonly sampled: boolean | undefined;
}

interface TracedCall {
  readonly upstream: string;
  /** `https://api.internal:8443` or `unix:///run/api.sock`; null when there are several addresses. */
  readonly origin: string | null;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
}

/** Span attributes; null and undefined ones are left out. */
type TracedValues = Readonly<Record<string, string | number | null | undefined>>;

interface TracedEnd {
  readonly route: string | null;
  readonly status: number | null;
  readonly outcome: string;
  readonly values: TracedValues;
}

export type Tracing = ReturnType<typeof createTracing>;
/** The spans of one request. Times are those of `performance.now()`. */
export type RequestTrace = Pick<Spans, keyof Spans>;

const PATH = '/v1/traces';
/** Maximum time that an exiting process waits for its collector. */
const CLOSE_MS = 2_000;
/** Prefix of a Unix socket's origin; its path follows. */
const UNIX = 'unix://';
/** Maximum length of an attribute value. */
const MAX_VALUE = 512;

/** Creates the spans of requests with the OpenTelemetry SDK. Nothing is registered globally. */
export function createTracing(settings: NonNullable<Config['tracing']>, onDropped: OnDropped) {
  const base = settings.otlp.replace(/\/+$/, '');
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({
      'service.name': settings.service_name,
      'service.version': readVersion(),
      'host.name': hostname(),
      'process.pid': process.pid,
    }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(settings.sample_ratio) }),
    spanLimits: { attributeValueLengthLimit: MAX_VALUE },
    spanProcessors: [createSending(base.endsWith(PATH) ? base : base + PATH, onDropped)],
  });
  const tracer = provider.getTracer('latchkey');
  return {
    /** @param request null when the head could not be read */
    begin: (startedAt: number, request: TracedRequest | null): RequestTrace => {
      const parent = request?.parent;
      // Sampling is decided anew: an untrusted client could have chosen a trace id that is always sampled.
      const sampled = parent?.sampled ?? Math.random() < settings.sample_ratio;
      const context = parent === undefined ? ROOT_CONTEXT : contextOf(parent, sampled);
      return new Spans(tracer, startedAt, request, context);
    },
    /** Sends buffered spans, within a time limit. */
    close: async () => {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, CLOSE_MS)));
      await Promise.race([provider.shutdown().catch(() => undefined), late]);
      clearTimeout(timer);
    },
  };
}

/** The spans of one request: its own, with those of the gate, the store and the upstream as children. */
class Spans {
  readonly traceId: string;
  readonly #tracer: Tracer;
  readonly #request: TracedRequest | null;
  readonly #server: Span;
  readonly #inServer: Context;
  /** Added to times of `performance.now()`. All spans of a request use one clock, so they are in order. */
  readonly #epoch = Date.now() - performance.now();
  #gate: Span | undefined;
  #upstream: Span | undefined;
  #reads = 0;

  constructor(tracer: Tracer, startedAt: number, request: TracedRequest | null, parent: Context) {
    const startTime = this.#epoch + startedAt;
    const options = { kind: SpanKind.SERVER, startTime };
    this.#tracer = tracer;
    this.#request = request;
    this.#server = tracer.startSpan(request?.method ?? 'HTTP', options, parent);
    this.#inServer = trace.setSpan(ROOT_CONTEXT, this.#server);
    this.traceId = this.#server.spanContext().traceId;
    if (request !== null) this.#gate = tracer.startSpan('gate', { startTime }, this.#inServer);
  }

  /** Runs a function; its store operations become part of this trace. */
  run<T>(work: () => T): T {
    return currentTrace.run(this, work);
  }

  stored(operation: string, startedAt: number, failed: boolean, left: boolean): void {
    if (!left) {
      this.#reads += 1;
      return;
    }
    const parent = this.#gate === undefined ? this.#inServer : trace.setSpan(ROOT_CONTEXT, this.#gate);
    const attributes = { 'db.operation.name': operation };
    const options = { kind: SpanKind.CLIENT, startTime: this.#epoch + startedAt, attributes };
    const span = this.#tracer.startSpan(`store ${operation}`, options, parent);
    if (failed) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end(this.#epoch + performance.now());
  }

  /** Ends the gate's span. */
  decided(at: number, values: TracedValues): void {
    const gate = this.#gate;
    if (gate === undefined) return;
    this.#gate = undefined;
    setValues(gate, values);
    if (this.#reads > 0) gate.setAttribute('latchkey.store.reads', this.#reads);
    gate.end(this.#epoch + at);
  }

  /** Begins the upstream's span, and returns the `traceparent` to send. */
  call({ upstream, origin, method, path }: TracedCall): string {
    const span = this.#tracer.startSpan(
      method,
      { kind: SpanKind.CLIENT, startTime: this.#epoch + performance.now() },
      this.#inServer,
    );
    setValues(span, {
      'http.request.method': method,
      'latchkey.upstream': upstream,
      ...(origin === null ? { 'url.path': path } : addressed(origin, path)),
    });
    this.#upstream = span;
    const { traceId, spanId, traceFlags } = span.spanContext();
    return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
  }

  /** @param upstreamStatus null when the upstream did not respond */
  end({ route, status, outcome, values }: TracedEnd, upstreamStatus: number | null): void {
    const at = performance.now();
    this.decided(at, {});
    this.#endUpstream(at, outcome, upstreamStatus);
    const server = this.#server;
    if (server.isRecording()) {
      const request = this.#request;
      if (request !== null && route !== null) server.updateName(`${request.method} ${route}`);
      setValues(server, {
        'http.request.method': request?.method,
        'url.path': request?.path,
        'url.scheme': request?.scheme,
        'server.address': request?.host,
        'client.address': request?.client,
        'user_agent.original': request?.userAgent,
        'http.route': route,
        'http.response.status_code': status,
        'latchkey.outcome': outcome,
        ...values,
      });
      if (status === null || status >= 500) {
        server.setAttribute('error.type', outcome);
        server.setStatus({ code: SpanStatusCode.ERROR });
      }
    }
    server.end(this.#epoch + at);
  }

  #endUpstream(at: number, outcome: string, status: number | null): void {
    const span = this.#upstream;
    if (span === undefined) return;
    setValues(span, { 'http.response.status_code': status });
    // Client spans are errors from status 400 on (semantic conventions for HTTP).
    if (status === null || status >= 400 || outcome !== 'forwarded') {
      span.setAttribute('error.type', outcome === 'forwarded' ? String(status) : outcome);
      span.setStatus({ code: SpanStatusCode.ERROR });
    }
    span.end(this.#epoch + at);
  }
}

function contextOf({ traceId, spanId }: TracedParent, sampled: boolean): Context {
  const ids = { traceId: ownCopy(traceId), spanId: ownCopy(spanId) };
  return trace.setSpanContext(ROOT_CONTEXT, { ...ids, traceFlags: sampled ? 1 : 0, isRemote: true });
}

function setValues(span: Span, values: TracedValues): void {
  if (!span.isRecording()) return;
  for (const [name, value] of Object.entries(values))
    if (value !== undefined && value !== null)
      span.setAttribute(name, typeof value === 'string' ? ownCopy(maskedStart(value, MAX_VALUE)) : value);
}

function addressed(address: string, path: string): TracedValues {
  if (address.startsWith(UNIX))
    return { 'url.path': path, 'server.address': address.slice(UNIX.length), 'network.transport': 'unix' };
  const url = new URL(address);
  return {
    'url.full': url.origin + path,
    'server.address': url.hostname,
    'server.port': portOf(url),
  };
}
