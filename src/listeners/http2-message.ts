import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import type { IncomingRequest, OutgoingResponse } from '../http/exchange.js';
import { FollowedResponse, LazyEmitter } from './http1-message.js';
import { forbidsContent } from '../domain/methods.js';
import { isGrpcType } from '../http/http2-fields.js';
import { type Http2Fields, http2Fields } from '../http/http2.js';

/**
 * A request that its client resets never looks complete here, although node ends its body cleanly after
 * NO_ERROR.
 */
export class Http2Request extends LazyEmitter implements IncomingRequest {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly httpVersion = '2.0';
  readonly rawHeaders: readonly string[];
  readonly socket: Socket;
  readonly stream: ServerHttp2Stream;
  readableEnded: boolean;
  #isFlowing = false;
  #isRead = false;
  #isEmpty = false;
  #hasEnded: boolean;
  #known: (() => void) | undefined;
  /** The first part of the body, received before a reader asked for it. */
  #first: Buffer | undefined;

  /** @param rawHeaders flat, pseudo-header fields included */
  constructor(
    socket: Socket,
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: readonly string[],
  ) {
    super();
    this.socket = socket;
    this.stream = stream;
    this.method = headers[':method'];
    this.url = headers[':path'];
    this.rawHeaders = rawHeaders;
    this.readableEnded = stream.endAfterHeaders;
    this.#hasEnded = this.readableEnded;
    // A lost stream is noticed when it closes.
    stream.on('error', ignore);
    if (this.#hasEnded) return;
    stream.once('end', this.#onEnd).once('aborted', this.#onClose).once('close', this.#onClose);
  }

  /** @param patience milliseconds */
  whenKnown(known: () => void, patience: number): void {
    const { stream } = this;
    const timer = setTimeout(() => this.#tell(), patience);
    this.#known = () => {
      clearTimeout(timer);
      known();
    };
    this.#isRead = true;
    stream.on('data', this.#onData).resume();
  }

  #tell(): void {
    const known = this.#known;
    this.#known = undefined;
    if (!this.#hasEnded) this.stream.pause();
    known?.();
  }

  isPaused(): boolean {
    return !this.#isFlowing;
  }

  pause(): this {
    this.#isFlowing = false;
    this.stream.pause();
    return this;
  }

  resume(): this {
    this.#isFlowing = true;
    if (this.#hasEnded) return this;
    if (!this.#isRead) this.stream.on('data', this.#onData);
    this.#isRead = true;
    if (this.#first !== undefined) process.nextTick(this.#emitFirst);
    else if (this.#isEmpty) process.nextTick(this.#onEnd);
    else this.stream.resume();
    return this;
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#known !== undefined) {
      this.#first = chunk;
      this.#tell();
    } else if (!this.#hasEnded) this.emit('data', chunk);
  };

  readonly #emitFirst = (): void => {
    const first = this.#first;
    if (first === undefined || !this.#isFlowing || this.#hasEnded) return;
    this.#first = undefined;
    this.emit('data', first);
    if (this.#isFlowing) this.resume();
  };

  readonly #onEnd = (): void => {
    if (this.#hasEnded) return;
    // Node emits the end of an empty body at once, even while the stream is paused.
    if (!this.#isRead || this.#first !== undefined) {
      this.#isEmpty = true;
      return;
    }
    this.#hasEnded = true;
    this.readableEnded = true;
    if (this.#known === undefined) this.emit('end');
    else this.#tell();
  };

  readonly #onClose = (): void => {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    if (this.#known === undefined) this.emit('close');
    else this.#tell();
  };
}

const UNSENT_MS = 20;

/** Streams that were aborted by this side. */
const abortedLocally = new WeakSet<object>();

/** Whether a closed stream was aborted by its client, or because of what the client sent. */
export function isAbortedByClient(stream: ServerHttp2Stream): boolean {
  return stream.aborted && !abortedLocally.has(stream);
}

export class Http2Response extends FollowedResponse implements OutgoingResponse {
  /** Whether trailers may follow: any body, but only gRPC needs them after one of known length. */
  chunkedEncoding = false;
  readonly #request: Http2Request;
  readonly #stream: ServerHttp2Stream;
  #hasBody = true;
  /** Whether trailers can end the body at any moment, with the status of a gRPC call. */
  #endsEarly = false;
  #isEnded = false;
  #trailers: Http2Fields = {};

  constructor(request: Http2Request) {
    super();
    const { stream } = request;
    this.#request = request;
    this.#stream = stream;
    stream.on('drain', this.#onDrain).on('close', this.#onClose);
  }

  get headersSent(): boolean {
    return this.#stream.headersSent;
  }

  get destroyed(): boolean {
    return this.#stream.closed || abortedLocally.has(this.#stream);
  }

  get writableNeedDrain(): boolean {
    return this.#stream.writableNeedDrain;
  }

  writeHead(status: number, _reason: string, fields: readonly string[], isWhole = false): this {
    if (this.destroyed) return this;
    const headers = http2Fields(fields);
    const length = headers['content-length'];
    headers[':status'] = String(status);
    const isGrpc = isGrpcType(headers['content-type'] as string | undefined);
    const hasContent = !isWhole && this.#request.method !== 'HEAD' && !forbidsContent(status);
    this.#hasBody = hasContent && (isGrpc || length !== '0');
    this.#endsEarly = isGrpc && length === undefined;
    this.chunkedEncoding = this.#hasBody && (isGrpc || length === undefined);
    if (this.chunkedEncoding) this.#stream.once('wantTrailers', this.#onWantTrailers);
    this.#stream.respond(headers, { endStream: !this.#hasBody, waitForTrailers: this.chunkedEncoding });
    return this;
  }

  write(chunk: Buffer | string, encoding: 'latin1' | 'utf8' = 'latin1'): boolean {
    if (this.#isEnded || !this.#hasBody || chunk.length === 0 || this.destroyed) return true;
    this.bytesSent += encoding === 'latin1' ? chunk.length : Buffer.byteLength(chunk);
    return this.#stream.write(chunk, encoding);
  }

  /** If the request body is incomplete, the client is asked to stop sending it (RFC 9113 8.1). */
  end(chunk?: Buffer | string): this {
    if (this.#isEnded || this.destroyed) return this;
    if (chunk !== undefined) this.write(chunk, 'utf8');
    this.#isEnded = true;
    const stream = this.#stream;
    stream.end();
    if (!this.#request.readableEnded) closeWhenSent(stream);
    return this;
  }

  flushHeaders(): void {
    return undefined;
  }

  writeContinue(): void {
    if (!this.headersSent && !this.destroyed) this.#stream.additionalHeaders({ ':status': 100 });
  }

  addTrailers(trailers: readonly (readonly [string, string])[]): void {
    this.#trailers = http2Fields(trailers.flat());
  }

  endGrpc(trailers: readonly (readonly [string, string])[]): boolean {
    if (!this.#endsEarly || !this.#hasBody || this.#isEnded || this.destroyed) return false;
    this.addTrailers(trailers);
    this.end();
    return true;
  }

  /** The client receives INTERNAL_ERROR: Node's default, NO_ERROR, would look like a clean end. */
  destroy(): this {
    const stream = this.#stream;
    if (stream.destroyed || abortedLocally.has(stream)) return this;
    // The client may have ended it before, for example in the middle of its body.
    if (!stream.aborted) abortedLocally.add(stream);
    // Never within a read of the connection: see `deferOutOfReads`.
    setImmediate(() => stream.destroy(new Error('the response was aborted')));
    return this;
  }

  readonly #onDrain = (): void => {
    this.drained();
  };

  readonly #onClose = (): void => {
    this.closed();
  };

  readonly #onWantTrailers = (): void => {
    this.#stream.sendTrailers(this.#trailers);
  };
}

function ignore(): void {
  return undefined;
}

/**
 * Closes a stream when its response is sent. Closed earlier and destroyed meanwhile, it would leave its
 * response in nghttp2, which then produces empty frames forever (Node 20.20, `Http2Stream::SubmitRstStream`).
 */
function closeWhenSent(stream: ServerHttp2Stream): void {
  const close = (): void => {
    if (stream.closed) return;
    // Trailers, and data that a slow client has not read, may still be in nghttp2, which drops them on a
    // reset.
    if (stream.state.localClose === 1) stream.close(constants.NGHTTP2_NO_ERROR);
    else setTimeout(close, UNSENT_MS).unref();
  };
  // Never at once: a head alone counts as sent before nghttp2 has it, and a reset would overtake it (Node
  // 26). Also, this may run within a read of the connection: see `deferOutOfReads`.
  if (stream.writableFinished) setImmediate(close);
  else stream.once('finish', () => setImmediate(close));
}
