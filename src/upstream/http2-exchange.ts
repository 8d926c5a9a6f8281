import { STATUS_CODES } from 'node:http';
import { type ClientHttp2Stream, constants } from 'node:http2';
import { compactReads } from '../http/http2.js';
import { DEFAULT_LIMITS } from '../http1/events.js';
import { UnwritableMessage } from '../http1/write.js';
import { FieldsTooLarge, InvalidUpstreamResponse, isTimeout, NotProcessed } from './faults.js';
import {
  areUnusual,
  faultOfStream,
  type OpenSession,
  requestFields,
  sizeOfFields,
  withoutPseudoFields,
} from './http2-connect.js';
import type { BodySink, ResponseHandler, UpstreamExchange, UpstreamRequest } from './upstream-request.js';

/** Bytes, and chunks, of a body that are retained until its response begins. */
const MAX_KEPT = 65_536;
const MAX_KEPT_CHUNKS = 256;
/** Milliseconds that the end of a stream may come after the head of a response without a body. */
const LATE_END_MS = 200;

export interface ExchangeOwner {
  /** The last stream that the upstream may have processed, as it reports. */
  readonly lastStream: number;
  /** Called when the exchange is aborted before it was sent. */
  withdrawn(exchange: Http2Exchange): void;
  /** Called when the response begins, or the exchange ends without one. */
  settled(): void;
  closed(): void;
  /** Called after a timeout during which the upstream sent nothing at all. */
  silent(): void;
}

/**
 * One request and its response on an HTTP/2 stream. Nothing here ends a stream within a read of its
 * connection: nghttp2 would free what is being read.
 */
export class Http2Exchange implements UpstreamExchange, BodySink {
  /** Whether its connection must carry no other request. */
  readonly travelsAlone: boolean;
  readonly #request: UpstreamRequest;
  readonly #handler: ResponseHandler;
  readonly #scheme: string;
  readonly #size: number;
  owner: ExchangeOwner | undefined;
  #opened: OpenSession | undefined;
  #stream: ClientHttp2Stream | undefined;
  #bytesBefore = 0;
  #informational = 0;
  #hasResponse = false;
  #isSettled = false;
  /** Whether the end of the response was received. */
  #isComplete = false;
  #hasEnded = false;
  /** Body chunks sent so far, in case the upstream refuses the request; undefined when too large. */
  #kept: Buffer[] | undefined = [];
  #keptBytes = 0;
  #trailers: readonly string[] = [];
  #error: Error | undefined;

