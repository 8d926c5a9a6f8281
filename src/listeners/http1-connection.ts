import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { Duplex } from 'node:stream';
import { mayHaveEmptyBody } from '../domain/methods.js';
import type { Refusal } from '../domain/refusal.js';
import { firstField } from '../http/fields.js';
import { flushWrites } from '../net/socket.js';
import { writeRawReply } from '../http/write-reply.js';
import { CLOSED, DATA, END, type Fault, HEAD, NEED_DATA, otherProtocolOf } from '../http1/events.js';
import type { RequestParser } from '../http1/request-parser.js';
import type { UnreadableInput } from '../pipeline/access-log.js';
import { newRequestId } from '../pipeline/record.js';
import { otherProtocolRefusal, parseRefusal } from '../pipeline/faults.js';
import { isReset } from './accepted-socket.js';
import { Http1Input, type Http1Settings, type ListenerLimits } from './http1-input.js';
import { asksForWebSocket, Http1Request, Http1Response, readOn } from './http1-message.js';

/** Milliseconds after which a client that ended its side, or whose bytes nobody reads, is checked. */
const LEFT_MS = 750;

/** The phase of a connection, which determines its time limit. */
export type Phase = 'head' | 'exchange' | 'idle' | 'closing';

/**
 * Handles one request at a time and responds in the order received (RFC 9112 9.3.2). Bytes after a request
 * stay unread until its response is written.
 */
export class Http1Connection {
  readonly socket: Socket;
  phase: Phase = 'head';
  since = performance.now();
  readonly #settings: Http1Settings;
  readonly #owner: Owner;
  readonly #input: Http1Input;
  #request: Http1Request | undefined;
  #response: Http1Response | undefined;
  #isReading = false;
  /** Whether a head was read that is served once it is known whether its body is empty. */
  #isHeadHeld = false;
  /** Whether nothing more is read: the connection closes, or carries another protocol. */
  #isOver = false;
  /** Whether what follows is dropped: the rest of a malformed body, or too many later requests. */
  #isDropping = false;
  /** `performance.now()` at which the client ended its side; 0 before. */
  #endedAt = 0;
  /** Whether the last check found bytes of the response that the client has not read. */
  #wasUnread = false;

