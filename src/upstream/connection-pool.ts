import { type Connect, Connection, type ConnectionOwner, IN_USE } from './connection.js';
import type { Dispatcher, ResponseHandler, UpstreamRequest } from './upstream-request.js';

/** An idle connection is closed after so long, a little before many servers would (5 s), so that no request meets its end. */
const IDLE_MS = 4_000;
/** An upstream that says how long it keeps a connection is believed less so much, and up to so long. */
const HINT_MARGIN_MS = 2_000;
const MAX_IDLE_MS = 600_000;
/**
 * Connections close up to so much sooner. All those that a burst left idle at once kept every request waiting for 40 ms
 * (256 connections).
 */
const SOONER_MS = 500;
const TICK_MS = 50;

/** The connections to one address. They are as many as its requests at most, which `connection-limiter.ts` limits. */
export class ConnectionPool implements ConnectionOwner, Dispatcher {
  readonly #connect: Connect;
  /** The oldest first. */
  readonly #connections: Connection[] = [];
  /** The Keep-Alive field read last, and what it says in milliseconds: an upstream sends the same with each answer. */
  #hint: string | undefined;
  #hintMs = IDLE_MS;
  #timer: NodeJS.Timeout | undefined;

  constructor(connect: Connect) {
    this.#connect = connect;
  }

  /**
   * Sends a request on an idle connection, or on a new one.
   *
   * The oldest idle one is taken, so that those which only a burst needed stay idle and close. To take the one used last costs
   * a small request 13 % more on loopback, to take turns 8 %: the kernel's part of a write is dearer.
   */
  dispatch(request: UpstreamRequest, handler: ResponseHandler): void {
    const connection = this.#findIdle() ?? this.#open();
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
    const connection = new Connection(this.#connect, this);
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
    // Each leaves the list.
    for (const connection of this.#connections.slice()) connection.destroy();
  }

  readonly #sweep = (): void => {
    const now = performance.now();
    const idle = this.#connections.filter(({ idleUntil }) => idleUntil !== IN_USE);
    for (const connection of idle) if (connection.idleUntil <= now) connection.destroy();
    this.#timer = idle.length === 0 ? undefined : setTimeout(this.#sweep, TICK_MS).unref();
  };
}

/** How long a connection may be idle, in milliseconds. @param keepAlive value of a Keep-Alive field */
function idleTime(keepAlive: string | undefined): number {
  const seconds = keepAlive === undefined ? undefined : /timeout=(\d{1,9})/i.exec(keepAlive)?.[1];
  return seconds === undefined ? IDLE_MS : Math.min(Number(seconds) * 1_000, MAX_IDLE_MS) - HINT_MARGIN_MS;
}
