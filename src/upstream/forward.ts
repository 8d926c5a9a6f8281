// src/upstream: addresses, health, connections, retries; headers; the forwarder.
// May import endpoints and all below.
// `createForward` sends an allowed request; `upgrade.ts` opens WebSockets.

import type { CorsHeaders } from '../domain/cors.js';
import type { Subject } from '../domain/credential.js';
import type { IncomingRequest, OutgoingResponse, ResponseFollower } from '../http/exchange.js';
import type { Refusal } from '../domain/refusal.js';
import { AUTHORIZATION, bindsConnection } from '../http/authorization.js';
import type { RequestHead } from '../http/head.js';
import type { RouteLimits } from '../policy/route.js';
import {
  type FastTimeout,
  type FastTimeouts,
  RetryState,
  type TimeoutListener,
  type Upstream,
  type Waits,
} from './upstreams.js';
import { definesContent, isRead } from '../domain/methods.js';
import { CHUNKED, UNFRAMED } from '../http1/write.js';
import type { Address } from './address.js';
import {
  type ResponseHandler,
  TOO_LARGE,
  Upload,
  type Uploading,
  type UpstreamExchange,
  type UpstreamRequest,
} from './upstream-request.js';
import type { Permit, Use } from '../domain/limiter.js';
import { type Holder, holderOf } from '../domain/shares.js';
import { isGrpcCall } from '../http/http2-fields.js';
import { abandon, breakOff, endResponse, responseHeaders, responseTrailers, writePart } from './response.js';
import { GAVE_WAY, QUEUE_FULL, refusalOf, UpstreamFault, WAITED_TOO_LONG } from './faults.js';
import { performance } from 'node:perf_hooks';

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
  readonly subject: Subject | null;
  readonly owner: ForwardOwner;
}

export interface ForwardOwner {
  /** Called at most once, and only before any byte of a response was sent. */
  forwardRefused(refusal: Refusal): void;
  forwardEnded(outcome: ForwardOutcome): void;
}

export interface ForwardOutcome {
  readonly status: number | null;
  /** The other end of the connection that it was sent over; undefined if it never was. */
  readonly upstreamAddress: string | undefined;
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

const TOO_SLOW: Refusal = { refusal: 'too_slow', detail: 'the request body stalled' };

class ForwardHandler implements ResponseHandler, Use, TimeoutListener, Uploading, ResponseFollower, InFlight {
  readonly #request: ForwardRequest;
  readonly #ownCookies: readonly string[];
  connection: UpstreamExchange | undefined;
  #upload: Upload | undefined;
  readonly #waits: Waits;
  readonly #retries: RetryState;
  #permit: Permit | undefined;
  /** The timeout in force: for the first byte of the response, or for each next one. */
  #timeouts: FastTimeouts | undefined;
  #timeout: FastTimeout | undefined;
  #hasInformational = false;
  #status: number | null = null;
  #received: readonly string[] = [];
  #sentAt: number | null = null;
  #firstByteAt: number | null = null;
  #hasWritten = false;
  /** Runs while the client does not read. */
  #stall: NodeJS.Timeout | undefined;
  #over = false;

  constructor(request: ForwardRequest, ownCookies: readonly string[]) {
    this.#request = request;
    this.#ownCookies = ownCookies;
    const { upstream, limits } = request;
    this.#waits = upstream.waitsOf(limits);
    this.#retries = new RetryState(upstream);
  }

