import { STATUS_CODES, validateHeaderValue } from 'node:http';
import { type ClientHttp2Stream, constants } from 'node:http2';
import { type Http2Fields, http2Fields } from '../http/http2.js';
import { DEFAULT_LIMITS } from '../http1/limits.js';
import { UnwritableMessage } from '../http1/write.js';
import { InvalidUpstreamResponse, isTimeout, NotProcessed } from './faults.js';
import type { OpenSession } from './http2-connect.js';
import { faultOfStream } from './http2-faults.js';
import type { BodySink } from './upload.js';
import type { ResponseHandler, UpstreamExchange, UpstreamRequest } from './upstream-request.js';

/** Bytes of a body that are kept until its answer begins. */
const MAX_KEPT = 65_536;

/** What an exchange is on. */
export interface ExchangeOwner {
  /** Requests above this stream were not processed, as the upstream says. */
  readonly lastStream: number;
  /** It was given up before it was sent. */
  withdrawn(exchange: Http2Exchange): void;
  /** Its answer begins, or it ends without one. */
  settled(): void;
  /** Its stream is closed. */
  closed(): void;
  /** Nothing came from the upstream for long. */
  silent(): void;
}

/**
 * One request on a stream of HTTP/2, with its answer.
 *
 * What ends a stream is kept out of reads of its connection: node calls these listeners within nghttp2, where a reset
 * would be sent at once and free what is being read.
 */
export class Http2Exchange implements UpstreamExchange, BodySink {
  readonly #request: UpstreamRequest;
  readonly #handler: ResponseHandler;
  readonly #scheme: string;
  #owner: ExchangeOwner | undefined;
  #opened: OpenSession | undefined;
  #stream: ClientHttp2Stream | undefined;
  #bytesBefore = 0;
  #informational = 0;
  #hasResponse = false;
  #isSettled = false;
  /** The end of the answer came. */
  #isWhole = false;
  #isSent: boolean;
  #isOver = false;
  #left: number;
  #last: Buffer | undefined;
  /** What was sent of the body, for the case that the upstream refuses the request; undefined when that is too much. */
  #kept: Buffer[] | undefined = [];
  #keptBytes = 0;
  #trailers: readonly string[] = [];
  #error: Error | undefined;

  constructor(request: UpstreamRequest, handler: ResponseHandler, scheme: string) {
    this.#request = request;
    this.#handler = handler;
    this.#scheme = scheme;
    this.#isSent = request.body === undefined;
    this.#left = request.length;
    handler.connection = this;
  }

  /** It waits for a connection, or has it. */
  set owner(owner: ExchangeOwner) {
    this.#owner = owner;
  }

