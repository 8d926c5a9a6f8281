import { once } from 'node:events';
import { connect, isIP, type Socket } from 'node:net';
import {
  connect as connectTls,
  type ConnectionOptions,
  createSecureContext,
  type SecureContext,
  type TLSSocket,
} from 'node:tls';
import type { EpochMs } from '../util/time.js';
import { bytesOfAddress, hostOf, portOf } from '../util/addresses.js';

/** A header field, spelled as it is sent or was received. */
export type Field = readonly [name: string, value: string];

/** An HTTP/1.1 request. Only methods without side effects are available. */
export interface Probe {
  readonly method?: 'GET' | 'OPTIONS';
  readonly target: string;
  /** Value of `Host` instead of the URL's own. */
  readonly host?: string;
  readonly fields?: readonly Field[];
  /** Raw lines after the fields, without their line ends. */
  readonly lines?: readonly string[];
  /** Bytes after the head. */
  readonly body?: string;
}

/** A response, or the lack of one. */
export interface ProbeResponse {
  /** 0 without a response. */
  readonly status: number;
  readonly fields: readonly Field[];
  /** At most {@link MAX_BODY} bytes, without the framing. */
  readonly body: string;
  /** Why there was no response: a Node.js error code, or `closed`. Empty otherwise. */
  readonly fault: string;
  /** Address of the server; empty without a connection. */
  readonly remote: string;
  readonly sentAt: EpochMs;
  readonly receivedAt: EpochMs;
  /** Whether the server keeps the connection open afterwards. */
  readonly isKept: boolean;
}

/** Maximum size of the body that is read, in bytes. */
const MAX_BODY = 256 * 1024;

/** Returns the values of a field. @param name in lower case */
export function valuesOf({ fields }: Pick<ProbeResponse, 'fields'>, name: string): string[] {
  return fields.filter(([field]) => field.toLowerCase() === name).map(([, value]) => value);
}

/** Timeout of a connection with its response, in milliseconds. */
const PROBE_MS = 5_000;

/** The server that requests are sent to. */
export interface Destination {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
  /** The value of `Host`. */
  readonly authority: string;
  /** Timeout in milliseconds of a destination that may not exist. */
  readonly timeout?: number;
}

/**
 * Timeout in milliseconds of a guessed port: a firewall that drops packets must not use up the run.
 */
const GUESS_MS = 1_500;

/** Returns another port of the same host, without TLS, that may be open. */
export function guessedPort(to: Destination, port: number): Destination {
  return { ...to, port, isTls: false, timeout: GUESS_MS };
}

/** Returns the destination of a URL. */
export function destinationOf(url: URL): Destination {
  const host = hostOf(url);
  return { host, port: portOf(url), isTls: url.protocol === 'https:', authority: url.host };
}

/** Allows old versions, so that a server that supports nothing newer can be reported. */
const OLD_TLS: ConnectionOptions = { minVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0' };

/** Returns the options of a TLS connection that accepts any certificate and version. */
function tlsOptions({ host, port }: Destination, more: ConnectionOptions = {}): ConnectionOptions {
  return {
    host,
    port,
    rejectUnauthorized: false,
    ...OLD_TLS,
    ...(isIP(host) === 0 ? { servername: host } : {}),
    ...more,
  };
}

/** Created once: it costs as much as a handshake. */
let shared: SecureContext | undefined;

/** TLS sessions, whose resumption saves both sides most of the next handshake. */
const sessions = new WeakMap<Destination, Buffer>();

/** Opens a connection. The certificate is reported separately and not verified here. */
export function open(to: Destination): Socket {
  if (!to.isTls) return connect({ host: to.host, port: to.port });
  const session = sessions.get(to);
  const secureContext = (shared ??= createSecureContext(OLD_TLS));
  const options = {
    secureContext,
    ALPNProtocols: ['http/1.1'],
    ...(session === undefined ? {} : { session }),
  };
  const socket = connectTls(tlsOptions(to, options));
  return socket.on('session', (made) => sessions.set(to, made));
}

/** Opens a TLS connection, passes it to `use`, and closes it. @throws Error of the handshake */
export async function withTls<T>(
  to: Destination,
  more: ConnectionOptions,
  use: (socket: TLSSocket) => T,
): Promise<T> {
  const socket = connectTls(tlsOptions(to, more));
  try {
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(PROBE_MS) });
    return use(socket);
  } finally {
    socket.on('error', () => undefined);
    socket.destroy();
  }
}

/** Whether an address is a loopback address. */
export function isLoopback(address: string): boolean {
  return bytesOfAddress(address)[0] === 127 || address === '::1';
}

/** Whether an address belongs to a private network or this machine. */
export function isPrivateAddress(address: string): boolean {
  const [a = 0, b = 0, ...rest] = bytesOfAddress(address);
  if (isLoopback(address)) return true;
  if (rest.length === 2) return a === 10 || (a === 172 && b >= 16 && b < 32) || (a === 192 && b === 168);
  return (a & 0xfe) === 0xfc || (a === 0xfe && (b & 0xc0) === 0x80);
}

/**
 * Returns the bytes of a request for a connection of its own.
 *
 * @param agent the name of this program
 */
