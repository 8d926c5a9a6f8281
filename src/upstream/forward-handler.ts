import type { ServerResponse } from 'node:http';
import { type Dispatcher, errors } from 'undici';
import { definesContent, isRead } from '../domain/methods.js';
import type { Refusal } from '../domain/refusal.js';
import { hasBody } from '../http/head.js';
import { endInOnePiece } from '../http/one-piece.js';
import { lingeringEnd, limitRest } from '../http/write-reply.js';
import type { Address } from './address.js';
import { awaitDrain, destroyUnlessTaken, follow, type Following, unfollow } from './client-side.js';
import type { Connection, OnConnection } from './connection.js';
import type { ConnectionWaiter, Permit } from './connection-limiter.js';
import { hasFraming, responseHeaders, responseTrailers, isBodiless } from './response-headers.js';
import type { InFlight, ForwardRequest, ForwardOutcome } from './forward-request.js';
import type { FastTimeout, TimeoutListener, FastTimeouts } from './fast-timeouts.js';
import { type Resendable, RetryState } from './retry-state.js';
import { refusalOf } from './faults.js';
import { Upload, type Uploading } from './upload.js';

/** What undici takes; its types lack the last one. */
interface PoolRequest extends Dispatcher.DispatchOptions {
  readonly servername: string | undefined;
}

/** Informational answers (1xx) that an upstream may send before the real one; they are not passed on. */
const MAX_INFORMATIONAL = 50;

/** Bytes of a body that are sent together with the head; the system call for a string takes 16 KiB without memory of its own. */
const MAX_JOINED = 8 * 1024;

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
  #stalled: NodeJS.Timeout | undefined;
  /** For the upstream: its first byte while there is no status, then the next one. */
  #timeout: FastTimeout | undefined;
  readonly #retries: RetryState;
  #permit: Permit | undefined;
  #informational = 0;
  #status: number | null = null;
  #sentAt: number | null = null;
  #firstByteAt: number | null = null;
  #wrote = false;
  /** All of the body that came so far was written together with the head. */
  #onePiece = false;
  #over = false;

  constructor(request: ForwardRequest, sessionCookie: string) {
    this.#request = request;
    this.#sessionCookie = sessionCookie;
    this.#retries = new RetryState(request.upstream);
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
    const { head, target, fields } = this.#request;
    const options: PoolRequest = {
      method: head.method,
      path: address.prefix + target,
      headers: fields,
      body: this.#upload ?? null,
      servername: address.poolServerName,
    };
    // An upstream that leaves the content unread would take it for the next request.
    if (this.#upload !== undefined && !definesContent(head.method)) options.reset = true;
    this.#sentAt = performance.now();
    try {
      address.pool.dispatch(options, this);
    } catch (error) {
      this.onError(error as Error);
    }
  }

  onConnect(abort: (reason?: Error) => void): void {
    this.#abort = abort;
    this.#retries.sent = true;
    if (this.#over) abort();
    else this.#timeout = this.#request.upstream.firstByte.begin(this);
  }

  onHeaders(status: number, raw: Buffer[], _resume: () => void, statusText: string): boolean {
    if (this.#over) return false;
    if (status < 200) {
      this.#informational += 1;
      // Nobody asked for next protocol.
      if (status < 100 || status === 101) throw new Error('an answer that means nothing here');
      if (this.#informational > MAX_INFORMATIONAL) throw new Error('too many informational answers');
      this.#renewWait();
      return true;
    }
    const { res, responseFields, allowsServiceWorker } = this.#request;
    this.#endWait();
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
    const { res, upstream } = this.#request;
    this.#renewWait();
    this.#onePiece = !this.#wrote && chunk.length <= MAX_JOINED && !res.chunkedEncoding;
    this.#wrote = true;
    // As a string it joins its head.
    if (this.#onePiece ? res.write(chunk.toString('latin1'), 'latin1') : res.write(chunk)) return true;
    if (this.#stalled === undefined) {
      this.#stalled = awaitDrain(res, upstream.settings.idle_timeout);
      this.connection?.hold();
    }
    return true;
  }

  onComplete(trailers: string[] | null): void {
    if (trailers !== null && hasFraming(trailers)) this.connection?.retire();
    if (this.#over) return;
    if (this.connection?.isBroken === true) {
      this.onError(new errors.SocketError('the connection broke in the middle of the answer'));
      return;
    }
    const { req, res, responseFields, upstream } = this.#request;
    if (trailers !== null && trailers.length > 0 && res.chunkedEncoding)
      res.addTrailers(responseTrailers(trailers, responseFields));
    this.#wrote = true;
    this.#finish(null);
    if (this.#upload !== undefined && !req.readableEnded && closesBehind(res)) {
      // Closed while the client still sends, its connection would be reset, and the answer might be lost with it.
      res.flushHeaders();
      lingeringEnd(req, res);
    } else {
      if (this.#upload !== undefined && !req.readableEnded) limitRest(req);
      if (this.#onePiece) endInOnePiece(res);
      else res.end();
    }
    if (res.writableLength > 0) destroyUnlessTaken(res, upstream.settings.idle_timeout);
  }

  onError(error: Error): void {
    if (this.#over) return;
    this.#endWait();
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

  /** What came at once is taken in. Sends the head when its body did not come along with it: event streams and slow bodies. */
  flush(): void {
    if (this.#over) return;
    this.#timeout = this.#request.upstream.nextByte.begin(this);
    if (!this.#wrote) this.#request.res.flushHeaders();
  }

  /** Ends it, unless it is the client who is waited for. */
  onTimeout(): void {
    const isClients = this.#status === null ? this.#upload?.isAwaited : this.#stalled !== undefined;
    if (isClients === true) this.#renewWait();
    else
      this.#abort?.(this.#status === null ? new errors.HeadersTimeoutError() : new errors.BodyTimeoutError());
  }

  #renewWait(): void {
    if (this.#timeout !== undefined) this.#timeouts.renew(this.#timeout);
  }

  #endWait(): void {
    if (this.#timeout !== undefined) this.#timeouts.end(this.#timeout);
    this.#timeout = undefined;
  }

  get #timeouts(): FastTimeouts {
    const { firstByte, nextByte } = this.#request.upstream;
    return this.#status === null ? firstByte : nextByte;
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
   * Ends it, once. What it holds is given back before anybody is told, because the callee may end it again.
   *
   * @param refusal the answer to the client; undefined when its answer began
   */
  #finish(aborted: ForwardOutcome['aborted'], refusal?: Refusal): void {
    if (this.#over) return;
    this.#over = true;
    const { res, refuse, done } = this.#request;
    clearTimeout(this.#stalled);
    this.connection?.release(false);
    this.#endWait();
    this.#retries.end();
    this.#permit?.release();
    unfollow(res);
    this.#upload?.destroy();
    if (refusal !== undefined) refuse(refusal);
    done({ status: this.#status, aborted, sentAt: this.#sentAt, firstByteAt: this.#firstByteAt });
  }

  /** The client took what waited for it. */
  drained(): void {
    clearTimeout(this.#stalled);
    this.#stalled = undefined;
    if (this.#over) return;
    this.#renewWait();
    this.connection?.release(true);
  }

  /** The connection of the client closed. */
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
    this.#renewWait();
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

/** Whether the connection closes behind an answer. That of HTTP/2 never does, and has no such property. */
function closesBehind(res: ServerResponse): boolean {
  return 'shouldKeepAlive' in res && !res.shouldKeepAlive;
}

function flushHead(handler: ForwardHandler): void {
  try {
    handler.flush();
  } catch (error) {
    handler.onError(error as Error);
  }
}
