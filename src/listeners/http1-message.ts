import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { firstField } from '../http/fields.js';
import type { IncomingRequest, OutgoingResponse, ParsedRequest, ResponseFollower } from '../http/exchange.js';
import type { RequestParser } from '../http1/request-parser.js';
import { forbidsContent } from '../domain/methods.js';
import { batchWrites, flushLarge, flushWrites } from '../net/socket.js';
import {
  CHUNK_END,
  CHUNKED,
  chunkStart,
  lastChunk,
  type Length,
  responseHead,
  UNFRAMED,
} from '../http1/write.js';

type Listener = Parameters<EventEmitter['on']>[1];

/** An event emitter that most often has no listener, and makes its `EventEmitter` for the first one. */
export class LazyEmitter {
  #emitter: EventEmitter | undefined;

  on(event: string, listener: Listener): this {
    this.#listened().on(event, listener);
    return this;
  }

  once(event: string, listener: Listener): this {
    this.#listened().once(event, listener);
    return this;
  }

  off(event: string, listener: Listener): this {
    this.#emitter?.off(event, listener);
    return this;
  }

  removeAllListeners(event: string): this {
    this.#emitter?.removeAllListeners(event);
    return this;
  }

  /** Returns whether anything listened. */
  emit(event: string, ...args: unknown[]): boolean {
    return this.#emitter?.emit(event, ...args) ?? false;
  }

  #listened(): EventEmitter {
    return (this.#emitter ??= new EventEmitter());
  }
}

/** Base class of responses: what the client does goes to the follower, then to any listeners. */
export abstract class FollowedResponse extends LazyEmitter {
  follower: ResponseFollower | undefined;
  bytesSent = 0;

  drained(): void {
    this.follower?.drained();
    this.emit('drain');
  }

  protected closed(): void {
    this.follower?.clientClosed();
    this.emit('close');
  }
}

/** The connection of a request and its response. */
export interface MessageConnection {
  readonly socket: Socket;
  readonly keepAliveHint: string;
  read(): void;
  release(): void;
  answered(): void;
}

export class Http1Request extends LazyEmitter implements IncomingRequest {
  readonly method: string;
  readonly url: string;
  readonly httpVersion: '1.0' | '1.1';
  readonly rawHeaders: readonly string[];
  readableEnded = false;
  /** Whether the reader of the body accepts more data. */
  isFlowing = false;
  readonly #connection: MessageConnection;

  constructor(connection: MessageConnection, { method, target, minor, fields }: RequestParser) {
    super();
    this.#connection = connection;
    this.method = method;
    this.url = target;
    this.httpVersion = minor === 1 ? '1.1' : '1.0';
    this.rawHeaders = fields;
  }

  get socket(): Socket {
    return this.#connection.socket;
  }

  release(): void {
    this.#connection.release();
  }

  isPaused(): boolean {
    return !this.isFlowing;
  }

  pause(): this {
    this.isFlowing = false;
    return this;
  }

  /** Data already received is emitted in a later turn. */
  resume(): this {
    if (this.isFlowing) return this;
    this.isFlowing = true;
    process.nextTick(readOn, this.#connection);
    return this;
  }

  /** Reads and discards the rest of the body, so that it does not block the next request. */
  dump(): void {
    this.removeAllListeners('data');
    this.resume();
  }
}

export function readOn(connection: MessageConnection): void {
  connection.read();
}

/** A WebSocket, the only protocol that is forwarded, needs at least HTTP/1.1 (RFC 6455 4.1). */
export function asksForWebSocket({ httpVersion, rawHeaders }: ParsedRequest): boolean {
  return httpVersion === '1.1' && firstField(rawHeaders, 'upgrade')?.toLowerCase() === 'websocket';
}

let dateSecond = 0;
let dateText = '';

const KEEP_ALIVE = '\r\nConnection: keep-alive\r\nKeep-Alive: ';
const CLOSE = '\r\nConnection: close';
const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';
const LAST_CHUNK = lastChunk();

/** An HTTP/1.1 response. Its head waits for the first bytes of the body and is sent with them. */
export class Http1Response extends FollowedResponse implements OutgoingResponse {
  shouldKeepAlive: boolean;
  headersSent = false;
  chunkedEncoding = false;
  readonly #connection: MessageConnection;
  readonly #socket: Socket;
  readonly #isHead: boolean;
  readonly #minor: number;
  #head = '';
  #hasBody = true;
  /** Whether only the end of the connection ends the body. */
  #endsWithConnection = false;
  #lastChunk = LAST_CHUNK;
  #isEnded = false;
  #isAbandoned = false;

  /** @param persistent whether the request allows the connection to be reused */
  constructor(connection: MessageConnection, method: string, minor: number, persistent: boolean) {
    super();
    this.#connection = connection;
    this.#socket = connection.socket;
    this.#isHead = method === 'HEAD';
    this.#minor = minor;
    this.shouldKeepAlive = persistent;
  }

  get destroyed(): boolean {
    return this.#isAbandoned || this.#socket.destroyed;
  }

  get writableNeedDrain(): boolean {
    // The socket keeps asking for `drain` for a moment after everything was sent.
    return this.#socket.writableNeedDrain && this.#socket.writableLength > 0;
  }

