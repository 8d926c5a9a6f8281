import { CHUNK_END, CHUNKED, chunkStart, lastChunk, type Length } from '../http1/write.js';
import type { Refusal } from '../domain/refusal.js';
import type { IncomingRequest } from '../http/exchange.js';
import type { Socket } from 'node:net';
import { batchWrites, flushLarge } from '../net/socket.js';

export interface UpstreamRequest {
  readonly method: string;
  readonly target: string;
  readonly host: string;
  /** Flat list of names and values, without Host, Connection and framing fields. */
  readonly fields: readonly string[];
  readonly body: Upload | undefined;
  readonly length: Length;
  /**
   * Whether to close the connection after the request: an upstream that ignores unexpected content would
   * parse it as the next request, or the request authenticates the connection.
   */
  readonly closes: boolean;
}

/** Receives the response to a request. `onResponseEnd` or `onResponseError` is the last call. */
export interface ResponseHandler {
  connection: UpstreamExchange | undefined;
  /**
   * Called just before the upstream may receive part of the request.
   * @param peer the other end of the connection; undefined for a Unix socket
   */
  onRequestStart(peer: string | undefined): void;
  onInformational(): void;
  /** @param isWhole whether the response is known to end with its head: in gRPC, its fields are trailers */
  onResponseStart(status: number, reason: string, fields: readonly string[], isWhole?: boolean): void;
  /** Called when what arrived with the head is passed on, unless the response has ended by then. */
  onReadEnd(): void;
  /** @param chunk stays as it is unless {@link UpstreamExchange.release} is called */
  onResponseData(chunk: Buffer): void;
  onResponseEnd(trailers: readonly string[]): void;
  onResponseError(error: Error): void;
}

export interface Dispatcher {
  /** @param isRepeated whether it was just sent to this address in vain, so that it gets a new connection */
  dispatch(request: UpstreamRequest, handler: ResponseHandler, isRepeated?: boolean): void;
  destroy(): void;
}

export interface UpstreamExchange {
  /** Stops reading from the upstream until {@link resume}. Data already read is still delivered. */
  pause(): void;
  resume(): void;
  /** Releases the data of `onResponseData`, during that call: it may be overwritten. */
  release?(): void;
  abort(error: Error): void;
}

export const TOO_LARGE: Refusal = {
  refusal: 'body_too_large',
  detail: 'the body is longer than max_body of the route',
};

export interface Uploading {
  /** Whether a response is in progress, so that the client may be silent. */
  readonly isAnswering: boolean;
  uploadStarted(): void;
  /** Called when the upstream has accepted part of the body, or the body is complete. */
  uploadTaken(): void;
  uploadIdle(): void;
  /**
   * Called when the client left in the middle of the body, or the rest is malformed, too large or not as long as
   * its length says.
   * @param refusal the response, if there is one
   */
  uploadBroken(refusal?: Refusal): void;
}

export interface BodySink {
  /** Whether nothing written so far is still in memory. */
  readonly isFlushed?: boolean;
  /** Writes a chunk; if it returns false, {@link Upload.drained} follows when there is room. */
  write(chunk: Buffer): boolean;
  /** @param last the last chunk of a body of known length */
  end(last?: Buffer): void;
}

/**
 * Streams a request body with backpressure. Until {@link start} nothing is read, and it can go elsewhere. The
 * last chunk of a body of known length waits for the end of the client's body: the upstream must not accept a
 * body as complete that the client continues or aborts.
 */
export class Upload {
  readonly #req: IncomingRequest;
  readonly #idle: NodeJS.Timeout;
  readonly #owner: Uploading;
  #sink: BodySink | undefined;
  /** Chunks that a previous sink received in vain; the next one receives them first. */
  #takenBack: readonly Buffer[] = [];
  #isBlocked = false;
  #isWhole = false;
  #isDestroyed = false;
  /** Bytes that `max_body` still allows. */
  #left: number;
  /** Bytes of Content-Length that have not arrived; Infinity without it. */
  #expected: number;
  #last: Buffer | undefined;

