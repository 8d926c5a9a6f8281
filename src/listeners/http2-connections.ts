import type { Config } from '../config/schema/config.js';
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
import { guarded } from '../domain/guarded.js';
import { keepOutOfReads } from '../http/http2.js';
import { brokenByClient } from './http2-response.js';

/** Requests side by side on one connection (RFC 9113 6.5.2 recommends no fewer). */
export const MAX_STREAMS = 100;
/** Bytes of bodies that may be under way on one connection and on one of its streams. */
const CONNECTION_WINDOW = 1_048_576;
const STREAM_WINDOW = 65_535;
/** MiB that node keeps for one connection; beyond it new streams are refused. */
export const SESSION_MEMORY = 8;
/** Streams that a client may break off at once, and each second (CVE-2023-44487). */
const RESETS = 200;
const RESETS_PER_SECOND = 20;
/** Frames that are no HTTP/2, and streams beyond the limit, before the connection is closed. */
const MAX_INVALID_FRAMES = 100;
/** The header list that node reads at most, in the reader's terms: that answers what is over once. */
const HEAD_SIZES = 2;
/** Bytes that HTTP/2 counts for each field besides its name and value (RFC 9113 6.5.2). */
const FIELD_BYTES = 32;
/** After the end of a connection was announced, its client is waited for so long. */
const FAREWELL_MS = 1_000;

/** Limits of connections and heads. */
export type ListenerLimits = Pick<
  Config['limits'],
  'head_size' | 'head_fields' | 'head_timeout' | 'keep_alive'
>;

/** One connection that speaks HTTP/2. */
interface Connection {
  readonly socket: Socket;
  readonly session: ServerHttp2Session;
  readonly streams: Set<ServerHttp2Stream>;
  /** Answers that are whole and wait for their client, by when they were seen first. */
  readonly waiting: Map<ServerHttp2Stream, number>;
  served: boolean;
  /** Since when no request is under way. */
  idleSince: number;
  /** When its end was announced. */
  closingAt: number | null;
  /** How many resets it may still do, and when that was counted. */
  resets: number;
  resetsAt: number;
}

/** Called with a stream that a client began. @param rawHeaders flat, pseudo-header fields included */
type StreamListener = (
  socket: Socket,
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  rawHeaders: readonly string[],
) => void;

/** Never listens: it takes over sockets whose handshake is done. */
function createHttp2Server({ head_size }: ListenerLimits): Http2Server {
  return createServer({
    maxSessionMemory: SESSION_MEMORY,
    maxSessionInvalidFrames: MAX_INVALID_FRAMES,
    maxSessionRejectedStreams: MAX_INVALID_FRAMES,
    maxHeaderListPairs: Math.ceil((head_size * HEAD_SIZES) / FIELD_BYTES),
    settings: {
      maxConcurrentStreams: MAX_STREAMS,
      maxHeaderListSize: head_size * HEAD_SIZES,
      initialWindowSize: STREAM_WINDOW,
      enablePush: false,
    },
  });
}

/** The connections that chose HTTP/2, with the limits that `Http1Connections` keeps for the others. */
export class Http2Connections {
  readonly #server: Http2Server;
  readonly #open = new Set<Connection>();
  readonly #limits: ListenerLimits;
  readonly #begun: StreamListener;
  readonly #failed: (error: unknown, socket: Duplex) => void;

  /**
   * @param begun gets each stream of a client
   * @param failed gets an error that a listener threw; it closes the connection
   * @param server what speaks the protocol
   */
  constructor(
    limits: ListenerLimits,
    begun: StreamListener,
    failed: (error: unknown, socket: Duplex) => void,
    server = createHttp2Server(limits),
  ) {
    this.#limits = limits;
    this.#begun = begun;
    this.#failed = failed;
    this.#server = server;
    // The connection ends with it; the error code is sent to its client.
    this.#server.on('sessionError', () => undefined);
  }

  /** Serves a connection from now on. */
  accept(socket: Socket): void {
    const onSession = guarded(
      (session: ServerHttp2Session) => this.#watch(socket, session),
      (error) => this.#failed(error, socket),
    );
    this.#server.once('session', onSession);
    this.#server.emit('connection', socket);
    // A connection that was lost by then has no session, and the next one's is not its.
    this.#server.off('session', onSession);
  }

