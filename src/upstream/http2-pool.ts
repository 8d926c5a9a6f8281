import { IN_USE } from './connection.js';
import { MAX_STREAMS, type OpenHttp2 } from './http2-connect.js';
import { Http2Connection, type Http2Owner } from './http2-connection.js';
import { Http2Exchange } from './http2-exchange.js';
import type { Dispatcher, ResponseHandler, UpstreamRequest } from './upstream-request.js';

/**
 * Milliseconds until an idle connection is closed; if the upstream closes it first, GOAWAY tells what it
 * processed.
 */
const IDLE_MS = 10_000;
/** Maximum requests per connection, as for HTTP/1.1, so that a busy one follows DNS changes. */
const MAX_REQUESTS = 1_000;
const TICK_MS = 100;

/** The HTTP/2 connections to one address. `domain/limiter.ts` limits their requests. */
export class Http2Pool implements Dispatcher, Http2Owner {
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