  get isFlushed(): boolean {
    return this.#socket.writableLength === 0;
  }

  get writableEnded(): boolean {
    return this.#isEnded;
  }

  /** Whether a clean end of the connection would make an incomplete response look complete. */
  get wouldLookWhole(): boolean {
    return this.#endsWithConnection && (!this.#isEnded || this.#socket.writableLength > 0);
  }

  writeHead(status: number, reason: string, fields: readonly string[]): this {
    let framing: Length = UNFRAMED;
    let hasDate = false;
    let hasConnection = false;
    for (let i = 0; i < fields.length; i += 2) {
      const name = fields[i] as string;
      const { length } = name;
      if (length === 14 && name.toLowerCase() === 'content-length') framing = Number(fields[i + 1]);
      else if (length === 4 && name.toLowerCase() === 'date') hasDate = true;
      else if (length === 10 && name.toLowerCase() === 'connection') hasConnection = true;
    }
    const hasBody = !this.#isHead && !forbidsContent(status);
    const isChunked = framing === UNFRAMED && hasBody && this.#minor === 1;
    // Without a length, the body ends with the connection.
    const isUnframed = framing === UNFRAMED && this.#minor === 0;
    if (hasConnection || isUnframed) this.shouldKeepAlive = false;
    let own = hasDate ? '' : dateLine();
    if (!hasConnection) own += this.shouldKeepAlive ? KEEP_ALIVE + this.#connection.keepAliveHint : CLOSE;
    this.#head = responseHead(status, reason, fields, isChunked ? CHUNKED : framing, own);
    this.#hasBody = hasBody;
    this.#endsWithConnection = isUnframed && hasBody;
    this.chunkedEncoding = isChunked;
    this.headersSent = true;
    return this;
  }

  write(chunk: Buffer | string, encoding: 'latin1' | 'utf8' = 'latin1'): boolean {
    const socket = this.#socket;
    if (this.#isEnded || !this.#hasBody || chunk.length === 0 || this.destroyed) return true;
    this.bytesSent += encoding === 'latin1' ? chunk.length : Buffer.byteLength(chunk);
    const head = this.#head;
    this.#head = '';
    batchWrites(socket);
    if (this.chunkedEncoding) return this.#writeChunk(head, chunk, encoding);
    if (typeof chunk === 'string' && encoding === 'latin1') return socket.write(head + chunk, 'latin1');
    if (head !== '') socket.write(head, 'latin1');
    return flushLarge(socket, chunk.length, socket.write(chunk, encoding));
  }

  end(chunk?: Buffer | string): this {
    if (this.#isEnded || this.destroyed) return this;
    if (chunk !== undefined) this.write(chunk, 'utf8');
    this.#isEnded = true;
    const socket = this.#socket;
    const head = this.#head;
    this.#head = '';
    batchWrites(socket);
    if (this.chunkedEncoding) socket.write(head + this.#lastChunk, 'latin1');
    else if (head !== '') socket.write(head, 'latin1');
    if (this.writableNeedDrain) this.#closeWhenTaken();
    this.#connection.answered();
    return this;
  }

  flushHeaders(): void {
    if (this.#head === '' || this.destroyed) return;
    batchWrites(this.#socket);
    this.#socket.write(this.#head, 'latin1');
    this.#head = '';
  }

  writeContinue(): void {
    if (!this.headersSent && !this.destroyed) this.#socket.write(CONTINUE, 'latin1');
  }

  addTrailers(trailers: readonly (readonly [string, string])[]): void {
    this.#lastChunk = lastChunk(trailers.flat());
  }

  destroy(): this {
    const socket = this.#socket;
    flushWrites(socket);
    // A reset signals the abort. TLS needs none: its connection ends without an alert (RFC 9112 9.8).
    if (this.wouldLookWhole && !('encrypted' in socket)) socket.resetAndDestroy();
    else socket.destroy();
    return this;
  }

  /** Detaches it from its connection, which was lost or has another use. */
  abandon(): void {
    if (this.#isAbandoned) return;
    this.#isAbandoned = true;
    this.closed();
  }

  /**
   * Emits `close` once the client has taken everything. An empty write would do, but during one a TLS socket
   * reads, perhaps into the buffer whose bytes are being handled.
   */
  #closeWhenTaken(): void {
    const socket = this.#socket;
    const close = (): void => {
      socket.off('drain', close).off('close', close);
      this.closed();
    };
    socket.on('drain', close).on('close', close);
  }

  #writeChunk(head: string, chunk: Buffer | string, encoding: 'latin1' | 'utf8'): boolean {
    const socket = this.#socket;
    socket.write(head + chunkStart(Buffer.byteLength(chunk, encoding)), 'latin1');
    socket.write(chunk, encoding);
    return flushLarge(socket, chunk.length, socket.write(CHUNK_END, 'latin1'));
  }
}

/** Returns the line of a Date field (RFC 9110 6.6.1), computed once per second. */
function dateLine(): string {
  const now = Math.floor(Date.now() / 1_000);
  if (now !== dateSecond) {
    dateSecond = now;
    dateText = `\r\nDate: ${new Date(now * 1_000).toUTCString()}`;
  }
  return dateText;
}
