import { AsyncLocalStorage } from 'node:async_hooks';

export interface TracingSettings {
  /** Base URL of the collector. */
  readonly otlp: string;
  readonly service_name: string;
  readonly sample_ratio: number;
}

/** What a trace records of a request when its head is read. */
export interface TracedRequest {
  readonly method: string;
  /** Without its query. */
  readonly path: string;
  readonly scheme: 'http' | 'https';
  readonly host: string;
  readonly client: string;
  readonly userAgent: string | undefined;
  /** The span of whoever sent it. */
  readonly parent: TracedParent | undefined;
}

/** The span that a request belongs below. */
export interface TracedParent {
  readonly traceId: string;
  readonly spanId: string;
  /** Whether the trace is to be kept; undefined where whoever says so is not trusted. */
  readonly sampled: boolean | undefined;
}

/** Where a request is forwarded to. */
export interface TracedCall {
  readonly upstream: string;
  /** `https://api.internal:8443` or `unix:///run/api.sock`; null when there are several addresses to choose from. */
  readonly origin: string | null;
  readonly method: string;
  /** Without its query. */
  readonly path: string;
}

/** Values that a span is given; those that are null or undefined are left out. */
export type TracedValues = Readonly<Record<string, string | number | null | undefined>>;

/** How a request ended. */
export interface TracedEnd {
  readonly route: string | null;
  readonly status: number | null;
  readonly outcome: string;
  readonly values: TracedValues;
}

/** The spans of one request. Times are those of `performance.now()`. */
export interface RequestTrace {
  readonly traceId: string;
  /** Runs something; what it asks of the store becomes part of this trace. */
  run<T>(work: () => T): T;
  /** Notes an operation of the store. @param left whether it left this thread: it gets a span of its own */
  stored(operation: string, startedAt: number, failed: boolean, left: boolean): void;
  /** Ends the gate's span. */
  decided(at: number, values: TracedValues): void;
  /** Begins the upstream's span, and returns the `traceparent` to send along. */
  call(call: TracedCall): string;
  /** Ends the request's span, and that of the upstream. @param upstreamStatus null when it gave none */
  end(end: TracedEnd, upstreamStatus: number | null): void;
}

/** Spans of requests, on their way to a collector. */
export interface Tracing {
  /** @param request null when the head could not be read */
  begin(startedAt: number, request: TracedRequest | null): RequestTrace;
  /** Sends what waits, as long as that does not take too long. */
  close(): Promise<void>;
}

/** What a {@link Tracing} tells of spans that it could not send. */
export interface TracingEvents {
  /** @param reason given for the first one in a while; null in between */
  readonly dropped: (spans: number, reason: string | null) => void;
}

const current = new AsyncLocalStorage<RequestTrace>();

/** The trace of the request that is being served here; undefined outside of one and while tracing is off. */
export function currentTrace(): RequestTrace | undefined {
  return current.getStore();
}

export function runInTrace<T>(trace: RequestTrace, work: () => T): T {
  return current.run(trace, work);
}
