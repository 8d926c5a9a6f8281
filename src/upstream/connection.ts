import type { Socket } from 'node:net';
import { bindsConnection } from '../http/authorization.js';
import { firstField } from '../http/fields.js';
import { type ReadOption, SocketReader } from '../net/socket-reader.js';
import { batchWrites } from '../net/write-batch.js';
import {
  DATA,
  DEFAULT_LIMITS,
  END,
  HEAD,
  INFORMATIONAL,
  type MessageLimits,
  NEED_DATA,
} from '../http1/events.js';
import { ResponseParser } from '../http1/response-parser.js';
import { requestHead } from '../http1/write.js';
import { NotSent, UpstreamFault, faultOfParser, isBrokenConnection } from './faults.js';
import {
  RequestBodyWriter,
  type ResponseHandler,
  type UpstreamExchange,
  type UpstreamRequest,
} from './upstream-request.js';

/** Bytes of the head of a response, unless the upstream has a limit of its own. */
export const MAX_RESPONSE_HEAD = 65_536;
export const MAX_RESPONSE_FIELDS = 1_000;

/** Returns the limits of one response over HTTP/1.1. @param headSize bytes of its head */
export function responseLimits(headSize = MAX_RESPONSE_HEAD): MessageLimits {
  return { ...DEFAULT_LIMITS, head_size: headSize, head_fields: MAX_RESPONSE_FIELDS };
}

/** Maximum requests per connection, so that even a busy one follows DNS changes of its host. */
const MAX_REQUESTS = 1_000;

const UNAUTHORIZED = 401;

export const IN_USE = 0;

/** Opens a connection. The callback is never called before this returns. */
export type Connect = (callback: (opened: Socket | Error) => void, onread?: ReadOption) => void;

export interface ConnectionOwner {
  /** @param keepAlive value of the response's Keep-Alive field */
  idle(connection: Connection, keepAlive: string | undefined): void;
  closed(connection: Connection): void;
}

/**
 * An HTTP/1.1 connection to an upstream address, with one request at a time. It accepts a request before it
 * is open; if that is aborted before then, the connection is idle.
 */
export class Connection implements UpstreamExchange {
  idleUntil = IN_USE;
  readonly #owner: ConnectionOwner;
  readonly #parser: ResponseParser;
  readonly #reader = new SocketReader();
  #socket: Socket | undefined;
  #request: UpstreamRequest | undefined;
  #handler: ResponseHandler | undefined;
  #body: RequestBodyWriter | undefined;
  #served = 0;
  #isHeadNew = false;
  #isClosed = false;

