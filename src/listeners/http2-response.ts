import { constants, type ServerHttp2Stream } from 'node:http2';
import { forbidsContent } from '../domain/methods.js';
import type { OutgoingResponse } from '../http/exchange.js';
import { isGrpcType } from '../http/http2-fields.js';
import { type Http2Fields, http2Fields } from '../http/http2.js';
import { FollowedResponse } from './lazy-emitter.js';
import type { Http2Request } from './http2-request.js';

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
    // A lost stream is noticed when it closes.
    stream.on('error', ignore);
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
