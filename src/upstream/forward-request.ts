import type { CorsAnswer } from '../domain/cors.js';
import type { IncomingRequest, OutgoingResponse } from '../http/exchange.js';
import type { Refusal } from '../domain/refusal.js';
import type { RequestHead } from '../http/head.js';
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
  /** What the upstream is asked for, without the path of its address. */
  readonly target: string;
  /** Request headers for the upstream, flat. */
  readonly fields: string[];
  /** Fields to add to the answer, flat. */
  readonly responseFields: readonly string[];
  /** Whether the answer may be the script of a service worker, and widen its scope. */
  readonly allowsServiceWorker: boolean;
  /** What the answer says of the page that asked, in place of what the upstream says; null leaves that. */
  readonly cors: CorsAnswer | null;
  /** Called at most once, and only while no byte of an answer was sent. */
  readonly refuse: (refusal: Refusal) => void;
  /** Called once, when it is over. */
  readonly done: (outcome: ForwardOutcome) => void;
}

/** How it ended. */
export interface ForwardOutcome {
  /** Status of the upstream's answer; null when there was none. */
  readonly status: number | null;
  /** Who broke it off before its end; `abort` for {@link InFlight.abort}. */
  readonly aborted: 'client' | 'upstream' | 'abort' | null;
  /** `performance.now()` when it was sent, for the last time when it was sent again; null when it never was. */
  readonly sentAt: number | null;
  /** `performance.now()` of the head of the answer; null when there was none. */
  readonly firstByteAt: number | null;
}

export interface InFlight {
  /**
   * Breaks it off on both sides. A client whose answer has not begun gets the reason, unless it is a write that was sent:
   * what came of that is unknown. Any other sees that it broke, never a clean end.
   */
  abort(reason: Refusal): void;
}

/** Forwards an authorized request to its upstream and the answer back, both streamed. */
export type Forward = (request: ForwardRequest) => InFlight;

/** An authorized request as it is sent to one address of its upstream. */
export function requestTo(
  address: Address,
  { head, target, fields, upstream }: ForwardRequest,
  upload: Upload | undefined,
): UpstreamRequest {
  const { method } = head;
  // A server waits for a length where content is expected (RFC 9110 8.6).
  const expectsContent = definesContent(method);
  const none = expectsContent ? 0 : UNFRAMED;
  return {
    method,
    target: address.prefix + target,
    host: upstream.hostFor(head) ?? address.host,
    fields,
    body: upload,
    length: upload === undefined ? none : (head.contentLength ?? CHUNKED),
    closes: upload !== undefined && !expectsContent,
  };
}
