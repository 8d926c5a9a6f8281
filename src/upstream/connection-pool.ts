import { performance } from 'node:perf_hooks';
import type { MessageLimits } from '../http1/events.js';
import { type Connect, Connection, type ConnectionOwner, IN_USE, responseLimits } from './connection.js';
import type { Dispatcher, ResponseHandler, UpstreamRequest } from './upstream-request.js';

/**
 * Milliseconds until an idle connection is closed: a little less than the 5 s of many servers, so
 * that no request meets a connection that is closing.
 */
const IDLE_MS = 4_000;
/**
 * The margin subtracted from an upstream's Keep-Alive timeout, and the longest
 * idle time, in milliseconds.
 */
const HINT_MARGIN_MS = 2_000;
const MAX_IDLE_MS = 600_000;
/**
 * Maximum random reduction of the idle time, in milliseconds. Closing all connections that a burst
 * left idle at once delayed every request by 40 ms (256 connections).
 */
const SOONER_MS = 500;
const TICK_MS = 50;

/**
 * The HTTP/1.1 connections to one address.
 *
 * There are at most as many as requests, which `domain/limiter.ts` limits.
 */
export class ConnectionPool implements ConnectionOwner, Dispatcher {
  readonly #connect: Connect;
  readonly #limits: MessageLimits;
  /** Oldest first. */
  readonly #connections: Connection[] = [];
  /**
   * The last Keep-Alive field, and its idle time in milliseconds: upstreams repeat the same field.
   */
  #hint: string | undefined;
  #hintMs = IDLE_MS;
  #timer: NodeJS.Timeout | undefined;

  /** @param maxHead bytes of the head of a response */
  constructor(connect: Connect, maxHead?: number) {
    this.#connect = connect;
    this.#limits = responseLimits(maxHead);
  }

  /**
   * Sends a request on an idle connection, or on a new one.
   *
   * It picks the oldest idle connection, so that those opened for a burst stay idle and close. On
   * loopback, picking the last used one makes a small request 13 % more expensive, and round robin
   * 8 %, because the kernel's part of a write costs more.
   */
  dispatch(request: UpstreamRequest, handler: ResponseHandler, isRepeated = false): void {
    let connection = this.#findIdle();
    if (isRepeated) {
      // The new connection replaces this one: there are never more connections than requests.
      connection?.destroy();
      connection = undefined;
    }
    connection ??= this.#open();
    connection.idleUntil = IN_USE;
    connection.send(request, handler);
  }

  #findIdle(): Connection | undefined {
    const connections = this.#connections;
    for (let i = 0; i < connections.length; i++) {
      const connection = connections[i] as Connection;
      if (connection.idleUntil !== IN_USE) return connection;
    }
    return undefined;
  }

  #open(): Connection {
    const connection = new Connection(this.#connect, this, this.#limits);
    this.#connections.push(connection);
    return connection;
  }

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
    // Each one removes itself from the list.
    for (const connection of this.#connections.slice()) connection.destroy();
  }

  readonly #sweep = (): void => {
    const now = performance.now();
    const idle = this.#connections.filter(({ idleUntil }) => idleUntil !== IN_USE);
    for (const connection of idle) if (connection.idleUntil <= now) connection.destroy();
    this.#timer = idle.length === 0 ? undefined : setTimeout(this.#sweep, TICK_MS).unref();
  };
}

/**
 * Returns how long a connection may be idle, in milliseconds.
 *
 * @param keepAlive value of a Keep-Alive field
 */
function idleTime(keepAlive: string | undefined): number {
  const seconds = keepAlive === undefined ? undefined : /timeout=(\d{1,9})/i.exec(keepAlive)?.[1];
  return seconds === undefined ? IDLE_MS : Math.min(Number(seconds) * 1_000, MAX_IDLE_MS) - HINT_MARGIN_MS;
}