  /** @param idleTimeout milliseconds that the client may pause */
  constructor(req: IncomingRequest, owner: Uploading, length: Length, idleTimeout: number, limit = Infinity) {
    this.#expected = length === CHUNKED ? Infinity : length;
    this.#left = limit;
    this.#req = req;
    this.#owner = owner;
    this.#idle = setTimeout(this.#onIdle, idleTimeout);
    req.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose).on('error', this.#onClose);
    req.on('malformed', this.#onMalformed);
    req.pause();
  }

  /** Whether none of the body was consumed, so that it can go to another connection. */
  get isUntouched(): boolean {
    return this.#sink === undefined && !this.#isDestroyed;
  }

  /** Whether the body is incomplete and the upstream is ready for more. */
  get isAwaited(): boolean {
    return !this.#isWhole && !this.#isDestroyed && !this.#isBlocked;
  }

  start(sink: BodySink): void {
    this.#sink = sink;
    this.#owner.uploadStarted();
    for (const chunk of this.#takenBack) sink.write(chunk);
    this.#takenBack = [];
    // An empty body may end before it is read.
    if (this.#isWhole) sink.end(this.#last);
    else this.#goOn();
  }

  /** @param chunks everything that its sink received, none of which the upstream processed */
  takeBack(chunks: readonly Buffer[]): void {
    if (this.#isDestroyed) return;
    this.#req.pause();
    this.#sink = undefined;
    this.#isBlocked = false;
    this.#takenBack = chunks;
  }

  drained(): void {
    if (!this.#isBlocked) return;
    this.#isBlocked = false;
    this.#goOn();
  }

  destroy(): void {
    this.#isDestroyed = true;
    clearTimeout(this.#idle);
    const req = this.#req;
    req
      .off('data', this.#onData)
      .off('end', this.#onEnd)
      .off('close', this.#onClose)
      .off('error', this.#onClose)
      .off('malformed', this.#onMalformed);
    req.on('error', () => undefined);
    // The rest is read and dropped; it must not block the next request.
    req.resume();
  }

  #goOn(): void {
    if (this.#isDestroyed) return;
    this.#owner.uploadTaken();
    this.#idle.refresh();
    this.#req.resume();
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#idle.refresh();
    this.#left -= chunk.length;
    if (this.#left < 0) {
      this.#owner.uploadBroken(TOO_LARGE);
      return;
    }
    const sink = this.#sink;
    // The rest would look like a whole body to an upstream that receives it in chunks.
    if (sink === undefined) throw new Error('a part of a body arrived before it was requested');
    const takesMore = this.#write(chunk, sink);
    if (sink.isFlushed === true && this.#last === undefined) this.#req.release?.();
    if (takesMore) {
      this.#owner.uploadTaken();
      return;
    }
    this.#isBlocked = true;
    this.#req.pause();
  };

  #write(chunk: Buffer, sink: BodySink): boolean {
    if (chunk.length === 0) return true;
    this.#expected -= chunk.length;
    if (this.#expected > 0) return sink.write(chunk);
    if (this.#expected === 0) this.#last = chunk;
    else this.#owner.uploadBroken();
    return true;
  }

  /** Handles a pause. While backpressure pauses the client, the pause is not the client's. */
  readonly #onIdle = (): void => {
    if (this.#req.isPaused() || this.#owner.isAnswering) this.#idle.refresh();
    else this.#owner.uploadIdle();
  };

  readonly #onEnd = (): void => {
    this.#isWhole = true;
    clearTimeout(this.#idle);
    if (this.#expected !== Infinity && this.#expected !== 0) {
      this.#owner.uploadBroken();
      return;
    }
    this.#owner.uploadTaken();
    this.#sink?.end(this.#last);
  };

  readonly #onMalformed = (refusal: Refusal): void => this.#owner.uploadBroken(refusal);

  readonly #onClose = (): void => {
    if (!this.#req.readableEnded) this.#owner.uploadBroken();
  };
}

/** Writes the body of one request after its head. */
export class RequestBodyWriter implements BodySink {
  /** Whether the head was sent, and perhaps a part of the body. */
  hasBegun = false;
  /** What was written while nothing was sent, for {@link takeBack}. */
  #unsent: Buffer[] = [];
  readonly #socket: Socket;
  readonly #isChunked: boolean;
  #isComplete = false;

  constructor(socket: Socket, length: Length) {
    this.#socket = socket;
    this.#isChunked = length === CHUNKED;
  }

  /** Whether the whole request was handed to the system. A batch may still hold its end back. */
  get isSent(): boolean {
    return this.#isComplete && this.#socket.writableLength === 0;
  }

  get isFlushed(): boolean {
    return this.#socket.writableLength === 0;
  }

  write(chunk: Buffer): boolean {
    const socket = this.#socket;
    this.#noteSent();
    if (!this.hasBegun) this.#unsent.push(chunk);
    batchWrites(socket);
    if (this.#isChunked) socket.write(chunkStart(chunk.length), 'latin1');
    const takesMore = socket.write(chunk);
    if (this.#isChunked) socket.write(CHUNK_END, 'latin1');
    const goesOn = flushLarge(socket, chunk.length, takesMore);
    this.#noteSent();
    return goesOn;
  }

  /** Returns everything that was written, without the last chunk of `end`. Only if nothing was sent. */
  takeBack(): readonly Buffer[] {
    return this.#unsent;
  }

  end(last?: Buffer): void {
    this.#noteSent();
    batchWrites(this.#socket);
    if (last !== undefined) this.#socket.write(last);
    if (this.#isChunked) this.#socket.write(lastChunk(), 'latin1');
    this.#isComplete = true;
  }

  /** The head is held back, if at all, until its socket is first uncorked. */
  #noteSent(): void {
    if (this.hasBegun || this.#socket.writableCorked > 0) return;
    this.hasBegun = true;
    this.#unsent = [];
  }
}