export function bytesOf(probe: Probe, authority: string, agent: string): Buffer {
  const { method = 'GET', target, host = authority, fields = [], lines = [], body = '' } = probe;
  const names = new Set(fields.map(([name]) => name.toLowerCase()));
  const head = [
    `${method} ${target} HTTP/1.1`,
    `Host: ${host}`,
    `User-Agent: ${agent}`,
    ...(names.has('accept') ? [] : ['Accept: application/json, */*;q=0.5']),
    ...(names.has('connection') ? [] : ['Connection: close']),
    ...fields.map(([name, value]) => `${name}: ${value}`),
    ...lines,
  ];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`, 'latin1');
}

/** Sends bytes on a new connection, and resolves to the first response. Never rejects. */
export async function exchange(to: Destination, bytes: Buffer, signal?: AbortSignal): Promise<ProbeResponse> {
  const sentAt = Date.now();
  return new Promise((done) => {
    const socket = open(to);
    const chunks: Buffer[] = [];
    /** @param fault why no more bytes arrive; empty while they may */
    const take = (fault: string) => {
      const message = readResponse(Buffer.concat(chunks), fault !== '');
      if (message === undefined && fault === '') return;
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      const remote = socket.remoteAddress ?? '';
      socket.destroy();
      const shown = message ?? { status: 0, fields: [], body: '', isKept: false };
      done({ ...shown, fault: message === undefined ? fault : '', remote, sentAt, receivedAt: Date.now() });
    };
    const onAbort = () => take('ABORTED');
    const timer = setTimeout(() => take('ETIMEDOUT'), to.timeout ?? PROBE_MS);
    signal?.addEventListener('abort', onAbort);
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      take('');
    });
    socket.on('close', () => take('closed'));
    socket.on('error', (error: NodeJS.ErrnoException) => take(error.code ?? error.message));
    socket.write(bytes);
  });
}

/** The client's connection preface (RFC 9113 3.4): a fixed text and an empty SETTINGS frame. */
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1');

/** Begins HTTP/2 on a connection, and returns what arrives until `isEnough` or the timeout. */
export async function beginHttp2(
  socket: Socket,
  isEnough: (received: Buffer) => boolean,
  timeout = PROBE_MS,
): Promise<Buffer> {
  return new Promise((done) => {
    let received = Buffer.alloc(0);
    const finish = () => {
      clearTimeout(timer);
      socket.destroy();
      done(received);
    };
    const timer = setTimeout(finish, timeout);
    socket.on('error', finish);
    socket.on('close', finish);
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (isEnough(received)) finish();
    });
    socket.write(PREFACE);
  });
}

/** Whether bytes begin with a SETTINGS frame, as every HTTP/2 server's do. */
export function isHttp2(received: Buffer): boolean {
  return received.length >= 9 && received[3] === 4 && received.readUInt32BE(5) === 0;
}

const HEAD_END = '\r\n\r\n';
const MAX_HEAD = 64 * 1024;

/** As much of a response as is needed to judge it. */
interface Message {
  readonly status: number;
  readonly fields: readonly Field[];
  readonly body: string;
  readonly isKept: boolean;
}

/**
 * Parses the response in the bytes received so far; undefined while more are needed.
 *
 * It accepts what the server's engine refuses, because it examines faulty servers.
 *
 * @param hasEnded whether no more bytes can arrive
 */
function readResponse(received: Buffer, hasEnded: boolean): Message | undefined {
  const text = received.toString('latin1');
  const end = text.indexOf(HEAD_END);
  if (end < 0) return hasEnded || text.length > MAX_HEAD ? brokenHead(text) : undefined;
  const [first = '', ...lines] = text.slice(0, end).split('\r\n');
  const status = statusOf(first);
  const rest = received.subarray(end + HEAD_END.length);
  if (status >= 100 && status < 200 && status !== 101) return readResponse(rest, hasEnded);
  const fields = lines.map(fieldOf);
  const framed = bodyOf(status, fields, rest);
  if (!framed.isComplete && !hasEnded && framed.body.length < MAX_BODY) return undefined;
  const isKept = framed.isComplete && !hasEnded && !has(fields, 'connection', 'close') && !first.startsWith('HTTP/1.0');
  return { status, fields, body: framed.body.subarray(0, MAX_BODY).toString('utf8'), isKept };
} // prettier-ignore

/** Returns what an incomplete or overlong head shows; undefined for anything but HTTP. */
function brokenHead(text: string): Message | undefined {
  if (!text.startsWith('HTTP/')) return undefined;
  return { status: statusOf(text), fields: [], body: '', isKept: false };
}

function statusOf(line: string): number {
  return Number(/^HTTP\/1\.[01] (\d{3})/.exec(line)?.[1] ?? 0);
}

function fieldOf(line: string): Field {
  const colon = line.indexOf(':');
  return [line.slice(0, Math.max(colon, 0)).trim(), line.slice(colon + 1).trim()];
}

function has(fields: readonly Field[], name: string, value: string): boolean {
  return fields.some(([field, text]) => field.toLowerCase() === name && text.toLowerCase().includes(value));
}

function bodyOf(
  status: number,
  fields: readonly Field[],
  rest: Buffer,
): { body: Buffer; isComplete: boolean } {
  if (status === 101 || status === 204 || status === 304) return { body: Buffer.alloc(0), isComplete: true };
  if (has(fields, 'transfer-encoding', 'chunked')) return dechunk(rest);
  const length = fields.find(([name]) => name.toLowerCase() === 'content-length')?.[1];
  if (length === undefined) return { body: rest, isComplete: false };
  return { body: rest.subarray(0, Number(length)), isComplete: rest.length >= Number(length) };
}

function dechunk(rest: Buffer): { body: Buffer; isComplete: boolean } {
  const parts: Buffer[] = [];
  let at = 0;
  for (;;) {
    const lineEnd = rest.indexOf('\r\n', at);
    const size = lineEnd < 0 ? Number.NaN : Number.parseInt(rest.toString('latin1', at, lineEnd), 16);
    if (Number.isNaN(size)) return { body: Buffer.concat(parts), isComplete: false };
    if (size === 0) return { body: Buffer.concat(parts), isComplete: true };
    parts.push(rest.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
}