  constructor(socket: Socket, settings: Http1Settings, owner: Owner) {
    this.socket = socket;
    this.#settings = settings;
    this.#owner = owner;
    this.#input = new Http1Input(socket, settings.limits, this.#onData);
    socket
      .on('data', this.#onData)
      .on('end', this.#onEnd)
      .on('drain', this.#onDrain)
      .on('error', this.#onError)
      .on('close', this.#onClose);
  }

  get keepAliveHint(): string {
    return this.#settings.keepAliveHint;
  }

  get isSilent(): boolean {
    return this.phase === 'head' && !this.#input.parser.hasBegun;
  }

  /** Whether the client has yet to read bytes of the last response. Once it has, the phase starts again. */
  checkUnread(): boolean {
    const isUnread = this.socket.writableLength > 0;
    if (this.#wasUnread && !isUnread) this.since = performance.now();
    this.#wasUnread = isUnread;
    return isUnread;
  }

  /** Forgets the head of the last request, which may hold a token. */
  forget(): void {
    this.#input.parser.forget();
  }

  closeIdle(): void {
    if (this.socket.writableLength > 0) this.#close();
    else this.socket.destroy();
  }

  destroy(): void {
    if (this.#response === undefined) this.socket.destroy();
    else this.#response.destroy();
  }

  endAfterAnswer(): void {
    if (this.#response?.headersSent === false) this.#response.shouldKeepAlive = false;
  }

  /**
   * Ends the request of a client that has left. The system reports that only after all its bytes, so bytes
   * that nobody has read for a while are held; beyond the limit, later requests are dropped.
   */
  checkClient(now: number): void {
    const { fullSince } = this.#input;
    if (this.#endedAt > 0) {
      if (now - this.#endedAt >= LEFT_MS) this.destroy();
      return;
    }
    // Requests that are served one after the other do not wait, even if there are always more.
    if (fullSince === 0 || this.#isDropping || now - Math.max(fullSince, this.since) < LEFT_MS) return;
    if (isReset(this.socket)) this.destroy();
    else if (!this.#input.holdMore() && this.#request?.readableEnded === true) this.#dropRest();
  }

  headTimedOut(): void {
    this.#refuse({ refusal: 'too_slow', detail: 'the request took too long to arrive' });
  }

  read(): void {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      while (!this.#isOver && this.#readNext());
    } catch (error) {
      this.#failed(error);
    }
    this.#isReading = false;
    if (!this.#isOver && !this.#isDropping) this.#input.pauseWhileFull();
  }

  answered(): void {
    const [request, response] = [this.#request, this.#response];
    if (request === undefined || response === undefined) return;
    if (!response.shouldKeepAlive) this.#close();
    else if (request.readableEnded) this.#finish();
    else request.dump();
  }

  #readNext(): boolean {
    const request = this.#request;
    // The response is pending, or the reader of the body has paused it.
    if (request !== undefined && (request.readableEnded || !request.isFlowing || this.#isDropping))
      return false;
    if (request === undefined && (this.socket.destroyed || this.socket.writableNeedDrain)) return false;
    const { parser } = this.#input;
    if (this.#isHeadHeld) return this.#beginHeld();
    switch (this.#input.next()) {
      case NEED_DATA:
        if (request === undefined && this.phase === 'idle' && parser.hasBegun) this.#enter('head');
        return false;
      case HEAD:
        if (holdsHead(parser)) this.#isHeadHeld = true;
        else this.#begin(parser.length <= 0 && !parser.chunked && parser.next() === END);
        return true;
      case DATA:
        request?.emit('data', this.#input.takeData());
        return true;
      case END:
        this.#endBody(request);
        return true;
      case CLOSED:
        return false;
      default:
        this.#refuseFault(parser.fault as Fault, parser.faultAt);
        return false;
    }
  }

  release(): void {
    this.#input.release();
  }

  #beginHeld(): boolean {
    const isEmpty = this.#input.readEmptyBody();
    if (isEmpty === undefined) return false;
    this.#isHeadHeld = false;
    this.#begin(isEmpty);
    return true;
  }

  /** @param isWhole whether the request has no body, or an empty one that was read */
  #begin(isWhole: boolean): void {
    const { parser } = this.#input;
    const { serve, upgrade } = this.#settings;
    const request = new Http1Request(this, parser);
    if (upgrade !== null && parser.upgrade && asksForWebSocket(request)) {
      this.#leave();
      this.#owner.left(this);
      upgrade(request, this.socket, parser.takeRest());
      return;
    }
    const persistent = parser.persistent && !this.#owner.isEnding;
    const response = new Http1Response(this, parser.method, parser.minor, persistent);
    this.#request = request;
    this.#response = response;
    this.phase = 'exchange';
    request.readableEnded = isWhole;
    serve(request, response);
  }

  #endBody(request: Http1Request | undefined): void {
    if (request === undefined) return;
    request.readableEnded = true;
    request.emit('end');
    if (this.#endedAt > 0 && !this.#isOver) this.#endWithClient();
    if (this.#response?.writableEnded === true && this.#request === request) this.#finish();
  }

  #finish(): void {
    this.#request = undefined;
    this.#response = undefined;
    this.#enter('idle');
    if (this.#input.parser.unread > 0 && !this.#isReading) process.nextTick(readOn, this);
  }

  #enter(phase: Phase): void {
    this.phase = phase;
    this.since = performance.now();
  }

  #close(): void {
    this.#isOver = true;
    this.#enter('closing');
    this.socket.destroySoon();
  }

  /** Hands the socket over to another protocol. Bytes received until its new owner reads stay in it. */
  #leave(): void {
    const { socket } = this;
    this.#isOver = true;
    flushWrites(socket);
    this.#input.pushTo(socket);
    socket
      .off('data', this.#onData)
      .off('end', this.#onEnd)
      .off('drain', this.#onDrain)
      .off('error', this.#onError)
      .off('close', this.#onClose);
    // In flowing mode without a listener, the socket would drop data.
    Object.assign(socket, { readableFlowing: null });
  }

  #refuseFault(fault: Fault, at: number): void {
    const { notHttp1 } = this.#input.parser;
    const other = otherProtocolOf(notHttp1);
    const { http2 } = this.#settings;
    if (other === 'HTTP/2' && http2 !== null) {
      this.#leave();
      this.#owner.closed(this);
      this.socket.unshift(notHttp1);
      http2(this.socket);
      return;
    }
    const refusal = other === undefined ? parseRefusal(fault, at) : otherProtocolRefusal(other);
    if (fault === 'cut_off') this.#answerRaw(refusal);
    else if (!this.#leaveToReader(refusal)) this.#refuse(refusal);
  }

  /**
   * Leaves the response about a malformed body to its reader: the record of the request must say what the
   * client was told, and the response must have its id.
   * @returns false if nothing reads the body, or the response has begun
   */
  #leaveToReader(refusal: Refusal): boolean {
    const [request, response] = [this.#request, this.#response];
    if (response === undefined || response.headersSent) return false;
    response.shouldKeepAlive = false;
    this.#isDropping = request?.emit('malformed', refusal) === true;
    if (this.#isDropping) this.socket.resume();
    return this.#isDropping;
  }

  /** Drops the later requests; their client may repeat them (RFC 9112 9.3.2). */
  #dropRest(): void {
    if (this.#response !== undefined) this.#response.shouldKeepAlive = false;
    this.#isDropping = true;
    this.#input.drop();
  }

  #refuse(refusal: Refusal): void {
    const response = this.#answerRaw(refusal);
    this.#settings.unreadable({ refusal, peer: this.socket, response });
  }

  /** Responds to input that is not a valid request, never within a response that has begun (null). */
  #answerRaw(refusal: Refusal): UnreadableInput['response'] {
    const { socket } = this;
    this.#isOver = true;
    this.#enter('closing');
    if (this.#response?.headersSent === true) {
      this.#response.destroy();
      return null;
    }
    const requestId = newRequestId();
    const reply = this.#settings.answerOf(refusal, this.#request);
    writeRawReply(socket, reply, requestId);
    this.#abandon();
    return { requestId, status: reply.status };
  }

  #abandon(): void {
    const [request, response] = [this.#request, this.#response];
    this.#request = undefined;
    this.#response = undefined;
    if (request?.readableEnded === false) request.emit('close');
    response?.abandon();
  }

  #failed(error: unknown): void {
    this.#isOver = true;
    flushWrites(this.socket);
    this.socket.destroy();
    this.#settings.fault(error);
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#isOver) return;
    if (this.#isDropping) {
      this.#drop(chunk);
      return;
    }
    const { parser } = this.#input;
    parser.feed(chunk);
    this.read();
    parser.own();
  };

  /** Drops bytes. After a malformed body, the response ends once the client is silent. */
  #drop(chunk: Buffer): void {
    if (this.#request?.readableEnded === true) return;
    try {
      this.#request?.emit('data', chunk);
    } catch (error) {
      this.#failed(error);
    }
  }

  readonly #onEnd = (): void => {
    if (this.#isOver) return;
    this.#endedAt = performance.now();
    if (this.#request?.readableEnded !== true) {
      this.#input.parser.finish();
      this.read();
    }
    // What the reader of the body has not asked for yet may be the rest of it, which it soon reads.
    if (this.#request?.readableEnded !== false || this.#input.holdsMore) this.#endWithClient();
  };

  /** Ends this side too: a client that ends its own no longer waits for a response. */
  #endWithClient(): void {
    // Its later requests are not served either.
    this.#isOver = true;
    if (this.#response?.wouldLookWhole === true) this.#response.destroy();
    else this.socket.end();
  }

  readonly #onDrain = (): void => {
    if (this.#response === undefined) {
      this.read();
      return;
    }
    try {
      this.#response.drained();
    } catch (error) {
      this.#failed(error);
    }
  };

  readonly #onError = (): void => {
    this.socket.destroy();
  };

  readonly #onClose = (): void => {
    this.#isOver = true;
    this.#input.close();
    this.#owner.closed(this);
    try {
      this.#abandon();
    } catch (error) {
      this.#settings.fault(error);
    }
  };
}

/** Whether a head waits for what follows: some clients send empty chunked bodies with reads. */
function holdsHead({ chunked, method, fields, upgrade }: RequestParser): boolean {
  if (!chunked || upgrade || !mayHaveEmptyBody(method)) return false;
  return firstField(fields, 'expect') === undefined;
}

type Owner = Pick<Http1Connections, 'isEnding' | 'left' | 'closed'>;

/** Maximum milliseconds between checks of the time limits. */
const MAX_SWEEP_MS = 500;
/** Minimum milliseconds for a client to read the rest of a response, whatever `keep_alive` is. */
const UNREAD_MS = 60_000;
/** Milliseconds after which an idle connection forgets the head of its last request. */
const FORGET_MS = 1_000;
/** Milliseconds for which the first request of a new connection may be in transit. */
const SILENT_MS = 1_000;

const EMPTY = /^$/;

export class Http1Connections {
  readonly tunnels = new Set<Duplex>();
  /** Whether every response ends its connection. */
  isEnding = false;
  readonly #open = new Set<Http1Connection>();
  readonly #settings: Http1Settings;
  readonly #limits: ListenerLimits;
  readonly #timer: NodeJS.Timeout;

  constructor(settings: Http1Settings, limits: ListenerLimits) {
    this.#settings = settings;
    this.#limits = limits;
    const shortest = Math.min(limits.head_timeout, limits.keep_alive);
    this.#timer = setInterval(() => this.#sweep(), Math.min(MAX_SWEEP_MS, shortest / 4)).unref();
  }

  /** A connection that its client has already reset is closed unread: its address is no longer known. */
  accept(socket: Socket): void {
    if (socket.destroyed) return;
    // Node asks for the address when it is first read, and keeps it: a later reset does not matter.
    if (socket.remoteAddress === undefined) {
      socket.destroy();
      return;
    }
    this.#open.add(new Http1Connection(socket, this.#settings, this));
  }

  left(connection: Http1Connection): void {
    const { socket } = connection;
    this.#open.delete(connection);
    this.tunnels.add(socket);
    socket.once('close', () => this.tunnels.delete(socket));
  }

  closed(connection: Http1Connection): void {
    this.#open.delete(connection);
  }

  /** Ends each connection after the response in progress, or after the next one. */
  endAfterAnswers(): void {
    this.isEnding = true;
    for (const connection of this.#open) connection.endAfterAnswer();
  }

  /** Closes idle connections after their last data, and new ones that have sent nothing for a moment. */
  closeIdle(): void {
    const silentSince = performance.now() - SILENT_MS;
    for (const connection of this.#open) {
      const isSilent = connection.isSilent && connection.since < silentSince;
      if (isSilent || connection.phase === 'idle') connection.closeIdle();
    }
  }

  destroyAll(): void {
    for (const connection of this.#open) connection.destroy();
    for (const socket of this.tunnels) socket.destroy();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #sweep(): void {
    const { head_timeout, keep_alive } = this.#limits;
    const now = performance.now();
    for (const connection of this.#open) {
      const { phase } = connection;
      if (phase === 'exchange') connection.checkClient(now);
      else if (phase === 'head') {
        if (now - connection.since >= head_timeout) connection.headTimedOut();
      } else {
        if (now - connection.since >= FORGET_MS) connection.forget();
        const limit = connection.checkUnread() ? Math.max(keep_alive, UNREAD_MS) : keep_alive;
        if (now - connection.since >= limit) connection.destroy();
      }
    }
    // V8 keeps the text of the last match, for `RegExp.$_`: here, a part of the last request.
    EMPTY.test('');
  }
}
