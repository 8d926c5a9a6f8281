import type { Socket } from 'node:net';
import { SocketReader } from '../http/socket-reader.js';
import { DATA, type Event, NEED_DATA } from '../http1/events.js';
import type { MessageLimits } from '../http1/limits.js';
import { RequestParser } from '../http1/request-parser.js';
import { setOnread } from './accepted-socket.js';

/** Unread bytes at which the socket is paused. */
const MAX_UNREAD = 64 * 1024;

/** Parts of a body below this size are joined, up to the other one, in bytes. */
const SMALL = 256;
const JOINED = 4_096;

/** What a client sends on an HTTP/1.1 connection: its bytes, and the events in them. */
export class Http1Input {
  readonly parser: RequestParser;
  readonly #socket: Socket;
  readonly #reader = new SocketReader();
  /** An event that was parsed, but not returned. */
  #nextEvent: Event | undefined;
  /** Whether the socket is paused because of unread bytes. */
  #isFull = false;

  /** @param onData receives the bytes, and feeds the parser; also a `data` listener of the socket */
  constructor(socket: Socket, limits: MessageLimits, onData: (bytes: Buffer) => void) {
    this.#socket = socket;
    this.parser = new RequestParser(limits, false);
    this.#reader.onBytes = onData;
    setOnread(socket, this.#reader.onread);
  }

  /** Returns the next event of the parser. */
  next(): Event {
    const event = this.#nextEvent ?? this.parser.next();
    this.#nextEvent = undefined;
    return event;
  }

  /**
   * Returns the data of a `DATA` event, joined with what follows if it is small: chunks of a byte
   * each would take a hundred times as much.
   *
   * The bytes are valid until {@link release} is called.
   */
  takeData(): Buffer {
    const { parser } = this;
    if (parser.data.length >= SMALL || parser.unread === 0) return this.#reader.keep(parser.data);
    const parts = [parser.data];
    for (let size = parser.data.length; size < JOINED; size += parser.data.length) {
      const event = parser.next();
      if (event !== DATA) {
        // The parser repeats NEED_DATA until there is more.
        if (event !== NEED_DATA) this.#nextEvent = event;
        break;
      }
      parts.push(parser.data);
    }
    // The copy is released like any other part, and must not count as the release of another one.
    return this.#reader.keep(Buffer.concat(parts));
  }

  /** Releases the data taken last, as {@link SocketReader.release}. */
  release(): void {
    this.#reader.release();
  }

  /** Pauses the socket while too much is unread, and resumes it after that. */
  pauseWhileFull(): void {
    const isFull = this.parser.unread >= MAX_UNREAD;
    if (isFull === this.#isFull) return;
    this.#isFull = isFull;
    if (isFull) this.#socket.pause();
    else this.#socket.resume();
  }

  /** From now on, what arrives goes to the stream of the socket, as for other protocols. */
  leaveTo(stream: Socket): void {
    this.#reader.pushTo(stream);
  }

  /** Frees the buffers. Called when the socket closes. */
  close(): void {
    this.#reader.close();
  }
}