  /** Closes the connections that have no request under way. Those that were sent a GOAWAY get a moment to receive it. */
  closeIdle(): void {
    const now = performance.now();
    for (const each of this.#open) {
      if (each.streams.size > 0) continue;
      if (each.closingAt === null) this.#destroy(each);
      else if (now - each.closingAt >= FAREWELL_MS) each.socket.destroy();
    }
  }

  /** Ends every connection behind the requests that its client sent before it heard of it. */
  drain(): void {
    for (const each of this.#open) {
      if (each.closingAt !== null || each.session.destroyed) continue;
      each.closingAt = performance.now();
      each.session.goaway();
      const close = () => {
        clearTimeout(timer);
        if (!each.session.closed) each.session.close();
      };
      const timer = setTimeout(close, FAREWELL_MS / 2).unref();
      // What came before the answer to it was sent before the client heard of the end.
      if (!each.session.ping(close)) close();
    }
  }

  destroyAll(): void {
    for (const each of this.#open) {
      each.session.destroy();
      each.socket.destroy();
    }
  }

  /** Holds the limits of time. Called again and again. */
  sweep(): void {
    const now = performance.now();
    const { head_timeout, keep_alive } = this.#limits;
    for (const each of this.#open) {
      // Node waits until its last frame is taken, and a client that takes nothing would keep the connection.
      if (each.session.destroyed) each.closingAt ??= now;
      const over = each.streams.size === 0 || each.session.destroyed;
      if (over && each.closingAt !== null) {
        if (now - each.closingAt >= FAREWELL_MS) each.socket.destroy();
      } else if (over) {
        if (now - each.idleSince >= (each.served ? keep_alive : head_timeout)) this.#close(each);
      } else {
        this.#breakUntaken(each, now);
      }
    }
  }

  #watch(socket: Socket, session: ServerHttp2Session): void {
    const now = performance.now();
    const connection: Connection = {
      socket,
      session,
      streams: new Set(),
      waiting: new Map(),
      served: false,
      idleSince: now,
      closingAt: null,
      resets: RESETS,
      resetsAt: now,
    };
    this.#open.add(connection);
    socket.once('close', () => this.#open.delete(connection));
    keepOutOfReads(session);
    session.setLocalWindowSize(CONNECTION_WINDOW);
    const begin = guarded(this.#begin.bind(this, connection), (error) => this.#failed(error, socket));
    session.on('stream', (stream, headers, _flags, ...[rawHeaders]: unknown[]) =>
      begin(stream, headers, rawHeaders as string[]),
    );
  }

  /** A request, whatever it expects, and CONNECT as well: the head reader answers. */
  #begin(
    connection: Connection,
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: readonly string[],
  ): void {
    connection.served = true;
    connection.streams.add(stream);
    stream.once('close', () => this.#ended(connection, stream));
    this.#begun(connection.socket, stream, headers, rawHeaders);
  }

  #ended(connection: Connection, stream: ServerHttp2Stream): void {
    connection.streams.delete(stream);
    connection.waiting.delete(stream);
    connection.idleSince = performance.now();
    if (!brokenByClient(stream) || connection.session.destroyed) return;
    const since = (connection.idleSince - connection.resetsAt) / 1_000;
    connection.resets = Math.min(RESETS, connection.resets + since * RESETS_PER_SECOND) - 1;
    connection.resetsAt = connection.idleSince;
    if (connection.resets < 0) this.#destroy(connection, constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }

  /** A client that leaves a whole answer lying would otherwise keep it, and the connection, for ever. */
  #breakUntaken({ streams, waiting }: Connection, now: number): void {
    for (const stream of streams) {
      if (!stream.writableEnded && !stream.closed) continue;
      const since = waiting.get(stream);
      if (since === undefined) waiting.set(stream, now);
      else if (now - since < this.#limits.keep_alive) continue;
      // Node keeps one that is closed until its client took what was sent before, and that client may be gone.
      else if (stream.closed) stream.destroy();
      else stream.close(constants.NGHTTP2_CANCEL);
    }
  }

  #close(connection: Connection): void {
    connection.closingAt = performance.now();
    connection.session.close();
  }

  #destroy({ session }: Connection, code?: number): void {
    // The code counts only beside an error.
    if (code === undefined) session.destroy();
    else session.destroy(new Error('the client misuses the connection'), code);
  }
}
