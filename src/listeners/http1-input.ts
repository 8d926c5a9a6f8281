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
/**
 * The same for bytes that nobody has read for a while, of a connection and of all in a process: a client that
 * is gone may have left as much in the system's buffer (4 MiB on Linux) and in ours.
 */
const MAX_HELD = 8 * 1024 * 1024;
const MAX_HELD_IN_ALL = 64 * 1024 * 1024;

let heldInAll = 0;

const SMALL = 256;
const JOINED = 4_096;

export class Http1Input extends SocketReader {
  readonly parser: RequestParser;
  readonly #socket: Socket;
  #nextEvent: Event | undefined;
  #nextData: Buffer | undefined;
  /** `performance.now()` since which too much is unread; 0 if it is not. */
  fullSince = 0;
  /** Whether more is held than usual. */
  #holdsMore = false;
  #held = 0;
  #isPaused = false;

  /** @param onData receives the bytes, and feeds the parser; also a `data` listener of the socket */
  constructor(socket: Socket, limits: MessageLimits, onData: (bytes: Buffer) => void) {
    super();
    this.#socket = socket;
    this.parser = new RequestParser(limits);
    this.onBytes = onData;
    setOnread(socket, this.onread);
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
      return this.keep(first);
    }
    if (parser.data.length >= SMALL || parser.unread === 0) return this.keep(parser.data);
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
    return this.keep(Buffer.concat(parts));
  }

  /** Whether bytes are held that nobody has read for a while. */
  get holdsMore(): boolean {
    return this.#holdsMore;
  }

  /** Pauses the socket while too much is unread, and resumes it after that. */
  pauseWhileFull(): void {
    const { unread } = this.parser;
    if (unread < MAX_UNREAD) {
      this.fullSince = 0;
      this.#holdsMore = false;
    } else if (this.fullSince === 0) this.fullSince = performance.now();
    this.#hold(this.#holdsMore ? unread : 0);
    const hasRoom = this.#holdsMore && unread < MAX_HELD && heldInAll < MAX_HELD_IN_ALL;
    const isPaused = unread >= MAX_UNREAD && !hasRoom;
    if (isPaused === this.#isPaused) return;
    this.#isPaused = isPaused;
    if (isPaused) this.#socket.pause();
    else this.#socket.resume();
  }

  /** Reads on although too much is unread, up to a larger limit; returns whether it allows more. */
  holdMore(): boolean {
    this.#holdsMore = true;
    this.pauseWhileFull();
    return !this.#isPaused;
  }

  drop(): void {
    this.parser.takeRest();
    this.pauseWhileFull();
  }

  override close(): void {
    this.#hold(0);
    super.close();
  }

  #hold(bytes: number): void {
    heldInAll += bytes - this.#held;
    this.#held = bytes;
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
  /** Null for a port that never switches protocols: it serves such requests like any other. */
  readonly upgrade: UpgradeListener | null;
  /** Receives a connection that begins with HTTP/2, unread; null for a port that refuses it. */
  readonly http2: ((socket: Socket) => void) | null;
  readonly answerOf: RefusalAnswer;
  /** Called for input that cannot be parsed. It is refused, and its connection closed. */
  readonly unreadable: (input: UnreadableInput) => void;
  /** Called with an unexpected error; the connection is closed by then. */
  readonly fault: (error: unknown) => void;
}

export type ListenerLimits = Pick<
  Config['limits'],
  'head_size' | 'head_fields' | 'target_size' | 'head_timeout' | 'keep_alive'
>;
