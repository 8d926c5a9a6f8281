import { connect, isIP, type Socket } from 'node:net';
import {
  connect as connectTls,
  type ConnectionOptions,
  createSecureContext,
  type SecureContext,
} from 'node:tls';
import { hostOf, portOf } from '../domain/url-address.js';
import { type ProbeResponse, type Field, MAX_BODY, noResponse, type Probe } from './message.js';

/** Timeout of a connection with its response, in milliseconds. */
export const PROBE_MS = 5_000;

/** The server that requests are sent to. */
export interface Destination {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
  /** The value of `Host`. */
  readonly authority: string;
  /** Server name for TLS; empty for none. Absent: the host. */
  readonly serverName?: string;
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
export function tlsOptions(
  { host, port, serverName = isIP(host) === 0 ? host : '' }: Destination,
  more: ConnectionOptions = {},
): ConnectionOptions {
  return {
    host,
    port,
    rejectUnauthorized: false,
    ...OLD_TLS,
    ...(serverName === '' ? {} : { servername: serverName }),
    ...more,
  };
}

/** Created once: it costs as much as a handshake. */
let shared: SecureContext | undefined;

/** TLS sessions, whose resumption saves both sides most of the next handshake. */
const sessions = new WeakMap<Destination, Buffer>();

/** Opens a connection. The certificate is reported separately and not verified here. */
function open(to: Destination): Socket {
  if (!to.isTls) return connect({ host: to.host, port: to.port });
  const session = sessions.get(to);
  const secureContext = (shared ??= createSecureContext(OLD_TLS));
  const options = { secureContext, ALPNProtocols: ['http/1.1'], ...(session === undefined ? {} : { session }) };
  const socket = connectTls(tlsOptions(to, options));
  return socket.on('session', (made) => sessions.set(to, made));
} // prettier-ignore

/**
 * Returns the bytes of a request for a connection of its own.
 *
 * @param agent the name of this program
 */
export function bytesOf(probe: Probe, authority: string, agent: string): Buffer {
  const { method = 'GET', target, host = authority, fields = [], lines = [], body = '' } = probe;
  const version = probe.version ?? '1.1';
  const names = new Set(fields.map(([name]) => name.toLowerCase()));
  const head = [
    `${method} ${target} HTTP/${version}`,
    ...(version === '1.0' ? [] : [`Host: ${host}`]),
    `User-Agent: ${probe.agent === undefined ? '' : `${probe.agent} `}${agent}`,
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
    const finish = (answer: ProbeResponse) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      socket.destroy();
      done(answer);
    };
    const take = (hasEnded: boolean) => {
      const remote = socket.remoteAddress ?? '';
      const message = readResponse(Buffer.concat(chunks), hasEnded);
      if (message !== undefined) finish({ ...message, fault: '', remote, sentAt, receivedAt: Date.now() });
      else if (hasEnded) finish(noResponse('closed', sentAt, remote));
    };
    const fail = (code: string) => {
      const message = readResponse(Buffer.concat(chunks), true);
      const remote = socket.remoteAddress ?? '';
      if (message === undefined) finish(noResponse(code, sentAt, remote));
      else finish({ ...message, fault: '', remote, sentAt, receivedAt: Date.now() });
    };
    const onAbort = () => fail('ABORTED');
    const timer = setTimeout(() => fail('ETIMEDOUT'), to.timeout ?? PROBE_MS);
    signal?.addEventListener('abort', onAbort);
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      take(false);
    });
    socket.on('close', () => take(true));
    socket.on('error', (error: NodeJS.ErrnoException) => fail(error.code ?? error.message));
    socket.write(bytes);
  });
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
