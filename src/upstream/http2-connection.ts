import { UpstreamFault } from './faults.js';
import { IN_USE } from './connection.js';
import { MAX_STREAMS, type OpenHttp2, type OpenSession } from './http2-connect.js';
import type { ExchangeOwner, Http2Exchange } from './http2-exchange.js';

/** A connection serves so many requests, as one of HTTP/1.1 does, so that a busy one learns when its host name leads elsewhere. */
const MAX_REQUESTS = 1_000;
/** While an answer is awaited, the other side may be silent for so long; then it has so long to answer a PING. */
const SILENT_MS = 5_000;
const PONG_MS = 2_000;
/** Servers of gRPC close connections with more of them (`grpc.http2.min_ping_interval_without_data_ms`, 5 minutes). */
const PING_INTERVAL_MS = 330_000;
/** After its end, the other side has so long to take the last frames. */
const FAREWELL_MS = 1_000;

/** Who has a connection. */
export interface Http2Owner {
  /** How many requests the upstream takes side by side, as far as is known. */
  streamLimit: number;
  /** It has no request. */
  idle(connection: Http2Connection): void;
  /** It takes no further request. */
  closed(connection: Http2Connection): void;
  /** Sends what was not sent yet on another connection. */
  again(exchange: Http2Exchange): void;
}

/** A connection to an address of an upstream that speaks HTTP/2, with requests side by side. */
export class Http2Connection implements ExchangeOwner {
  /** For its owner: `performance.now()` until which it is kept idle, or {@link IN_USE}. */
  idleUntil = IN_USE;
  lastStream = Infinity;
  readonly #owner: Http2Owner;
  /** Not sent: the connection is not open yet. */
  readonly #waiting = new Set<Http2Exchange>();
  #opened: OpenSession | undefined;
  #streams = 0;
  /** Of these, those whose answer has not begun. */
  #awaited = 0;
  #bytesRead = 0;
  #readAt = 0;
  #pingedAt = -PING_INTERVAL_MS;
  #served = 0;
  #limit: number;
  #isRetired = false;

  constructor(open: OpenHttp2, owner: Http2Owner) {
    this.#owner = owner;
    this.#limit = owner.streamLimit;
    open((opened) => {
      if (opened instanceof Error) this.#failed(opened);
      else this.#begin(opened);
    });
  }

  /** Whether it takes one more request. */
  get hasRoom(): boolean {
    const waiting = this.#waiting.size;
    return (
      !this.#isRetired &&
      this.#opened?.isOver() !== true &&
      this.#streams + waiting < this.#limit &&
      this.#served + waiting < MAX_REQUESTS
    );
  }

  /** Sends a request as soon as it is open. Only when it has room. */
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

  /**
   * Finds out whether the other side is still there, when answers are awaited and nothing came for long: all requests of the
   * address would wait for the one connection. Called again and again.
   */
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

  /** The other side may be gone without a word. Its other requests have time limits of their own. */
  silent(): void {
    this.#retire();
  }

  /** Closes it. Requests that it has fail. */
  destroy(): void {
    this.#retire();
    this.#failWaiting(new UpstreamFault('UND_ERR_SOCKET', 'the connection was closed'));
    this.#end();
  }

  #begin(opened: OpenSession): void {
    const { session, socket } = opened;
    this.#opened = opened;
    if (this.#isRetired) {
      this.#end();
      return;
    }
    session
      .on('remoteSettings', this.#limitStreams)
      .on('goaway', this.#onGoaway)
      .once('close', () => this.#retire());
    socket.once('close', () => this.#retire());
    this.#limitStreams();
    if (this.#limit === 0) {
      this.#failed(
        new UpstreamFault(
          'UND_ERR_SOCKET',
          'the upstream takes no requests (SETTINGS_MAX_CONCURRENT_STREAMS)',
        ),
      );
      this.#end();
      return;
    }
    for (const exchange of this.#waiting) {
      // One may have been withdrawn by the end of another.
      if (!this.#waiting.delete(exchange)) continue;
      if (this.hasRoom) this.#send(exchange, opened);
      else this.#owner.again(exchange);
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
    if (this.#served >= MAX_REQUESTS) this.#retire();
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
    this.#failWaiting(error);
  }

  #failWaiting(error: Error): void {
    for (const exchange of this.#waiting) exchange.fail(error);
  }

  /** It takes no further request; those that it has go on. */
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
    if (!session.destroyed) session.destroy();
    // Node waits until the other side closes, which may be gone.
    if (!socket.destroyed) setTimeout(() => socket.destroy(), FAREWELL_MS).unref();
  }
}
