import { AsyncLocalStorage } from 'node:async_hooks';

/** What a trace records about a request when its head is read. */
export interface TracedRequest {
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

export interface TracedParent {
  readonly traceId: string;
  readonly spanId: string;
  /** Whether the trace is sampled; undefined when the sender is not trusted. */
  readonly sampled: boolean | undefined;
}

export interface TracedCall {
  readonly upstream: string;
  /** `https://api.internal:8443` or `unix:///run/api.sock`; null when there are several addresses. */
  readonly origin: string | null;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
}

/** Span attributes; null and undefined ones are left out. */
export type TracedValues = Readonly<Record<string, string | number | null | undefined>>;

export interface TracedEnd {
  readonly route: string | null;
  readonly status: number | null;
  readonly outcome: string;
  readonly values: TracedValues;
}

/** The spans of one request. Times are those of `performance.now()`. */
export interface RequestTrace {
  readonly traceId: string;
  /** Runs a function; its store operations become part of this trace. */
  run<T>(work: () => T): T;
  /** @param left whether it left this thread; then it gets a span of its own */
  stored(operation: string, startedAt: number, failed: boolean, left: boolean): void;
  /** Ends the gate's span. */
  decided(at: number, values: TracedValues): void;
  /** Begins the upstream's span, and returns the `traceparent` to send. */
  call(call: TracedCall): string;
  /** @param upstreamStatus null when the upstream did not respond */
  end(end: TracedEnd, upstreamStatus: number | null): void;
}

/** Creates the spans of requests and sends them to a collector. */
export interface Tracing {
  /** @param request null when the head could not be read */
  begin(startedAt: number, request: TracedRequest | null): RequestTrace;
  /** Sends buffered spans, within a time limit. */
  close(): Promise<void>;
}

/** @param reason given for the first loss in a while; null in between */
export type OnDropped = (spans: number, reason: string | null) => void;

/** Holds the trace of the request being served; none outside a request or without tracing. */
export const currentTrace = new AsyncLocalStorage<RequestTrace>();