  /** Sends the request. @returns whether it has a stream now */
  begin(opened: OpenSession): boolean {
    const { body } = this.#request;
    let stream: ClientHttp2Stream;
    try {
      const headers = headersOf(this.#request, this.#scheme);
      stream = opened.session.request(headers, { endStream: body === undefined });
    } catch (error) {
      this.fail(new UnwritableMessage((error as Error).message));
      return false;
    }
    this.#opened = opened;
    this.#bytesBefore = opened.socket.bytesRead;
    this.#stream = stream;
    this.#listen(stream);
    this.#handler.onRequestStart();
    if (!this.#isOver) body?.start(this);
    return true;
  }

  pause(): void {
    this.#stream?.pause();
  }

  resume(): void {
    if (this.#hasResponse) this.#stream?.resume();
  }

  abort(error: Error): void {
    if (this.#isOver) return;
    if (isTimeout(error) && this.#opened?.socket.bytesRead === this.#bytesBefore) this.#owner?.silent();
    this.fail(error);
  }

  /** Ends it; its handler receives the error. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#stream === undefined) this.#owner?.withdrawn(this);
    else resetSoon(this.#stream);
    this.#settle();
    if (error instanceof NotProcessed && this.#kept !== undefined) this.#request.body?.takeBack(this.#kept);
    this.#handler.onResponseError(error);
  }

  /**
   * What completes a body of a known length waits for the end of the client's: an upstream must not take for whole what the
   * client goes on with, or takes back.
   */
  write(chunk: Buffer): boolean {
    const stream = this.#stream;
    // What comes behind a whole answer is dropped.
    if (stream === undefined || this.#isOver || stream.writableEnded || chunk.length === 0) return true;
    this.#keep(chunk);
    if (this.#request.length >= 0) {
      this.#left -= chunk.length;
      if (this.#left === 0) {
        this.#last = chunk;
        return true;
      }
      if (this.#left < 0) {
        this.fail(new Error('the body is longer than its Content-Length'));
        return true;
      }
    }
    return stream.write(chunk);
  }

  #keep(chunk: Buffer): void {
    this.#keptBytes += chunk.length;
    if (this.#keptBytes <= MAX_KEPT) this.#kept?.push(chunk);
    else this.#kept = undefined;
  }

  end(): void {
    const stream = this.#stream;
    if (stream === undefined || this.#isOver || stream.writableEnded) return;
    if (this.#left > 0) {
      this.fail(new Error('the body is shorter than its Content-Length'));
      return;
    }
    this.#isSent = true;
    if (this.#last === undefined) stream.end();
    else stream.end(this.#last);
  }

  #listen(stream: ClientHttp2Stream): void {
    const push = stream.push.bind(stream);
    // Node ends what is read in the same way for a reset with NO_ERROR; only there is the stream closed by then.
    stream.push = (chunk: unknown, encoding?: BufferEncoding) => {
      if (chunk === null && !stream.closed && !stream.destroyed) this.#isWhole = true;
      return push(chunk, encoding);
    };
    stream
      .on('headers', this.#onInformational)
      .on('response', (_headers, flags, ...[raw]: unknown[]) => this.#onResponse(raw as string[], flags))
      .on('trailers', (_headers, _flags, ...[raw]: unknown[]) => (this.#trailers = raw as string[]))
      .on('drain', () => this.#request.body?.drained())
      .on('error', (error) => (this.#error = error))
      .on('close', this.#onClose);
  }

  readonly #onInformational = (): void => {
    if (this.#isOver) return;
    this.#informational += 1;
    if (this.#informational > DEFAULT_LIMITS.informational)
      this.fail(new InvalidUpstreamResponse('too many informational answers'));
    else this.#handler.onInformational();
  };

  #settle(): void {
    if (this.#isSettled || this.#stream === undefined) return;
    this.#isSettled = true;
    this.#owner?.settled();
  }

  #onResponse(raw: readonly string[], flags: number): void {
    if (this.#isOver || this.#hasResponse) return;
    this.#hasResponse = true;
    this.#kept = undefined;
    this.#settle();
    try {
      const status = Number(raw[raw.indexOf(':status') + 1]);
      if (!(status >= 200 && status <= 599)) throw new InvalidUpstreamResponse('a status that is none');
      const isWhole = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
      this.#handler.onResponseStart(status, STATUS_CODES[status] ?? '', withoutPseudo(raw), isWhole);
      this.#stream?.on('end', this.#onEnd).on('data', this.#onData);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#isOver) return;
    try {
      this.#handler.onResponseData(chunk);
    } catch (error) {
      this.fail(error as Error);
    }
  };

  readonly #onEnd = (): void => {
    // What was broken off is closed in a moment, which says why.
    if (this.#isOver || !this.#isWhole) return;
    this.#isOver = true;
    if (!this.#isSent && this.#stream !== undefined) resetSoon(this.#stream);
    try {
      this.#handler.onResponseEnd(this.#trailers);
    } catch (error) {
      this.#handler.onResponseError(error as Error);
    }
  };

  readonly #onClose = (): void => {
    const { lastStream = Infinity } = this.#owner ?? {};
    if (!this.#isOver && this.#stream !== undefined && this.#opened !== undefined)
      this.fail(faultOfStream(this.#stream, this.#opened, lastStream, this.#error));
    this.#owner?.closed();
  };
}

/** @throws TypeError for what can't be sent */
function headersOf({ method, target, host, fields, length }: UpstreamRequest, scheme: string): Http2Fields {
  const headers = http2Fields(fields);
  // Node joins them with NUL.
  for (const value of [method, target, host]) validateHeaderValue('pseudo-header', value);
  headers[':method'] = method;
  headers[':scheme'] = scheme;
  headers[':authority'] = host;
  headers[':path'] = target;
  // gRPC servers want to hear that trailers get through.
  headers['te'] = 'trailers';
  if (length >= 0) headers['content-length'] = String(length);
  return headers;
}

function withoutPseudo(raw: readonly string[]): string[] {
  const fields: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] as string;
    if (!name.startsWith(':')) fields.push(name, raw[i + 1] as string);
  }
  return fields;
}

function resetSoon(stream: ClientHttp2Stream): void {
  setImmediate(() => {
    if (!stream.destroyed) stream.close(constants.NGHTTP2_CANCEL);
  });
}
