import { type Dispatcher, errors } from 'undici';
import { isRead } from '../domain/methods.js';
import type { Refusal } from '../domain/refusal.js';
import { hasBody } from '../http/head.js';
import type { Address } from './address.js';
import { follow, type Following, unfollow } from './client-side.js';
import type { Connection, OnConnection } from './connection.js';
import type { ConnectionWaiter, Permit } from './connection-limiter.js';
import { hasFraming, responseHeaders, responseTrailers, isBodiless } from './response-headers.js';
import type { InFlight, ForwardRequest, ForwardOutcome } from './forward-request.js';
import type { TimeoutListener } from './fast-timeouts.js';
import { poolRequest } from './pool-request.js';
import { ResponseWriter } from './response-writer.js';
import { type Resendable, RetryState } from './retry-state.js';
import { refusalOf } from './faults.js';
import { Upload, type Uploading } from './upload.js';
import { UpstreamTimeout } from './upstream-timeout.js';

/** Informational answers (1xx) that an upstream may send before the real one; they are not passed on. */
const MAX_INFORMATIONAL = 50;

/**
 * One request and its answer. It is the handler that undici calls: its raw form, because building
 * objects of fields and promises costs a third of the whole.
 */
export class ForwardHandler
  implements
    Dispatcher.DispatchHandler,
    ConnectionWaiter,
    TimeoutListener,
    Uploading,
    Following,
    InFlight,
    OnConnection
{
  readonly #request: ForwardRequest;
  readonly #sessionCookie: string;
  /** Set by the connection that it is sent on. */
  connection: Connection | undefined;
  #upload: Upload | undefined;
  #abort: ((reason?: Error) => void) | undefined;
  readonly #response: ResponseWriter;
  readonly #timeout: UpstreamTimeout;
  readonly #retries: RetryState;
  #permit: Permit | undefined;
  #informational = 0;
  #status: number | null = null;
  #sentAt: number | null = null;
  #firstByteAt: number | null = null;
  #over = false;

  constructor(request: ForwardRequest, sessionCookie: string) {
    this.#request = request;
    this.#sessionCookie = sessionCookie;
    const { req, res, upstream } = request;
    this.#response = new ResponseWriter(req, res, upstream.settings.idle_timeout);
    this.#timeout = new UpstreamTimeout(upstream, this);
    this.#retries = new RetryState(upstream);
  }

  start(): void {
    const { upstream, res } = this.#request;
    this.#permit = upstream.limiter.acquire(this);
    if (this.#permit === undefined) {
      this.#finish(null, { refusal: 'overloaded', detail: 'Too many requests wait for the upstream' });
      return;
    }
    follow(res, this);
    if (this.#permit.isHeld) this.go();
  }

  go(): void {
    if (this.#over) return;
    const { head, req, upstream, fields } = this.#request;
    if (hasBody(head)) {
      this.#upload = new Upload(req, this, upstream.settings.idle_timeout);
      // Only a failed handler destroys it, and that is reported through onError.
      this.#upload.on('error', () => undefined);
      if (head.contentLength !== undefined) fields.push('Content-Length', String(head.contentLength));
    }
    const host = upstream.hostFor(head);
    if (host !== undefined) fields.push('Host', host);
    this.#dispatch(this.#retries.begin());
  }

  giveUp(): void {
    this.#finish(null, {
      refusal: 'overloaded',
      detail: 'The upstream is busy and the request waited too long for it',
    });
  }

  abort(): void {
    if (this.#over) return;
    this.#finish('cut');
    this.#request.res.destroy();
    this.#abort?.(new Error('the request was cut'));
  }

  #dispatch(address: Address): void {
    this.#sentAt = performance.now();
    try {
      address.pool.dispatch(poolRequest(this.#request, address, this.#upload), this);
    } catch (error) {
      this.onError(error as Error);
    }
  }

  onConnect(abort: (reason?: Error) => void): void {
    this.#abort = abort;
    this.#retries.sent = true;
    if (this.#over) abort();
    else this.#timeout.awaitFirstByte();
  }

  onHeaders(status: number, raw: Buffer[], _resume: () => void, statusText: string): boolean {
    if (this.#over) return false;
    if (status < 200) {
      this.#informational += 1;
      // Nobody asked for next protocol.
      if (status < 100 || status === 101) throw new Error('an answer that means nothing here');
      if (this.#informational > MAX_INFORMATIONAL) throw new Error('too many informational answers');
      this.#timeout.renew();
      return true;
    }
    const { res, responseFields, allowsServiceWorker } = this.#request;
    this.#timeout.end();
    this.#retries.answered();
    this.#firstByteAt = performance.now();
    res.writeHead(
      status,
      statusText,
      responseHeaders(status, raw, responseFields, this.#sessionCookie, allowsServiceWorker),
    );
    this.#status = status;
    // Its head is all of it. undici waits for the bytes of its Content-Length, which may tell those of next answer.
    if (isBodiless(status)) this.onComplete(null);
    else process.nextTick(flushHead, this);
    return true;
  }

  onData(chunk: Buffer): boolean {
    this.#timeout.renew();
    if (this.#response.write(chunk)) this.connection?.hold();
    return true;
  }

  onComplete(trailers: string[] | null): void {
    if (trailers !== null && hasFraming(trailers)) this.connection?.retire();
    if (this.#over) return;
    if (this.connection?.isBroken === true) {
      this.onError(new errors.SocketError('the connection broke in the middle of the answer'));
      return;
    }
    const { res, responseFields } = this.#request;
    if (trailers !== null && trailers.length > 0 && res.chunkedEncoding)
      res.addTrailers(responseTrailers(trailers, responseFields));
    this.#finish(null);
    this.#response.end(this.#upload !== undefined);
  }

  onError(error: Error): void {
    if (this.#over) return;
    this.#timeout.end();
    const { res } = this.#request;
    if (res.headersSent) {
      // The answer began: the client must see it break, never a clean end.
      this.#finish('upstream');
      res.destroy();
      return;
    }
    const next = this.#retries.nextAddress(error, this.#repeatable());
    if (next !== undefined) this.#dispatch(next);
    else this.#finish('upstream', refusalOf(error, this.#retries.sent));
  }

  /** Flushes the head if no chunk arrived in the same tick. */
  flush(): void {
    if (this.#over) return;
    this.#timeout.awaitNextByte();
    this.#response.flushHead();
  }

  /** Ends it, unless it is the client who is waited for. */
  onTimeout(): void {
    const isClients = this.#status === null ? this.#upload?.isAwaited : this.#response.isStalled;
    if (isClients === true) this.#timeout.renew();
    else
      this.#abort?.(this.#status === null ? new errors.HeadersTimeoutError() : new errors.BodyTimeoutError());
  }

  #repeatable(): Resendable {
    const { head, res } = this.#request;
    const upload = this.#upload;
    return {
      bodyUnsent: !res.destroyed && upload?.isUntouched !== false,
      idempotent: !res.destroyed && upload === undefined && this.#informational === 0 && isRead(head.method),
    };
  }

  /**
   * Ends it, once. What it holds is released before any callback, which may end it again.
   *
   * @param refusal the answer to the client; undefined when its answer began
   */
  #finish(aborted: ForwardOutcome['aborted'], refusal?: Refusal): void {
    if (this.#over) return;
    this.#over = true;
    const { res, refuse, done } = this.#request;
    this.#response.resume();
    this.connection?.release(false);
    this.#timeout.end();
    this.#retries.end();
    this.#permit?.release();
    unfollow(res);
    this.#upload?.destroy();
    if (refusal !== undefined) refuse(refusal);
    done({ status: this.#status, aborted, sentAt: this.#sentAt, firstByteAt: this.#firstByteAt });
  }

  /** The client took what waited for it. */
  drained(): void {
    this.#response.resume();
    if (this.#over) return;
    this.#timeout.renew();
    this.connection?.release(true);
  }

  clientClosed(): void {
    if (this.#over) return;
    this.#finish('client');
    this.#abort?.(new Error('the client is gone'));
  }

  uploadStarted(): void {
    if (this.#request.head.expectsContinue && !this.#request.res.headersSent)
      this.#request.res.writeContinue();
  }

  uploadTaken(): void {
    this.#timeout.renew();
  }

  uploadIdle(): void {
    if (this.#over) return;
    const { res } = this.#request;
    if (res.headersSent) {
      this.#finish('client');
      res.destroy();
    } else this.#finish('client', { refusal: 'too_slow', detail: 'the body of the request stopped coming' });
    this.#abort?.(new Error('the client stopped sending'));
  }

  uploadBroken(): void {
    this.clientClosed();
    this.#request.res.destroy();
  }
}

function flushHead(handler: ForwardHandler): void {
  try {
    handler.flush();
  } catch (error) {
    handler.onError(error as Error);
  }
}