  constructor(connect: Connect, owner: ConnectionOwner, limits: MessageLimits) {
    this.#owner = owner;
    this.#parser = new ResponseParser(limits);
    connect((opened) => {
      if (opened instanceof Error) this.#fail(opened);
      else this.#opened(opened);
    }, this.#reader.onread);
  }

  /** Sends a request once the connection is open. Only for an idle connection. */
  send(request: UpstreamRequest, handler: ResponseHandler): void {
    this.#request = request;
    this.#handler = handler;
    handler.connection = this;
    if (this.#socket !== undefined) this.#begin(request, handler, this.#socket);
  }

  pause(): void {
    this.#socket?.pause();
  }

  resume(): void {
    this.#socket?.resume();
  }

  release(): void {
    this.#reader.release();
  }

  abort(error: Error): void {
    if (this.#socket !== undefined) {
      this.#fail(error);
      return;
    }
    const handler = this.#release();
    this.#owner.idle(this, undefined);
    handler?.onResponseError(error);
  }

  destroy(): void {
    this.#fail(new UpstreamFault('UND_ERR_SOCKET', 'the connection was closed'));
  }

  #opened(socket: Socket): void {
    if (this.#isClosed) {
      socket.destroy();
      return;
    }
    this.#socket = socket;
    readBeforeDestroy(socket);
    this.#reader.onBytes = this.#onData;
    socket
      .on('data', this.#onData)
      .on('end', () => {
        this.#parser.finish();
        this.#read();
      })
      .on('drain', () => this.#request?.body?.drained())
      .on('error', (error) => this.#fail(error))
      .on('close', () =>
        this.#fail(new UpstreamFault('UND_ERR_SOCKET', 'the upstream closed the connection')),
      );
    if (this.#request !== undefined && this.#handler !== undefined)
      this.#begin(this.#request, this.#handler, socket);
  }

  readonly #onData = (chunk: Buffer): void => {
    // Bytes received before the request was sent are no response to it.
    if (this.#isHeldBack) {
      this.#fail(new UpstreamFault('UND_ERR_SOCKET', 'bytes arrived before the request was sent'));
      return;
    }
    this.#parser.feed(chunk);
    this.#read();
    this.#parser.own();
  };

  /** Whether it has a request, and nothing of it was sent yet. */
  get #isHeldBack(): boolean {
    if (this.#request === undefined || this.#socket === undefined) return false;
    // Only the head and the body are written in batches.
    return this.#socket.writableCorked > 0 && this.#body?.hasBegun !== true;
  }

  #begin(request: UpstreamRequest, handler: ResponseHandler, socket: Socket): void {
    const { method, target, host, fields, length, body } = request;
    const connection = request.closes ? 'close' : 'keep-alive';
    let head: string;
    try {
      head = requestHead({ method, target, host, connection }, fields, length);
    } catch (error) {
      this.#release();
      this.#owner.idle(this, undefined);
      handler.onResponseError(error as Error);
      return;
    }
    this.#served += 1;
    this.#parser.expect(method);
    handler.onRequestStart();
    if (this.#isClosed) return;
    batchWrites(socket);
    socket.write(head, 'latin1');
    if (body === undefined) return;
    this.#body = new RequestBodyWriter(socket, length, (error) => this.#fail(error));
    body.start(this.#body);
  }

  #read(): void {
    try {
      while (!this.#isClosed && this.#readNext());
      if (!this.#isHeadNew) return;
      this.#isHeadNew = false;
      this.#handler?.onReadEnd();
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  #readNext(): boolean {
    const parser = this.#parser;
    switch (parser.next()) {
      case NEED_DATA:
        return false;
      case INFORMATIONAL:
        this.#handler?.onInformational();
        return true;
      case HEAD:
        this.#isHeadNew = true;
        this.#handler?.onResponseStart(parser.status, parser.reason, parser.fields);
        return true;
      case DATA:
        this.#handler?.onResponseData(this.#reader.keep(parser.data));
        return true;
      case END:
        this.#end();
        return true;
      default:
        this.#fail(faultOfParser(parser));
        return false;
    }
  }

  #end(): void {
    const parser = this.#parser;
    const { fields, trailers, persistent } = parser;
    const isSent = this.#body?.isSent !== false;
    const goesOn =
      persistent &&
      isSent &&
      this.#request?.closes === false &&
      this.#served < MAX_REQUESTS &&
      !(parser.status === UNAUTHORIZED && bindsConnection(fields, 'www-authenticate'));
    const handler = this.#release();
    // Bytes after the response belong to no request.
    if (goesOn && parser.next() === NEED_DATA) {
      // The reader may have paused the connection after the last byte of this response.
      if (this.#socket?.isPaused() === true) this.#socket.resume();
      this.#owner.idle(this, firstField(fields, 'keep-alive'));
    } else this.#close();
    handler?.onResponseEnd(trailers);
  }

  #release(): ResponseHandler | undefined {
    const handler = this.#handler;
    this.#handler = undefined;
    this.#request = undefined;
    this.#body = undefined;
    this.#isHeadNew = false;
    return handler;
  }

  #fail(error: Error): void {
    if (this.#isClosed) return;
    const unsent = this.#isHeldBack && isBrokenConnection(error) ? new NotSent(error.message) : undefined;
    if (unsent !== undefined) this.#request?.body?.takeBack(this.#body?.takeBack() ?? []);
    const handler = this.#release();
    this.#close();
    handler?.onResponseError(unsent ?? error);
  }

  #close(): void {
    this.#isClosed = true;
    this.#reader.close();
    this.#owner.closed(this);
    this.#socket?.destroy();
  }
}

/**
 * Makes a socket read what it has received before a failed write destroys it: an upstream may respond to a
 * body that it has not read, and close the connection (RFC 9112 9.6).
 */
function readBeforeDestroy(socket: Socket): void {
  const destroy = socket.destroy.bind(socket);
  let isDelayed = false;
  const destroyOnceRead = (error: Error, bytesRead: number): void => {
    if (socket.bytesRead === bytesRead) destroy(error);
    else afterReads(destroyOnceRead, error, socket.bytesRead);
  };
  socket.destroy = (error?: Error) => {
    if (error === undefined || !isOfWrite(error)) return destroy(error);
    if (!isDelayed) afterReads(destroyOnceRead, error, socket.bytesRead);
    isDelayed = true;
    return socket;
  };
}

/** Calls a function once the event loop has read from all sockets that have received something. */
function afterReads(call: (error: Error, bytesRead: number) => void, error: Error, bytesRead: number): void {
  // The first one may run before the loop looks for new data.
  setImmediate(() => setImmediate(call, error, bytesRead));
}

function isOfWrite(error: NodeJS.ErrnoException): boolean {
  return error.syscall === 'write';
}
