/** The trace and span that a request belongs to (W3C Trace Context). */
export interface TraceParent {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits: the span of whoever sent the request. */
  readonly spanId: string;
  /** Whoever began the trace wants it kept. */
  readonly sampled: boolean;
}

/** A version after 00 may append more fields, which are ignored. */
const FORM = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
/** Longer ones would be of no version that is known. */
const MAX_LENGTH = 256;

/** Reads a `traceparent` field; undefined when it is malformed, which ends nothing but the trace (W3C Trace Context 3.2). */
export function parseTraceParent(field: string): TraceParent | undefined {
  const match = field.length > MAX_LENGTH ? null : FORM.exec(field);
  if (match === null) return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = match;
  if (version === '00' && more !== undefined) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}
