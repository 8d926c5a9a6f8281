import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { Http1Connection, type Http1Owner } from './http1-connection.js';
import type { Http1Settings, ListenerLimits } from './http1-input.js';

/** Maximum milliseconds between checks of the time limits. */
const MAX_SWEEP_MS = 500;
/** Minimum milliseconds for a client to read the rest of a response, whatever `keep_alive` is. */
const UNREAD_MS = 60_000;
/** Milliseconds after which an idle connection forgets the head of its last request. */
const FORGET_MS = 1_000;
/** Milliseconds for which the first request of a new connection may be in transit. */
const SILENT_MS = 1_000;

const EMPTY = /^$/;

export class Http1Connections implements Http1Owner {
  readonly tunnels = new Set<Duplex>();
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
