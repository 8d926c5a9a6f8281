import { AUTHORIZATION, bindsConnection } from '../http/authorization.js';
import { checkValue, destroyBetweenReads, type Http2Fields, http2Fields } from '../http/http2.js';
import { FIELD_BYTES, isBinaryList, isBinaryName } from '../http/http2-fields.js';
import type { UpstreamRequest } from './upstream-request.js';
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { type Connect, MAX_RESPONSE_FIELDS, MAX_RESPONSE_HEAD, peerOf } from './connect.js';
import { BrokenStream, codeOf, InvalidUpstreamResponse, NotHttp2, NotProcessed } from './faults.js';

/** @throws TypeError for a name or value that cannot be sent */
export function requestFields(
  { method, target, host, fields, length }: UpstreamRequest,
  scheme: string,
): Http2Fields {
  const headers = http2Fields(fields);
  // Node joins fields with NUL, so these must not contain it.
  for (const value of [method, target, host]) checkValue('pseudo-header', value);
  headers[':method'] = method;
  headers[':scheme'] = scheme;
  headers[':authority'] = host;
  headers[':path'] = target;
  // gRPC servers require an indication that trailers are supported.
  headers['te'] = 'trailers';
  if (length >= 0) headers['content-length'] = String(length);
  return headers;
}

/**
 * Bytes of fields up to which requests share a connection. Some servers close it for more (gRPC's C-core,
 * nginx).
 */
const MAX_SHARED = 8_192;
const ADDED = ':method:scheme:authority:pathtetrailerscontent-length000000000'.length + 6 * FIELD_BYTES;

/** Returns the size of a request's fields as `SETTINGS_MAX_HEADER_LIST_SIZE` counts it. */
export function sizeOfFields({ method, target, host, fields }: UpstreamRequest, scheme: string): number {
  let size = ADDED + method.length + scheme.length + host.length + target.length;
  for (let i = 0; i < fields.length; i += 2)
    size += (fields[i] as string).length + (fields[i + 1] as string).length + FIELD_BYTES;
  return size;
}

/**
 * Whether an upstream may close the connection because of a request's fields, or take later requests for
 * those of its user, so that the connection must be the request's own.
 */
export function areUnusual({ fields }: UpstreamRequest, size: number): boolean {
  if (size > MAX_SHARED || bindsConnection(fields, AUTHORIZATION)) return true;
  for (let i = 0; i < fields.length; i += 2)
    if (isBinaryName(fields[i] as string) && !isBinaryList(fields[i + 1] as string)) return true;
  return false;
}

export function withoutPseudoFields(raw: readonly string[]): string[] {
  const fields: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] as string;
    if (!name.startsWith(':')) fields.push(name, raw[i + 1] as string);
  }
  return fields;
}

/** Maximum concurrent requests per connection, even if the upstream allows more. */
export const MAX_STREAMS = 100;
/**
 * Flow-control windows in bytes. Node returns the bytes of a paused stream to the connection at once, so that
 * one slow client does not block others.
 */
const STREAM_WINDOW = 262_144;
const CONNECTION_WINDOW = 4_194_304;
/** Memory limit of node for one connection, in MiB. */
const SESSION_MEMORY = 32;
/**
 * Bytes of a request's fields: more than `head_size` can be, because node closes the connection after an
 * excess.
 */
const MAX_SENT_FIELDS = 4_194_304;
/** Maximum number of ORIGIN frames per connection: node stores all their origins. */
const MAX_ORIGINS = 10;

export interface OpenSession {
  readonly session: ClientHttp2Session;
  readonly socket: Socket;
  /** The other end; undefined for a Unix socket. */
  readonly peer: string | undefined;
  /** Returns whether it takes no more requests, although it may not be closed yet. */
  readonly isClosing: () => boolean;
}

/** Opens a connection and waits for the upstream's SETTINGS. Calls back once, and not before it returns. */
export type OpenHttp2 = (callback: (opened: OpenSession | Error) => void) => void;

