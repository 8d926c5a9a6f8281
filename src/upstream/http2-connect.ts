import { connect, constants, type ClientHttp2Session } from 'node:http2';
import { maxHeaderSize } from 'node:http';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { destroyBetweenReads } from '../http/http2.js';
import type { Connect } from './connection.js';
import { NotHttp2 } from './faults.js';

/** Requests side by side on one connection, also where the upstream allows more. */
export const MAX_STREAMS = 100;
/**
 * Bytes of an answer that may be under way or wait for its client. Node takes the bytes of a paused stream off the
 * connection's own window, so that one slow client holds up no other.
 */
const STREAM_WINDOW = 262_144;
const CONNECTION_WINDOW = 4_194_304;
/** MiB that node keeps for one connection. */
const SESSION_MEMORY = 32;
/** As in HTTP/1.1; in the terms of HTTP/2 each field counts for 32 bytes more. */
const MAX_FIELDS = 1_000;
const MAX_HEADER_LIST = 2 * maxHeaderSize;
/** Frames with origins, all of which node remembers. */
const MAX_ORIGINS = 10;

/** A connection that speaks HTTP/2. */
export interface OpenSession {
  readonly session: ClientHttp2Session;
  readonly socket: Socket;
  /** Whether it takes no further request, though it may not be closed yet. */
  readonly isOver: () => boolean;
}

/** Opens a connection and waits for the upstream's settings. The callback is called once, and not before it returns. */
export type OpenHttp2 = (callback: (opened: OpenSession | Error) => void) => void;

/**
 * Makes the way to connections of HTTP/2. One is open once the settings of the upstream have come, with which every server of
 * HTTP/2 begins (RFC 9113 3.4): until then nothing of a request is sent, so it can go elsewhere.
 *
 * @param timeout milliseconds for the settings
 */
export function http2Opener(connectSocket: Connect, timeout: number): OpenHttp2 {
  return (callback) =>
    connectSocket((socket) => {
      if (socket instanceof Error) callback(ofAlpn(socket));
      else begin(socket, timeout, callback);
    });
}

function begin(socket: Socket, timeout: number, callback: (opened: OpenSession | Error) => void): void {
  const { alpnProtocol } = socket as Partial<TLSSocket>;
  if (alpnProtocol !== undefined && alpnProtocol !== 'h2') {
    socket.destroy();
    callback(new NotHttp2('it did not choose HTTP/2 by ALPN'));
    return;
  }
  let isDoomed = false;
  const session = sessionOn(socket, () => (isDoomed = true));
  const isOver = (): boolean => isDoomed || session.closed || session.destroyed;
  let fault: Error | undefined;
  const finish = (result: OpenSession | Error): void => {
    clearTimeout(timer);
    session.off('error', failed).off('close', closed).off('remoteSettings', opened);
    if (result instanceof Error) {
      session.destroy();
      socket.destroy();
    }
    callback(result);
  };
  const failed = (error: Error): void => void (fault = error);
  const closed = (): void => finish(new NotHttp2(fault?.message ?? 'it closed the connection'));
  const opened = (): void => finish({ session, socket, isOver });
  const timer = setTimeout(() => finish(new NotHttp2(`it sent no settings within ${timeout} ms`)), timeout);
  session.on('error', failed).once('close', closed).once('remoteSettings', opened);
}

/** A session whose every event has a listener. */
function sessionOn(socket: Socket, doomed: () => void): ClientHttp2Session {
  const session = connect('http://upstream', {
    createConnection: () => socket,
    peerMaxConcurrentStreams: MAX_STREAMS,
    maxSessionMemory: SESSION_MEMORY,
    maxHeaderListPairs: MAX_FIELDS,
    // Requests of many users share the connection: with a table, the size of one would tell of the fields of others (RFC 7541 7.1).
    maxDeflateDynamicTableSize: 0,
    settings: {
      enablePush: false,
      initialWindowSize: STREAM_WINDOW,
      maxHeaderListSize: MAX_HEADER_LIST,
    },
  });
  destroyBetweenReads(session, doomed);
  let origins = 0;
  session
    .on('error', () => undefined)
    .on('origin', () => {
      origins += 1;
      if (origins > MAX_ORIGINS)
        session.destroy(new Error('too many origins'), constants.NGHTTP2_ENHANCE_YOUR_CALM);
    });
  socket.on('error', () => undefined);
  session.setLocalWindowSize(CONNECTION_WINDOW);
  return session;
}

/** A server that speaks no HTTP/2 may refuse the handshake itself (RFC 7301 3.2). */
function ofAlpn(error: Error): Error {
  return /NO_APPLICATION_PROTOCOL/.test((error as NodeJS.ErrnoException).code ?? '')
    ? new NotHttp2('it refused HTTP/2 by ALPN')
    : error;
}
