import type { Readings } from '../domain/path.js';

/** Who is at the other end of the connection, or of the trusted proxy in front. */
export interface Client {
  /** IP address, without port; IPv4 in its own form even on a dual-stack socket. */
  readonly address: string;
  /** Whether the client's own connection is TLS, as far as this process or a trusted proxy saw. */
  readonly secure: boolean;
  /** The host that the client asked for: `Host`, or `X-Forwarded-Host` of a trusted proxy. */
  readonly host: string;
  /** The address comes from a trusted proxy, not from the connection. */
  readonly proxied: boolean;
  /** The connection comes from a trusted proxy, which speaks for its clients. */
  readonly behindTrustedProxy: boolean;
  /** What `X-Forwarded-For` tells the upstream: the client, then the trusted proxies it came through. */
  readonly forwardedFor: string;
}

/**
 * The head of one well-formed request as a value: what every later step looks at.
 * No later step sees the request that it was read from.
 */
export interface RequestHead {
  readonly method: string;
  /** The request target byte for byte, starting with `/`. This is what the upstream gets. */
  readonly target: string;
  /** The target up to `?`. */
  readonly path: string;
  /** What follows `?`, without it; empty when there is none. */
  readonly query: string;
  /** The ways to read the path; null when there is one. */
  readonly readings: Readings | null;
  /** Fields as received: name, value, name, value. Of HTTP/2 the ones that the same request has in HTTP/1.1. */
  readonly fields: readonly string[];
  readonly client: Client;
  /** The token or legacy key of the key field (`Service-Key`), or the token of `Authorization: Bearer`; undefined without. */
  readonly key: string | undefined;
  /** The key came as `Authorization: Bearer`. */
  readonly bearer: boolean;
  /** A JWT as `Authorization: Bearer`, where there are issuers of them; then there is no key. */
  readonly jwt: string | undefined;
  /** Value of the one-time-password field (`Service-OTP`). */
  readonly otp: string | undefined;
  /** Value of the session cookie. */
  readonly session: string | undefined;
  readonly contentType: string | undefined;
  /** Declared body length; undefined when there is none or it is chunked. */
  readonly contentLength: number | undefined;
  /** There is a body and its length is not declared. */
  readonly chunked: boolean;
  readonly connection: string | undefined;
  /** The request asks to become a WebSocket. Any other protocol in `Upgrade` is ignored. */
  readonly webSocket: boolean;
  readonly expectsContinue: boolean;
  /** A browser asks for the script of a service worker (Service Workers, 4.3 and 4.4). */
  readonly serviceWorker: boolean;
  readonly origin: string | undefined;
  readonly fetchSite: string | undefined;
  readonly userAgent: string | undefined;
  /** The trace that the request belongs to; undefined when it names none, or not in one well-formed way. */
  readonly trace: TraceParent | undefined;
}

/** Whether content comes behind the head. A length of 0 is none. */
export function hasBody({ chunked, contentLength }: RequestHead): boolean {
  return chunked || (contentLength !== undefined && contentLength > 0);
}

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
