import { performance } from 'node:perf_hooks';
import type { MessageLimits } from '../http1/events.js';
import { type Connect, Connection, type ConnectionOwner, IN_USE, responseLimits } from './connection.js';
import type { Dispatcher, ResponseHandler, UpstreamRequest } from './upstream-request.js';

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
export class ConnectionPool implements ConnectionOwner, Dispatcher {
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
    for (const connection of this.#connections.slice()) connection.destroy();
  }

  readonly #sweep = (): void => {
    const now = performance.now();
    const idle = this.#connections.filter(({ idleUntil }) => idleUntil !== IN_USE);
    for (const connection of idle) if (connection.idleUntil <= now) connection.destroy();
    this.#timer = idle.length === 0 ? undefined : setTimeout(this.#sweep, TICK_MS).unref();
  };
}

/** @param keepAlive value of a Keep-Alive field */
function idleTime(keepAlive: string | undefined): number {
  const seconds = keepAlive === undefined ? undefined : /timeout=(\d{1,9})/i.exec(keepAlive)?.[1];
  return seconds === undefined ? IDLE_MS : Math.min(Number(seconds) * 1_000, MAX_IDLE_MS) - HINT_MARGIN_MS;
}
