import type { Readings } from '../domain/path.js';
import type { Scheme } from './authorization.js';

/** The client of a request: the peer of the connection, or of the trusted proxy in front. */
export interface Client {
  readonly address: string;
  /** Whether the client's own connection is TLS, as seen by this process or a trusted proxy. */
  readonly secure: boolean;
  /** The host that the client requested: `Host`, or `X-Forwarded-Host` of a trusted proxy. */
  readonly host: string;
  /** Whether the address comes from a trusted proxy's `X-Forwarded-For`. */
  readonly proxied: boolean;
  readonly behindTrustedProxy: boolean;
  /** `X-Forwarded-For` for the upstream: the client, then the trusted proxies it came through. */
  readonly forwardedFor: string;
  /** `X-Forwarded-Port` and `X-Forwarded-Prefix` of a trusted proxy; empty without one. */
  readonly port: string;
  readonly prefix: string;
}

/** The head of one well-formed request. Later steps never read the request that it was parsed from. */
export interface RequestHead {
  readonly method: string;
  /** The request target byte for byte, starting with `/`. The upstream receives exactly this. */
  readonly target: string;
  /** The target up to, but not including, `?`. */
  readonly path: string;
  /** The query without its `?`; empty when there is none. */
  readonly query: string;
  /** The ways in which upstreams may read the path; null when there is only one. */
  readonly readings: Readings | null;
  /** As received, flat; HTTP/2 fields are in HTTP/1.1 form. */
  readonly fields: readonly string[];
  readonly client: Client;
  /** The token or legacy key in a token field, or the token in `Authorization` or a subprotocol. */
  readonly key: string | undefined;
  /** How `key` or `jwt` was sent; undefined for a token field, and for a JWT in another place. */
  readonly scheme: Scheme | undefined;
  /** The JWT of the request, if JWT issuers are configured; `key` is undefined then. */
  readonly jwt: string | undefined;
  /**
   * `authorization` (also without a JWT), another field in lower case, or `cookie NAME`. Browsers and proxies
   * send it by themselves in any place but the first.
   */
  readonly jwtPlace: string;
  readonly otp: string | undefined;
  readonly session: string | undefined;
  readonly contentType: string | undefined;
  /** Content-Length in bytes; undefined when there is no body or it is chunked. */
  readonly contentLength: number | undefined;
  /** Whether the request has a body. A Content-Length of 0 counts as none. */
  readonly hasBody: boolean;
  readonly connection: string | undefined;
  readonly webSocket: boolean;
  readonly expectsContinue: boolean;
  /** Whether a browser requests a service worker script (Service Workers, 4.3 and 4.4). */
  readonly serviceWorker: boolean;
  readonly origin: string | undefined;
  readonly fetchSite: string | undefined;
  readonly userAgent: string | undefined;
  /** The trace of the request; undefined without exactly one well-formed `traceparent`. */
  readonly trace: TraceParent | undefined;
}

/** The trace and parent span of a request (W3C Trace Context). */
export interface TraceParent {
  readonly traceId: string;
  /** 16 hexadecimal digits: the sender's span. */
  readonly spanId: string;
  readonly sampled: boolean;
}

/** Version, trace id, parent id and flags; later versions may append fields, which are ignored. */
const FORM = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
/** Maximum length of a `traceparent` value in characters; no known version is longer. */
const MAX_LENGTH = 256;

/** Returns undefined for a malformed field, which drops only the trace (W3C Trace Context 3.2). */
export function parseTraceParent(field: string): TraceParent | undefined {
  const match = field.length > MAX_LENGTH ? null : FORM.exec(field);
  if (match === null) return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = match;
  if (version === '00' && more !== undefined) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}
