import {
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { mayHaveEmptyBody } from '../domain/methods.js';
import type { Serve } from '../http/exchange.js';
import { guarded } from '../util/async.js';
import { compactReads, deferOutOfReads, nameLastStream } from '../http/http2.js';
import { FIELD_BYTES } from '../http/http2-fields.js';
import { destroyIfBroken, isReset, UnreadBodies } from './accepted-socket.js';
import { Http2Request, Http2Response, isAbortedByClient } from './http2-message.js';
import type { ListenerLimits } from './http1-input.js';

/** Maximum concurrent requests per connection (RFC 9113 6.5.2 recommends no fewer). */
export const MAX_STREAMS = 100;
/** Flow-control window of a stream, in bytes: what an upload sends in one round trip. */
const STREAM_WINDOW = 524_288;
export const SESSION_MEMORY = 8;
/** Milliseconds within which a reset stream counts as a rapid reset (CVE-2023-44487). */
const RAPID_MS = 1_000;
/** Rapid resets of a client at once, and on average per second; each other stream offsets one. */
const RESETS = 300;
const RESETS_PER_SECOND = 100;
/** How many times as many resets and unread bytes a proxy may send, on behalf of its clients. */
const PROXY_FACTOR = 10;
/**
 * Resets that nghttp2 accepts, per second. With its default of 33, clients with deadlines would lose
 * connections.
 */
const NATIVE_RESETS = 10_000;
/** Invalid frames, and streams beyond the limit, after which a connection is closed. */
const MAX_INVALID_FRAMES = 100;
/**
 * Node's limit of the header list, in multiples of `head_size` and `target_size` together; the head reader
 * refuses heads between the two, with a proper response.
 */
const HEAD_SIZES = 2;
/** Milliseconds that a client has after the end of its connection was announced. */
const CLOSE_GRACE_MS = 1_000;
const MAX_SWEEP_MS = 1_000;

class Connection {
  readonly socket: Socket;
  readonly session: ServerHttp2Session;
  readonly streams = new Map<ServerHttp2Stream, number>();
  /** Complete responses that the client has not read, by the time when this was first noticed. */
  readonly waiting = new Map<ServerHttp2Stream, number>();
  readonly bodies: UnreadBodies;
  served = false;
  idleSince = performance.now();
  /** When its end was announced; null before that. */
  closingAt: number | null = null;
  readonly #allowance: number;
  #resets: number;
  #resetsAt = this.idleSince;
  #intactAt = 0;

  /** @param allowance 1, or {@link PROXY_FACTOR} */
  constructor(socket: Socket, session: ServerHttp2Session, allowance: number) {
    this.socket = socket;
    this.session = session;
    this.bodies = new UnreadBodies(session, this.streams, allowance);
    this.#allowance = allowance;
    this.#resets = allowance * RESETS;
  }

  /** Checks a session that has read something since it was last known to be intact. */
  check(): void {
    const { bytesRead } = this.socket;
    if (bytesRead === this.#intactAt) return;
    destroyIfBroken(this.session, this.socket, () => (this.#intactAt = bytesRead));
  }

  /**
   * Counts the end of a stream; returns whether the client has too many rapid resets. Only one most of whose
   * streams are such resets runs out: every other stream offsets one.
   */
  countReset(isRapid: boolean, now: number): boolean {
    const since = (now - this.#resetsAt) / 1_000;
    const most = this.#allowance * RESETS;
    const remaining = Math.min(most, this.#resets + since * this.#allowance * RESETS_PER_SECOND);
    this.#resets = isRapid ? remaining - 1 : remaining + 1;
    this.#resetsAt = now;
    return this.#resets < 0;
  }
}

/** @param rawHeaders flat, pseudo-header fields included */
type StreamListener = (
  socket: Socket,
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  rawHeaders: readonly string[],
) => void;

/** Serves a stream of a client, once it is known whether a read has an empty body. */
export function serveStream(
  serve: Serve,
  patience: number,
  ...[socket, stream, headers, rawHeaders]: Parameters<StreamListener>
): void {
  const request = new Http2Request(socket, stream, headers, rawHeaders);
  const begin = () => serve(request, new Http2Response(request));
  const isUnknown = !stream.endAfterHeaders && headers['content-length'] === undefined;
  if (isUnknown && mayHaveEmptyBody(request.method ?? '')) request.whenKnown(begin, patience);
  else begin();
}

function createHttp2Server({ head_size, target_size }: ListenerLimits): Http2Server {
  const listSize = HEAD_SIZES * (head_size + target_size);
  // Typed here, as the declarations of Node 20 lack the resets.
  const resets: object = { streamResetBurst: NATIVE_RESETS, streamResetRate: NATIVE_RESETS };
  return createServer({
    ...resets,
    maxSessionMemory: SESSION_MEMORY,
    maxSessionInvalidFrames: MAX_INVALID_FRAMES,
    maxSessionRejectedStreams: MAX_INVALID_FRAMES,
    maxHeaderListPairs: Math.ceil(listSize / FIELD_BYTES),
    settings: {
      maxConcurrentStreams: MAX_STREAMS,
      maxHeaderListSize: listSize,
      initialWindowSize: STREAM_WINDOW,
    },
  });
}

/** The HTTP/2 connections, with the limits that `Http1Connections` enforces for the others. */
export class Http2Connections {
  readonly #server: Http2Server;
  readonly #open = new Set<Connection>();
  readonly #limits: ListenerLimits;
  readonly #onStream: StreamListener;
  readonly #failed: (error: unknown, socket: Duplex) => void;
  readonly #isProxy: (peer: Socket) => boolean;
  #sweeping: NodeJS.Timeout | undefined;
  #draining = false;

  /**
   * @param failed receives the exception of a listener; it closes the connection
   * @param isProxy whether a peer sends the requests of many clients
   */
  constructor(
    limits: ListenerLimits,
    onStream: StreamListener,
    failed: (error: unknown, socket: Duplex) => void,
    isProxy: (peer: Socket) => boolean = () => false,
    server = createHttp2Server(limits),
  ) {
    this.#limits = limits;
    this.#onStream = onStream;
    this.#failed = failed;
    this.#isProxy = isProxy;
    this.#server = server;
    // The connection ends with the error, and its code is sent to the client.
    this.#server.on('sessionError', () => undefined);
  }

  accept(socket: Socket): void {
    const onSession = guarded(
      (session: ServerHttp2Session) => this.#watch(socket, session),
      (error) => this.#failed(error, socket),
    );
    this.#server.once('session', onSession);
    this.#server.emit('connection', socket);
    // A connection lost by now has no session, and must not be given that of the next one.
    this.#server.off('session', onSession);
  }

  /** Closes idle connections. Those that were sent a GOAWAY have a moment to receive it. */
  closeIdle(): void {
    const now = performance.now();
    for (const each of this.#open) {
      if (each.streams.size > 0) continue;
      if (each.closingAt === null) this.#destroy(each);
      else if (this.#isOver(each, each.closingAt, now)) each.socket.destroy();
    }
  }

  /**
   * Closes each connection after the requests that arrived before its GOAWAY was sent, also connections whose
   * handshake ends later.
   */
  drain(): void {
    this.#draining = true;
    for (const each of this.#open) this.#announceEnd(each);
  }

  destroyAll(): void {
    for (const each of this.#open) {
      each.session.destroy();
      each.socket.destroy();
    }
  }

  sweep(): void {
    const now = performance.now();
    const { head_timeout, keep_alive } = this.#limits;
    for (const each of this.#open) {
      if (isReset(each.socket)) {
        each.socket.destroy();
        continue;
      }
      each.check();
      // Node waits until the last frame is sent, and a client that does not read would keep the connection.
      if (each.session.destroyed) each.closingAt ??= now;
      const isIdle = each.streams.size === 0 || each.session.destroyed;
      if (isIdle && each.closingAt !== null) {
        if (this.#isOver(each, each.closingAt, now)) each.socket.destroy();
      } else if (isIdle) {
        if (now - each.idleSince < (each.served ? keep_alive : head_timeout)) continue;
        each.closingAt = now;
        each.session.close();
      } else {
        this.#resetUnreadStreams(each, now);
      }
    }
  }

  /**
   * Whether a connection without requests has had its time to close. Node closes a stream whose last bytes
   * are still in the socket; they may be read for as long as those of an open one, unless the connection ends
   * with an error.
   */
  #isOver({ socket, session, served, idleSince }: Connection, closingAt: number, now: number): boolean {
    if (now - Math.max(closingAt, idleSince) < CLOSE_GRACE_MS) return false;
    const isUnsent = served && session.closed && !socket.writableFinished;
    return !isUnsent || now - idleSince >= this.#limits.keep_alive;
  }

  #watch(socket: Socket, session: ServerHttp2Session): void {
    const connection = new Connection(socket, session, this.#isProxy(socket) ? PROXY_FACTOR : 1);
    this.#open.add(connection);
    const { head_timeout } = this.#limits;
    this.#sweeping ??= setInterval(() => this.sweep(), Math.min(MAX_SWEEP_MS, head_timeout / 2)).unref();
    socket.once('close', () => this.#closed(connection));
    deferOutOfReads(session);
    const begin = guarded(this.#begin.bind(this, connection), (error) => this.#failed(error, socket));
    session.on('stream', (stream, headers, _flags, ...[rawHeaders]: unknown[]) =>
      begin(stream, headers, rawHeaders as string[]),
    );
    if (this.#draining) this.#announceEnd(connection);
  }

  #closed(connection: Connection): void {
    this.#open.delete(connection);
    if (this.#open.size > 0) return;
    clearInterval(this.#sweeping);
    this.#sweeping = undefined;
  }

  #announceEnd(connection: Connection): void {
    const { session } = connection;
    if (connection.closingAt !== null || session.destroyed) return;
    connection.closingAt = performance.now();
    session.goaway();
    const close = () => {
      clearTimeout(timer);
      session.close();
    };
    const timer = setTimeout(close, CLOSE_GRACE_MS / 2).unref();
    const acknowledged = () => {
      nameLastStream(session);
      close();
    };
    // The acknowledgment shows that the GOAWAY was sent.
    if (!session.ping(() => setImmediate(acknowledged))) close();
  }

  /** Starts a request. Unusual ones, such as CONNECT, are left to the head reader. */
  #begin(
    connection: Connection,
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: readonly string[],
  ): void {
    connection.served = true;
    connection.streams.set(stream, performance.now());
    stream.once('close', () => this.#ended(connection, stream));
    // Outside of the read: see `deferOutOfReads`.
    stream.once('aborted', () => setImmediate(destroyIfReset, stream));
    const { arrived, released } = connection.bodies;
    if (!stream.endAfterHeaders) compactReads(stream, arrived, released);
    this.#onStream(connection.socket, stream, headers, rawHeaders);
  }

  #ended(connection: Connection, stream: ServerHttp2Stream): void {
    const now = performance.now();
    const age = now - (connection.streams.get(stream) as number);
    connection.streams.delete(stream);
    connection.waiting.delete(stream);
    connection.bodies.released();
    connection.idleSince = now;
    if (connection.session.destroyed) return;
    if (connection.countReset(age < RAPID_MS && isAbortedByClient(stream), now))
      this.#destroy(connection, constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }

  /** Closes streams whose complete response the client does not read; they would be kept forever. */
  #resetUnreadStreams({ streams, waiting }: Connection, now: number): void {
    for (const stream of streams.keys()) {
      if (!stream.writableEnded && !stream.closed) continue;
      destroyIfReset(stream);
      const since = waiting.get(stream);
      if (since === undefined) waiting.set(stream, now);
      else if (now - since < this.#limits.keep_alive) continue;
      // Node keeps a closed stream until its client has read earlier data, and that client may be dead.
      else if (stream.closed) stream.destroy();
      else stream.close(constants.NGHTTP2_CANCEL);
    }
  }

  #destroy({ session }: Connection, code?: number): void {
    // Node sends the code only together with an error.
    if (code === undefined) session.destroy();
    else session.destroy(new Error('the client abuses the connection'), code);
  }
}

/**
 * Destroys a stream that its client has reset with NO_ERROR: node keeps it until it is read, but nghttp2 has
 * forgotten it (its state is idle), so it never is.
 */
function destroyIfReset(stream: ServerHttp2Stream): void {
  if (stream.destroyed || !stream.closed) return;
  if (stream.state.state === constants.NGHTTP2_STREAM_STATE_IDLE) stream.destroy();
}
