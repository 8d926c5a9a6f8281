import { IN_USE } from './connection.js';
import { MAX_STREAMS, type OpenHttp2, type OpenSession } from './http2-connect.js';
import { type ExchangeOwner, Http2Exchange } from './http2-exchange.js';
import type { Dispatcher, ResponseHandler, UpstreamRequest } from './upstream-request.js';
import { UpstreamFault } from './faults.js';

/** Milliseconds of silence, with responses pending, before a PING, and for its acknowledgment. */
const SILENT_MS = 5_000;
const PONG_MS = 2_000;
/**
 * Minimum milliseconds between PINGs: gRPC servers close connections that send more (5 minutes by default).
 */
const PING_INTERVAL_MS = 330_000;
/** Milliseconds that the peer has to receive the last frames after the session ended. */
const CLOSE_GRACE_MS = 1_000;

export class Http2Connection implements ExchangeOwner {
  /** For the owner: the `performance.now()` until which it stays idle, or {@link IN_USE}. */
  idleUntil = IN_USE;
  lastStream = Infinity;
  readonly #owner: Http2Pool;
  readonly #maxRequests: number;
  readonly #waiting = new Set<Http2Exchange>();
  #opened: OpenSession | undefined;
  #streams = 0;
  #awaited = 0;
  #bytesRead = 0;
  #readAt = 0;
  #pingedAt = -PING_INTERVAL_MS;
  #served = 0;
  #limit: number;
  #isRetired = false;

  constructor(open: OpenHttp2, owner: Http2Pool, maxRequests: number) {
    this.#owner = owner;
    this.#maxRequests = maxRequests;
    this.#limit = owner.streamLimit;
    open((opened) => {
      if (opened instanceof Error) this.#failed(opened);
      else this.#begin(opened);
    });
  }

  get hasRoom(): boolean {
    return (
      !this.#isRetired &&
      this.#opened?.isClosing() !== true &&
      this.#streams + this.#waiting.size < this.#limit &&
      this.#served + this.#waiting.size < this.#maxRequests
    );
  }

