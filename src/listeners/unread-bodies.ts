import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import { sendQueued } from './accepted-socket.js';

const WINDOW = 1024 * 1024;
/** Unread bytes at which the window closes. It opens again below half of them. */
const MAX_UNREAD = 4 * 1024 * 1024;
/** Bytes of bodies after which the unread ones are counted again. */
const STEP = 64 * 1024;
/** Bytes that an open window grants more than all earlier ones. */
const NUDGE = 64;

/**
 * Bounds the bodies that an HTTP/2 connection holds unread. Node returns what arrives to the connection's
 * window at once, read or not, so this one closes while too much is unread.
 */
export class UnreadBodies {
  readonly #session: ServerHttp2Session;
  readonly #streams: ReadonlyMap<ServerHttp2Stream, unknown>;
  readonly #most: number;
  #window = WINDOW;
  #isOpen = true;
  #arrived = 0;
  #isDue = false;

  /** @param allowance factor of the limit */
  constructor(
    session: ServerHttp2Session,
    streams: ReadonlyMap<ServerHttp2Stream, unknown>,
    allowance: number,
  ) {
    this.#session = session;
    this.#streams = streams;
    this.#most = allowance * MAX_UNREAD;
    session.setLocalWindowSize(WINDOW);
  }

  readonly arrived = (bytes: number): void => {
    this.#arrived += bytes;
    if (this.#arrived >= STEP && this.#isOpen) this.#countSoon();
  };

  readonly released = (): void => {
    if (!this.#isOpen) this.#countSoon();
  };

  /** Counts outside of a read of the connection (see `deferOutOfReads`), and after that of a stream. */
  #countSoon(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    setImmediate(this.#count);
  }

  readonly #count = (): void => {
    this.#isDue = false;
    this.#arrived = 0;
    let unread = 0;
    for (const stream of this.#streams.keys()) unread += stream.readableLength;
    if (this.#session.destroyed) return;
    if (this.#isOpen && unread >= this.#most) {
      this.#isOpen = false;
      this.#session.setLocalWindowSize(0);
    } else if (!this.#isOpen && 2 * unread < this.#most) {
      this.#isOpen = true;
      // nghttp2 announces only what exceeds every earlier window, and the rest with the next bytes.
      this.#window += NUDGE;
      this.#session.setLocalWindowSize(this.#window);
      sendQueued(this.#session);
    }
  };
}