  constructor(request: UpstreamRequest, handler: ResponseHandler, scheme: string) {
    this.#request = request;
    this.#handler = handler;
    this.#scheme = scheme;
    this.#size = sizeOfFields(request, scheme);
    this.travelsAlone = areUnusual(request, this.#size);
    handler.connection = this;
  }

  begin(opened: OpenSession): boolean {
    const { body } = this.#request;
    const { maxHeaderListSize: limit = Infinity } = opened.session.remoteSettings;
    if (this.#size > limit) {
      this.fail(new FieldsTooLarge(`the upstream accepts ${limit} bytes of header fields`));
      return false;
    }
    let stream: ClientHttp2Stream;
    try {
      const headers = requestFields(this.#request, this.#scheme);
      stream = opened.session.request(headers, { endStream: body === undefined });
    } catch (error) {
      this.fail(new UnwritableMessage((error as Error).message));
      return false;
    }
    this.#opened = opened;
    this.#bytesBefore = opened.socket.bytesRead;
    this.#stream = stream;
    this.#listen(stream);
    this.#handler.onRequestStart(opened.peer);
    if (!this.#hasEnded) body?.start(this);
    return true;
  }

  pause(): void {
    this.#stream?.pause();
  }

  resume(): void {
    if (this.#hasResponse) this.#stream?.resume();
  }

  abort(error: Error): void {
    if (this.#hasEnded) return;
    if (isTimeout(error) && this.#opened?.socket.bytesRead === this.#bytesBefore) this.owner?.silent();
    this.fail(error);
  }

  fail(error: Error): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    if (this.#stream === undefined) this.owner?.withdrawn(this);
    else resetSoon(this.#stream);
    this.#settle();
    if (error instanceof NotProcessed && this.#kept !== undefined) this.#request.body?.takeBack(this.#kept);
    this.#handler.onResponseError(error);
  }

  write(chunk: Buffer): boolean {
    const stream = this.#stream;
    // A body that continues after a complete response is discarded.
    if (stream === undefined || this.#hasEnded || stream.writableEnded) return true;
    this.#keep(chunk);
    return stream.write(chunk);
  }

  #keep(chunk: Buffer): void {
    this.#keptBytes += chunk.length;
    if (this.#keptBytes > MAX_KEPT || this.#kept?.length === MAX_KEPT_CHUNKS) this.#kept = undefined;
    this.#kept?.push(chunk);
  }

  end(last?: Buffer): void {
    const stream = this.#stream;
    if (stream === undefined || this.#hasEnded || stream.writableEnded) return;
    if (last === undefined) stream.end();
    else stream.end(last);
  }

  #listen(stream: ClientHttp2Stream): void {
    compactReads(stream);
    const push = stream.push.bind(stream);
    // Node ends the stream in the same way for a reset with NO_ERROR, but then it is closed already.
    stream.push = (chunk: unknown, encoding?: BufferEncoding) => {
      if (chunk === null && !stream.closed && !stream.destroyed) this.#isComplete = true;
      return push(chunk, encoding);
    };
    stream
      .on('headers', this.#onInformational)
      .on('response', (_headers, flags, ...[raw]: unknown[]) => this.#onResponse(raw as string[], flags))
      .on('trailers', (_headers, _flags, ...[raw]: unknown[]) => (this.#trailers = raw as string[]))
      .on('drain', () => this.#request.body?.drained())
      .on('end', this.#onEnd)
      .on('error', (error) => (this.#error = error))
      .on('close', this.#onClose);
  }

  readonly #onInformational = (): void => {
    if (this.#hasEnded) return;
    this.#informational += 1;
    if (this.#informational > DEFAULT_LIMITS.informational)
      this.fail(new InvalidUpstreamResponse('too many informational responses'));
    else this.#handler.onInformational();
  };

  #settle(): void {
    if (this.#isSettled || this.#stream === undefined) return;
    this.#isSettled = true;
    this.owner?.settled();
  }

  #onResponse(raw: readonly string[], flags: number): void {
    if (this.#hasEnded || this.#hasResponse) return;
    this.#hasResponse = true;
    this.#kept = undefined;
    this.#settle();
    try {
      const status = Number(raw[raw.indexOf(':status') + 1]);
      if (!(status >= 200 && status <= 599)) throw new InvalidUpstreamResponse('invalid status');
      const endsStream = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
      const isWhole = endsStream || this.#request.method === 'HEAD' || status === 204 || status === 304;
      this.#handler.onResponseStart(status, STATUS_CODES[status] ?? '', withoutPseudoFields(raw), isWhole);
      if (isWhole && !endsStream) {
        this.#endWithHead();
        return;
      }
      this.#stream?.on('data', this.#onData);
      process.nextTick(this.#onReadEnd);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  /**
   * Ends a response without a body before its stream ends. The end may be a frame of its own, so it has a
   * moment: an upstream may limit resets. Some servers send the body all the same (Jetty), or no end
   * (Tomcat).
   */
  #endWithHead(): void {
    const stream = this.#stream;
    this.#stream = undefined;
    this.#end();
    if (stream === undefined) return;
    const reset = (): void => resetSoon(stream);
    const timer = setTimeout(reset, LATE_END_MS);
    stream
      .once('data', reset)
      .once('close', () => clearTimeout(timer))
      .resume();
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#hasEnded) return;
    try {
      this.#handler.onResponseData(chunk);
    } catch (error) {
      this.fail(error as Error);
    }
  };

  readonly #onReadEnd = (): void => {
    if (this.#hasEnded) return;
    try {
      this.#handler.onReadEnd();
    } catch (error) {
      this.fail(error as Error);
    }
  };

  readonly #onEnd = (): void => {
    if (this.#isComplete) this.#end();
    // Node keeps an aborted stream until its body is sent, which never happens. `close` has the reason.
    else if (this.#stream !== undefined) resetSoon(this.#stream);
  };

  #end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const stream = this.#stream;
    // An upstream need not read the rest of a body, and the stream would wait for that.
    if (stream !== undefined && !(this.#isComplete && stream.writableFinished)) resetSoon(stream);
    try {
      this.#handler.onResponseEnd(this.#trailers);
    } catch (error) {
      this.#handler.onResponseError(error as Error);
    }
  }

  readonly #onClose = (): void => {
    const { lastStream = Infinity } = this.owner ?? {};
    if (!this.#hasEnded && this.#stream !== undefined && this.#opened !== undefined)
      this.fail(faultOfStream(this.#stream, this.#opened, lastStream, this.#error));
    this.owner?.closed();
  };
}

/**
 * Resets a stream without node's `close` ending it first, which would make an incomplete body look complete
 * (Node 20 to 26). Node keeps a stream that has ended until it is read, so that one is destroyed.
 */
function resetSoon(stream: ClientHttp2Stream): void {
  setImmediate(() => {
    if (stream.destroyed) return;
    stream.end = () => stream;
    if (stream.closed) stream.destroy();
    else stream.close(constants.NGHTTP2_CANCEL);
  });
}