  /** Sends a request once the connection is open. Only if {@link hasRoom}. */
  send(exchange: Http2Exchange): void {
    this.idleUntil = IN_USE;
    exchange.owner = this;
    if (this.#opened === undefined) this.#waiting.add(exchange);
    else this.#send(exchange, this.#opened);
  }

  withdrawn(exchange: Http2Exchange): void {
    this.#waiting.delete(exchange);
  }

  settled(): void {
    this.#awaited -= 1;
  }

  /** Called periodically. Detects a dead peer by a PING, so that requests do not wait for its connection. */
  check(now: number): void {
    if (this.#opened === undefined) return;
    const { session, socket } = this.#opened;
    if (socket.bytesRead !== this.#bytesRead || this.#awaited === 0) {
      this.#bytesRead = socket.bytesRead;
      this.#readAt = now;
    } else if (now - this.#readAt < SILENT_MS) return;
    else if (now - this.#pingedAt >= PING_INTERVAL_MS) {
      this.#pingedAt = now;
      if (!session.destroyed) session.ping(() => undefined);
    } else if (this.#pingedAt > this.#readAt && now - this.#pingedAt >= PONG_MS) this.destroy();
  }

  closed(): void {
    this.#streams -= 1;
    this.#settle();
  }

  /** Retires the connection: the peer may be dead. Its other requests have timeouts of their own. */
  silent(): void {
    this.#retire();
  }

  destroy(): void {
    this.#failed(new UpstreamFault('the connection was closed'));
    this.#end();
  }

  #begin(opened: OpenSession): void {
    const { session, socket } = opened;
    this.#opened = opened;
    session
      .on('remoteSettings', this.#limitStreams)
      .on('goaway', this.#onGoaway)
      .once('close', () => this.#retire());
    socket.once('close', () => this.#retire());
    this.#limitStreams();
    if (this.#limit === 0) {
      this.#failed(new UpstreamFault('the upstream accepts no requests (SETTINGS_MAX_CONCURRENT_STREAMS)'));
      this.#end();
      return;
    }
    for (const exchange of this.#waiting) {
      this.#waiting.delete(exchange);
      if (this.hasRoom) this.#send(exchange, opened);
      else this.#owner.redispatch(exchange);
    }
    this.#settle();
  }

  #send(exchange: Http2Exchange, opened: OpenSession): void {
    this.#served += 1;
    this.#streams += 1;
    this.#awaited += 1;
    if (!exchange.begin(opened)) {
      this.settled();
      this.closed();
    }
    if (this.#served >= this.#maxRequests) this.#retire();
  }

  readonly #limitStreams = (): void => {
    const { maxConcurrentStreams = MAX_STREAMS } = this.#opened?.session.remoteSettings ?? {};
    this.#limit = Math.min(MAX_STREAMS, maxConcurrentStreams);
    this.#owner.streamLimit = Math.max(1, this.#limit);
  };

  readonly #onGoaway = (_code: number, lastStream: number): void => {
    this.lastStream = lastStream;
    this.#retire();
  };

  #failed(error: Error): void {
    this.#retire();
    for (const exchange of this.#waiting) exchange.fail(error);
  }

  #retire(): void {
    if (this.#isRetired) return;
    this.#isRetired = true;
    this.#owner.closed(this);
    this.#settle();
  }

  #settle(): void {
    if (this.#streams > 0 || this.#waiting.size > 0) return;
    if (this.#isRetired) this.#end();
    else this.#owner.idle(this);
  }

  #end(): void {
    if (this.#opened === undefined) return;
    const { session, socket } = this.#opened;
    session.destroy();
    // Node waits for the peer to close, and the peer may be dead.
    if (!socket.destroyed) setTimeout(() => socket.destroy(), CLOSE_GRACE_MS).unref();
  }
}

/**
 * Milliseconds until an idle connection is closed; if the upstream closes it first, GOAWAY tells what it
 * processed.
 */
const IDLE_MS = 10_000;
/** Maximum requests per connection, as for HTTP/1.1, so that a busy one follows DNS changes. */
const MAX_REQUESTS = 1_000;
const TICK_MS = 100;

/** The HTTP/2 connections to one address. `domain/limiter.ts` limits their requests. */
export class Http2Pool implements Dispatcher {
  /** Concurrent requests that the upstream accepts, as far as known. */
  streamLimit = MAX_STREAMS;
  readonly #openHttp2: OpenHttp2;
  readonly #scheme: string;
  readonly #connections: Http2Connection[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(open: OpenHttp2, scheme: string) {
    this.#openHttp2 = open;
    this.#scheme = scheme;
  }

  dispatch(request: UpstreamRequest, handler: ResponseHandler): void {
    this.redispatch(new Http2Exchange(request, handler, this.#scheme));
  }

  /** Uses the oldest connection with room, so that those opened for a burst become idle. */
  redispatch(exchange: Http2Exchange): void {
    const { travelsAlone } = exchange;
    const shared = travelsAlone ? undefined : this.#connections.find(({ hasRoom }) => hasRoom);
    (shared ?? this.#open(travelsAlone ? 1 : MAX_REQUESTS)).send(exchange);
  }

  idle(connection: Http2Connection): void {
    connection.idleUntil = performance.now() + IDLE_MS;
  }

  closed(connection: Http2Connection): void {
    const at = this.#connections.indexOf(connection);
    if (at >= 0) this.#connections.splice(at, 1);
  }

  destroy(): void {
    clearTimeout(this.#timer);
    for (const connection of this.#connections.slice()) connection.destroy();
  }

  #open(maxRequests: number): Http2Connection {
    const connection = new Http2Connection(this.#openHttp2, this, maxRequests);
    this.#connections.push(connection);
    this.#timer ??= setTimeout(this.#sweep, TICK_MS).unref();
    return connection;
  }

  readonly #sweep = (): void => {
    const now = performance.now();
    for (const connection of this.#connections.slice()) {
      if (connection.idleUntil !== IN_USE && connection.idleUntil <= now) connection.destroy();
      else connection.check(now);
    }
    this.#timer = this.#connections.length === 0 ? undefined : setTimeout(this.#sweep, TICK_MS).unref();
  };
}