  start(): void {
    const { head, limits, upstream, res } = this.#request;
    if (limits?.maxBody !== undefined && (head.contentLength ?? 0) > limits.maxBody) {
      this.#finish(null, TOO_LARGE);
      return;
    }
    this.#permit = upstream.limiter.acquire(this);
    if (this.#permit === undefined) {
      this.#finish(null, QUEUE_FULL);
      return;
    }
    if (this.#over) return;
    res.follower = this;
    if (this.#permit.isHeld) this.go();
  }

  go(): void {
    if (this.#over) return;
    const { head, req, limits } = this.#request;
    if (head.hasBody) {
      const { contentLength = CHUNKED } = head;
      this.#upload = new Upload(req, this, contentLength, this.#waits.idleTimeout, limits?.maxBody);
    }
    this.#dispatch(this.#retries.begin());
  }

  get holder(): Holder {
    const { head, subject } = this.#request;
    return holderOf(head.client.address, subject);
  }

  leave(why: 'waited' | 'yielded'): void {
    if (this.#over) return;
    if (why === 'waited') this.#finish(null, WAITED_TOO_LONG);
    else this.#cutShort('yielded', GAVE_WAY);
  }

  abort(reason: Refusal): void {
    if (this.#over) return;
    const { head, req } = this.#request;
    // A 401 states that the request was not applied (RFC 9110 15.5.2), which is unknown for a write that was
    // sent. A gRPC status makes no such statement.
    this.#cutShort('abort', reason, isRead(head.method) || !this.#retries.sent || isGrpcCall(req));
  }

  /** Aborts both sides. @param mayRefuse whether the reason may be a response, if none has begun */
  #cutShort(aborted: 'client' | 'abort' | 'yielded', reason: Refusal, mayRefuse = true): void {
    const { res } = this.#request;
    if (mayRefuse && !res.headersSent) {
      this.#giveUp(aborted, reason);
      return;
    }
    this.#giveUp(aborted);
    breakOff(res, reason);
  }

  #dispatch(address: Address): void {
    this.#sentAt = performance.now();
    address.pool.dispatch(requestTo(address, this.#request, this.#upload), this, this.#retries.isRepeated);
  }

  onRequestStart(peer: string | undefined): void {
    this.#retries.begun(peer);
    this.#beginTimeout(this.#waits.firstByte);
  }

  /** Counts as progress only: informational responses are not forwarded. */
  onInformational(): void {
    this.#hasInformational = true;
    this.#renewTimeout();
  }

  onResponseStart(status: number, reason: string, raw: readonly string[], isWhole?: boolean): void {
    const { res, responseFields, allowsServiceWorker, cors } = this.#request;
    this.#endTimeout();
    this.#retries.answered();
    this.#firstByteAt = performance.now();
    res.writeHead(
      status,
      reason,
      responseHeaders(status, raw, responseFields, this.#ownCookies, allowsServiceWorker, cors),
      isWhole,
    );
    this.#status = status;
    this.#received = raw;
  }

  onResponseData(chunk: Buffer): void {
    this.#renewTimeout();
    const { res } = this.#request;
    const takesMore = writePart(res, chunk, !this.#hasWritten);
    this.#hasWritten = true;
    if (!takesMore && this.#stall === undefined) {
      this.#stall = setTimeout(abandon, this.#waits.idleTimeout, res);
      this.connection?.pause();
    }
    if (res.isFlushed === true) this.connection?.release?.();
  }

  onResponseEnd(trailers: readonly string[]): void {
    if (this.#over) return;
    const { req, res, responseFields, cors } = this.#request;
    if (trailers.length > 0 && res.chunkedEncoding) {
      try {
        res.addTrailers(responseTrailers(trailers, this.#received, responseFields, cors !== null));
      } catch (error) {
        this.onResponseError(error as Error);
        return;
      }
    }
    this.#finish(null);
    endResponse(req, res, this.#upload !== undefined, this.#waits.idleTimeout);
  }

  onResponseError(error: Error): void {
    if (this.#over) return;
    this.#endTimeout();
    const { head, res } = this.#request;
    if (res.headersSent) {
      // The response has begun: the client must see an abort, never a clean end. Chunks of this tick are sent
      // first.
      this.#finish('upstream');
      process.nextTick(breakOff, res, refusalOf(error, true));
      return;
    }
    const upload = this.#upload;
    const bodyUnsent = !res.destroyed && upload?.isUntouched !== false;
    const idempotent =
      !res.destroyed && upload === undefined && !this.#hasInformational && isRead(head.method);
    const next = this.#retries.nextAddress(error, bodyUnsent, idempotent);
    if (next !== undefined) this.#dispatch(next);
    else this.#finish('upstream', refusalOf(error, this.#retries.sent));
  }

  onReadEnd(): void {
    if (this.#over) return;
    this.#beginTimeout(this.#waits.nextByte);
    // As in event streams and slow bodies.
    if (!this.#hasWritten) this.#request.res.flushHeaders();
  }

  /** Aborts the request, unless it waits for the client. */
  onTimeout(): void {
    const isClients = this.#status === null ? this.#upload?.isAwaited : this.#stall !== undefined;
    if (isClients === true) this.#renewTimeout();
    else
      this.connection?.abort(
        this.#status === null
          ? new UpstreamFault(this.#waits.noResponse, 'UND_ERR_HEADERS_TIMEOUT')
          : new UpstreamFault(this.#waits.noData, 'UND_ERR_BODY_TIMEOUT'),
      );
  }

  #beginTimeout(timeouts: FastTimeouts): void {
    this.#timeouts = timeouts;
    this.#timeout = timeouts.begin(this);
  }

  #renewTimeout(): void {
    if (this.#timeout !== undefined) this.#timeouts?.renew(this.#timeout);
  }

  #endStall(): void {
    clearTimeout(this.#stall);
    this.#stall = undefined;
  }

  #endTimeout(): void {
    if (this.#timeout !== undefined) this.#timeouts?.end(this.#timeout);
    this.#timeout = undefined;
  }

  /**
   * Ends the request, once. Resources are released first, because a callback may end it again.
   * @param refusal the response to the client; undefined if its response has begun
   */
  #finish(aborted: ForwardOutcome['aborted'], refusal?: Refusal): void {
    if (this.#over) return;
    this.#over = true;
    const { res, owner } = this.#request;
    this.#endStall();
    this.#endTimeout();
    this.#retries.end();
    this.#permit?.release();
    res.follower = undefined;
    this.#upload?.destroy();
    if (refusal !== undefined) owner.forwardRefused(refusal);
    owner.forwardEnded({
      status: this.#status,
      upstreamAddress: this.#retries.peer,
      aborted,
      sentAt: this.#sentAt,
      firstByteAt: this.#firstByteAt,
    });
  }

  #giveUp(aborted: 'client' | 'abort' | 'yielded', refusal?: Refusal): void {
    const { connection } = this;
    this.#finish(aborted, refusal);
    connection?.abort(new Error('given up'));
  }

  drained(): void {
    if (this.#over || this.#stall === undefined) return;
    this.#endStall();
    this.#renewTimeout();
    this.connection?.resume();
  }

  clientClosed(): void {
    if (this.#over) return;
    this.#giveUp('client');
  }

  get isAnswering(): boolean {
    return (
      this.#status !== null && this.#timeout !== undefined && this.#timeouts?.isFresh(this.#timeout) === true
    );
  }

  uploadStarted(): void {
    if (this.#request.head.expectsContinue && !this.#request.res.headersSent)
      this.#request.res.writeContinue();
  }

  uploadTaken(): void {
    this.#renewTimeout();
  }

  uploadIdle(): void {
    if (!this.#over) this.#cutShort('client', TOO_SLOW);
  }

  uploadBroken(refusal?: Refusal): void {
    if (refusal !== undefined) {
      this.#giveUp('client', refusal);
      return;
    }
    this.clientClosed();
    this.#request.res.destroy();
  }
}

export function createForward(ownCookies: readonly string[]): Forward {
  return (request) => {
    const handler = new ForwardHandler(request, ownCookies);
    handler.start();
    return handler;
  };
}