/**
 * A connection is open once the upstream's SETTINGS arrive, the first frame of every HTTP/2 server (RFC 9113
 * 3.4). Until then nothing of a request is sent, so it can still go elsewhere.
 * @param timeout milliseconds
 * @param maxHead bytes of the fields of a response
 */
export function http2Opener(connectSocket: Connect, timeout: number, maxHead = MAX_RESPONSE_HEAD): OpenHttp2 {
  return (callback) =>
    connectSocket((socket) => {
      if (socket instanceof Error) callback(ofAlpn(socket));
      else begin(socket, timeout, maxHead, callback);
    });
}

function begin(socket: Socket, timeout: number, maxHead: number, callback: Parameters<OpenHttp2>[0]): void {
  const { alpnProtocol } = socket as Partial<TLSSocket>;
  if (alpnProtocol !== undefined && alpnProtocol !== 'h2') {
    socket.destroy();
    callback(new NotHttp2('it did not select HTTP/2 in ALPN'));
    return;
  }
  let isDestroying = false;
  const session = sessionOn(socket, maxHead, () => (isDestroying = true));
  const isClosing = (): boolean => isDestroying || session.closed || session.destroyed;
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
  const opened = (): void => finish({ session, socket, peer: peerOf(socket), isClosing });
  const timer = setTimeout(() => finish(new NotHttp2(`it sent no settings within ${timeout} ms`)), timeout);
  session.on('error', failed).once('close', closed).once('remoteSettings', opened);
}

function sessionOn(socket: Socket, maxHead: number, doomed: () => void): ClientHttp2Session {
  const session = connect('http://upstream', {
    createConnection: () => socket,
    peerMaxConcurrentStreams: MAX_STREAMS,
    maxSessionMemory: SESSION_MEMORY,
    maxHeaderListPairs: MAX_RESPONSE_FIELDS,
    maxSendHeaderBlockLength: MAX_SENT_FIELDS,
    // Requests of many users share the connection. With a dynamic table, the size of one request would reveal
    // fields of others (RFC 7541 7.1).
    maxDeflateDynamicTableSize: 0,
    settings: {
      enablePush: false,
      initialWindowSize: STREAM_WINDOW,
      maxHeaderListSize: maxHead + FIELD_BYTES * MAX_RESPONSE_FIELDS,
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

/** A server may reject HTTP/2 by refusing the handshake (RFC 7301 3.2). */
function ofAlpn(error: Error): Error {
  return /NO_APPLICATION_PROTOCOL/.test((error as NodeJS.ErrnoException).code ?? '')
    ? new NotHttp2('it refused HTTP/2 in ALPN')
    : error;
}

/** Codes of an invalid or excessive response; a reset by nghttp2 looks like one by the upstream. */
const INVALID_RESPONSE_CODES: ReadonlySet<number> = new Set([
  constants.NGHTTP2_PROTOCOL_ERROR,
  constants.NGHTTP2_FLOW_CONTROL_ERROR,
  constants.NGHTTP2_ENHANCE_YOUR_CALM,
]);

export function faultOfStream(
  stream: ClientHttp2Stream,
  { session, socket }: OpenSession,
  lastStream: number,
  error: Error | undefined,
): Error {
  const code = stream.rstCode;
  if (code === constants.NGHTTP2_REFUSED_STREAM || (stream.id ?? 0) > lastStream)
    return new NotProcessed('the upstream refused the stream');
  if (error !== undefined && codeOf(error) === 'ERR_HTTP2_ERROR')
    return new InvalidUpstreamResponse(`malformed HTTP/2: ${error.message}`);
  if (session.destroyed || socket.destroyed)
    return new BrokenStream(error?.message ?? 'the upstream closed the connection');
  if (code === constants.NGHTTP2_HTTP_1_1_REQUIRED)
    return new InvalidUpstreamResponse('it requires HTTP/1.1; set protocol: http1');
  const cause = error?.message ?? `the stream was reset with the code ${code}`;
  if (INVALID_RESPONSE_CODES.has(code)) return new InvalidUpstreamResponse(`malformed response: ${cause}`);
  return new BrokenStream(cause);
}
