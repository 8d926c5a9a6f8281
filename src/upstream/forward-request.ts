import type { CorsHeaders } from '../domain/cors.js';
import type { Subject } from '../domain/credential.js';
import type { IncomingRequest, OutgoingResponse } from '../http/exchange.js';
import type { Refusal } from '../domain/refusal.js';
import { AUTHORIZATION, bindsConnection } from '../http/authorization.js';
import type { RequestHead } from '../http/head.js';
import type { RouteLimits } from '../policy/route.js';
import type { Upstream } from './upstreams.js';
import { definesContent } from '../domain/methods.js';
import { CHUNKED, UNFRAMED } from '../http1/write.js';
import type { Address } from './address.js';
import type { Upload } from './upload.js';
import type { UpstreamRequest } from './upstream-request.js';

export interface ForwardRequest {
  readonly head: RequestHead;
  readonly req: IncomingRequest;
  readonly res: OutgoingResponse;
  readonly upstream: Upstream;
  readonly target: string;
  /** Limits of the route; null: those of the upstream. */
  readonly limits: RouteLimits | null;
  /** Request headers for the upstream, flat. */
  readonly fields: string[];
  readonly responseFields: readonly string[];
  /** Whether the response may be a service worker script, and widen its scope. */
  readonly allowsServiceWorker: boolean;
  /** CORS fields that replace those of the upstream; null keeps the upstream's. */
  readonly cors: CorsHeaders | null;
  readonly owner: ForwardOwner;
}

export interface ForwardOwner {
  readonly subject: Subject | null;
  /** Called at most once, and only before any byte of a response was sent. */
  forwardRefused(refusal: Refusal): void;
  forwardEnded(outcome: ForwardOutcome): void;
}

export interface ForwardOutcome {
  readonly status: number | null;
  /** Which side aborted it before its end; `abort` for {@link InFlight.abort}, `yielded` to others. */
  readonly aborted: 'client' | 'upstream' | 'abort' | 'yielded' | null;
  /** `performance.now()` when it was sent, the last time if it was resent; null if it never was. */
  readonly sentAt: number | null;
  /** `performance.now()` of the response head; null without one. */
  readonly firstByteAt: number | null;
}

export interface InFlight {
  /**
   * Aborts the request on both sides. The client receives the reason, unless its response has begun or a
   * write was sent, whose outcome is unknown. Then it sees an aborted response, never a clean end.
   */
  abort(reason: Refusal): void;
}

export type Forward = (request: ForwardRequest) => InFlight;

export function requestTo(
  address: Address,
  { head, target, fields, upstream }: ForwardRequest,
  upload: Upload | undefined,
): UpstreamRequest {
  const { method } = head;
  // A server expects a length where content is expected (RFC 9110 8.6).
  const expectsContent = definesContent(method);
  const none = expectsContent ? 0 : UNFRAMED;
  return {
    method,
    target: address.prefix + target,
    host: upstream.hostFor(head) ?? address.host,
    fields,
    body: upload,
    length: upload === undefined ? none : (head.contentLength ?? CHUNKED),
    // Servers that do not know chunks leave them on the connection, and would serve them as the next request,
    // with the identity headers that the client wrote (uWSGI's http11-socket does).
    closes:
      (upload !== undefined && !(expectsContent && head.contentLength !== undefined)) ||
      bindsConnection(fields, AUTHORIZATION),
  };
}
