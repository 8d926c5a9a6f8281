import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { bindsConnection } from '../http/authorization.js';
import { firstField } from '../http/fields.js';
import { batchWrites, SocketReader } from '../net/socket.js';
import { DATA, END, HEAD, INFORMATIONAL, type MessageLimits, NEED_DATA } from '../http1/events.js';
import { ResponseParser } from '../http1/response-parser.js';
import { requestHead } from '../http1/write.js';
import { type Connect, peerOf, responseLimits } from './connect.js';
import { faultOfParser, isBrokenConnection, NotSent, UpstreamFault } from './faults.js';
import {
  type Dispatcher,
  RequestBodyWriter,
  type ResponseHandler,
  type UpstreamExchange,
  type UpstreamRequest,
} from './upstream-request.js';

/** Maximum requests per connection, so that even a busy one follows DNS changes of its host. */
const MAX_REQUESTS = 1_000;

const UNAUTHORIZED = 401;

export const IN_USE = 0;

/**
 * An HTTP/1.1 connection to an upstream address, with one request at a time. It accepts a request before it
 * is open; if that is aborted before then, the connection is idle.
 */
class Connection implements UpstreamExchange {
  idleUntil = IN_USE;
  readonly #owner: ConnectionPool;
  readonly #parser: ResponseParser;
  readonly #reader = new SocketReader();
  #socket: Socket | undefined;
  #peer: string | undefined;
  #request: UpstreamRequest | undefined;
  #handler: ResponseHandler | undefined;
  #body: RequestBodyWriter | undefined;
  #served = 0;
  #isHeadNew = false;
  #isClosed = false;

  constructor(connect: Connect, owner: ConnectionPool, limits: MessageLimits) {
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
    this.#fail(new UpstreamFault('the connection was closed'));
  }

  #opened(socket: Socket): void {
    if (this.#isClosed) {
      socket.destroy();
      return;
    }
    this.#socket = socket;
    this.#peer = peerOf(socket);
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
      .on('close', () => this.#fail(new UpstreamFault('the upstream closed the connection')));
    if (this.#request !== undefined && this.#handler !== undefined)
      this.#begin(this.#request, this.#handler, socket);
  }

  readonly #onData = (chunk: Buffer): void => {
    // Bytes received before the request was sent are no response to it.
    if (this.#isHeldBack) {
      this.#fail(new UpstreamFault('bytes arrived before the request was sent'));
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
    handler.onRequestStart(this.#peer);
    if (this.#isClosed) return;
    batchWrites(socket);
    socket.write(head, 'latin1');
    if (body === undefined) return;
    this.#body = new RequestBodyWriter(socket, length);
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
    if (error === undefined || (error as NodeJS.ErrnoException).syscall !== 'write') return destroy(error);
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

/** Milliseconds until an idle connection is closed: less than the 5 s of many servers. */
const IDLE_MS = 4_000;
/** Subtracted from an upstream's Keep-Alive timeout, and the longest idle time, in milliseconds. */
const HINT_MARGIN_MS = 2_000;
const MAX_IDLE_MS = 600_000;
/**
 * Maximum random reduction of the idle time, in milliseconds: closing a burst's connections at once delays
 * requests.
 */
const SOONER_MS = 500;
const TICK_MS = 50;

/** The HTTP/1.1 connections to one address: at most as many as requests, which `domain/limiter.ts` limits. */
export class ConnectionPool implements Dispatcher {
  readonly #connect: Connect;
  readonly #limits: MessageLimits;
  readonly #connections: Connection[] = [];
  /** The last Keep-Alive field, and its idle time in milliseconds. */
  #hint: string | undefined;
  #hintMs = IDLE_MS;
  #timer: NodeJS.Timeout | undefined;

  constructor(connect: Connect, maxHead?: number) {
    this.#connect = connect;
    this.#limits = responseLimits(maxHead);
  }

  /**
   * Sends a request on the oldest idle connection, so that those opened for a burst stay idle and close, or
   * on a new one.
   */
  dispatch(request: UpstreamRequest, handler: ResponseHandler, isRepeated = false): void {
    let connection = this.#connections.find(isIdle);
    if (isRepeated) {
      // The new connection replaces this one: there are never more connections than requests.
      connection?.destroy();
      connection = undefined;
    }
    connection ??= this.#open();
    connection.idleUntil = IN_USE;
    connection.send(request, handler);
  }

  #open(): Connection {
    const connection = new Connection(this.#connect, this, this.#limits);
    this.#connections.push(connection);
    return connection;
  }

  /** @param keepAlive value of the response's Keep-Alive field */
  idle(connection: Connection, keepAlive: string | undefined): void {
    if (keepAlive !== this.#hint) {
      this.#hint = keepAlive;
      this.#hintMs = idleTime(keepAlive);
    }
    const keptMs = this.#hintMs - Math.random() * SOONER_MS;
    if (keptMs <= 0) {
      connection.destroy();
      return;
    }
    connection.idleUntil = performance.now() + keptMs;
    this.#timer ??= setTimeout(this.#sweep, TICK_MS).unref();
  }

  closed(connection: Connection): void {
    const at = this.#connections.indexOf(connection);
    if (at >= 0) this.#connections.splice(at, 1);
  }

  destroy(): void {
    clearTimeout(this.#timer);
    for (const connection of this.#connections.slice()) connection.destroy();
  }

  readonly #sweep = (): void => {
    const now = performance.now();
    const idle = this.#connections.filter(isIdle);
    for (const connection of idle) if (connection.idleUntil <= now) connection.destroy();
    this.#timer = idle.length === 0 ? undefined : setTimeout(this.#sweep, TICK_MS).unref();
  };
}

function isIdle({ idleUntil }: Connection): boolean {
  return idleUntil !== IN_USE;
}

/** @param keepAlive value of a Keep-Alive field */
function idleTime(keepAlive: string | undefined): number {
  const seconds = keepAlive === undefined ? undefined : /timeout=(\d{1,9})/i.exec(keepAlive)?.[1];
  return seconds === undefined ? IDLE_MS : Math.min(Number(seconds) * 1_000, MAX_IDLE_MS) - HINT_MARGIN_MS;
}
