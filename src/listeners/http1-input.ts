import type { Socket } from 'node:net';
import { SocketReader } from '../net/socket.js';
import { DATA, END, type Event, type MessageLimits, NEED_DATA } from '../http1/events.js';
import { RequestParser } from '../http1/request-parser.js';
import { setOnread } from './accepted-socket.js';
import type { Refusal } from '../domain/refusal.js';
import type { ParsedRequest, Serve } from '../http/exchange.js';
import type { Reply } from '../http/replies.js';
import type { UnreadableInput } from '../pipeline/access-log.js';
import type { Config } from '../config/schema/config.js';

const MAX_UNREAD = 64 * 1024;

const SMALL = 256;
const JOINED = 4_096;

export class Http1Input {
  readonly parser: RequestParser;
  readonly #socket: Socket;
  readonly #reader = new SocketReader();
  #nextEvent: Event | undefined;
  #nextData: Buffer | undefined;
  /** Whether the socket is paused, because too much is unread. */
  isPaused = false;

  /** @param onData receives the bytes, and feeds the parser; also a `data` listener of the socket */
  constructor(socket: Socket, limits: MessageLimits, onData: (bytes: Buffer) => void) {
    this.#socket = socket;
    this.parser = new RequestParser(limits, false);
    this.#reader.onBytes = onData;
    setOnread(socket, this.#reader.onread);
  }

  next(): Event {
    const event = this.#nextEvent ?? this.parser.next();
    this.#nextEvent = undefined;
    return event;
  }

  /** Reads the end of an empty body. @returns undefined until it is known whether it is empty */
  readEmptyBody(): boolean | undefined {
    const event = this.next();
    if (event === NEED_DATA) return undefined;
    if (event === END) return true;
    this.#nextEvent = event;
    if (event === DATA) this.#nextData = Buffer.from(this.parser.data);
    return false;
  }

  /**
   * Returns the data of a `DATA` event, joined with what follows if it is small: chunks of a byte each would
   * take a hundred times as much. The bytes are valid until {@link release}.
   */
  takeData(): Buffer {
    const { parser } = this;
    const first = this.#nextData;
    if (first !== undefined) {
      this.#nextData = undefined;
      return this.#reader.keep(first);
    }
    if (parser.data.length >= SMALL || parser.unread === 0) return this.#reader.keep(parser.data);
    const parts = [parser.data];
    for (let size = parser.data.length; size < JOINED; size += parser.data.length) {
      const event = parser.next();
      if (event !== DATA) {
        if (event !== NEED_DATA) this.#nextEvent = event;
        break;
      }
      parts.push(parser.data);
    }
    // The copy is released like any other part, and must not count as the release of another one.
    return this.#reader.keep(Buffer.concat(parts));
  }

  release(): void {
    this.#reader.release();
  }

  /** Pauses the socket while too much is unread, and resumes it after that. */
  pauseWhileFull(): void {
    const isFull = this.parser.unread >= MAX_UNREAD;
    if (isFull === this.isPaused) return;
    this.isPaused = isFull;
    if (isFull) this.#socket.pause();
    else this.#socket.resume();
  }

  /** From now on, what arrives goes to the stream of the socket, as for other protocols. */
  leaveTo(stream: Socket): void {
    this.#reader.pushTo(stream);
  }

  close(): void {
    this.#reader.close();
  }
}

/** Receives a request to switch protocols; all earlier responses of its connection are written. */
export type UpgradeListener = (req: ParsedRequest, socket: Socket, head: Buffer) => void;

/** @param req the request whose body it is; undefined when it is not part of a request */
export type RefusalAnswer = (refusal: Refusal, req?: ParsedRequest) => Reply;

export interface Http1Settings {
  readonly limits: MessageLimits;
  readonly keepAliveHint: string;
  readonly serve: Serve;
  /** Null for a port that never switches protocols. */
  readonly upgrade: UpgradeListener | null;
  /** Receives a connection that begins with HTTP/2, unread; null for a port that refuses it. */
  readonly http2: ((socket: Socket) => void) | null;
  readonly answerOf: RefusalAnswer;
  readonly unreadable: (input: UnreadableInput) => void;
  /** Called with an unexpected error; the connection is closed by then. */
  readonly fault: (error: unknown) => void;
}

export type ListenerLimits = Pick<
  Config['limits'],
  'head_size' | 'head_fields' | 'target_size' | 'head_timeout' | 'keep_alive'
>;
