import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import { Socket } from 'node:net';
import type { ReadOption } from '../net/socket.js';

/** What Node keeps for itself: the handle of a socket, and the properties that hold `onread`. */
interface Internals {
  readonly _handle?: {
    readonly useUserBuffer?: (buffer: Uint8Array) => void;
    readonly getpeername?: (found: object) => number;
    /** Bytes that the system has not taken yet. */
    readonly writeQueueSize?: number;
  } | null;
  [property: symbol]: unknown;
}

const [BUFFER, CALLBACK, NEXT_BUFFER] = ['kBuffer', 'kBufferCb', 'kBufferGen'].map(symbolOf);

/**
 * Sets the option `onread` of an accepted socket that has not received data yet: node takes it for outgoing
 * connections only.
 * @returns whether it is set; without it, which another version of Node may require, the socket emits `data`
 */
export function setOnread(socket: Socket, onread: ReadOption): boolean {
  const internals = socket as unknown as Internals;
  const handle = internals._handle;
  if (BUFFER === undefined || CALLBACK === undefined || NEXT_BUFFER === undefined) return false;
  if (typeof handle?.useUserBuffer !== 'function') return false;
  const first = onread.buffer();
  internals[BUFFER] = first;
  internals[CALLBACK] = onread.callback;
  internals[NEXT_BUFFER] = onread.buffer;
  handle.useUserBuffer(first);
  return true;
}

/**
 * Whether a connection was reset, even if Node has not noticed: an HTTP/2 session over TLS does not go on
 * after a failed write (Node 20 and 24, not 26).
 */
export function isReset(socket: Socket): boolean {
  const { _handle: handle } = socket as unknown as Internals;
  return typeof handle?.getpeername === 'function' && handle.getpeername({}) !== 0;
}

/** A stream that never exists: the server would open it for a push. */
const NO_STREAM = 2;

/** Makes Node send the frames that are queued, with one that nghttp2 drops when it is its turn. */
function sendQueued(session: ServerHttp2Session): void {
  session.altsvc('clear', NO_STREAM);
}

/**
 * Destroys a connection whose session ended with a connection error (RFC 9113 5.4.1). Node then neither
 * closes it nor reads its end, so requests would continue. Such a session sends no more frames: the one of
 * {@link sendQueued} stays queued.
 * @param intact called if the session goes on; neither happens while the client reads too slowly
 */
export function destroyIfBroken(session: ServerHttp2Session, socket: Socket, intact: () => void): void {
  const { bytesWritten } = socket;
  const isQuiet = (): boolean =>
    (socket as unknown as Internals)._handle?.writeQueueSize === 0 && socket.bytesWritten === bytesWritten;
  const isStuck = (): boolean => isQuiet() && session.state.outboundQueueSize !== 0;
  if (session.destroyed || !isQuiet()) return;
  sendQueued(session);
  // Node sends before it runs these. The second one rules out frames that were queued since.
  setImmediate(() => {
    if (session.destroyed) return;
    if (session.state.outboundQueueSize === 0) intact();
    else if (isStuck()) setImmediate(() => !session.destroyed && isStuck() && socket.destroy());
  });
}

/** Returns the symbol of a property of every socket. */
function symbolOf(name: string): symbol | undefined {
  return Object.getOwnPropertySymbols(new Socket()).find(({ description }) => description === name);
}

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
