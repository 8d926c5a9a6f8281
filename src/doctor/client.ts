import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { connect, isIP, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import {
  connect as connectTls,
  type ConnectionOptions,
  createSecureContext,
  type SecureContext,
  type TLSSocket,
} from 'node:tls';
import type { EpochMs } from '../util/time.js';
import { bytesOfAddress, hostOf, portOf } from '../util/addresses.js';

export type Field = readonly [name: string, value: string];

/** An HTTP/1.1 request. Only methods without side effects are available. */
export interface Probe {
  readonly method?: 'GET' | 'OPTIONS';
  readonly target: string;
  readonly host?: string;
  readonly fields?: readonly Field[];
  /** Raw lines after the fields, without their line ends. */
  readonly lines?: readonly string[];
  readonly body?: string;
}

export interface ProbeResponse {
  /** 0 without a response. */
  readonly status: number;
  readonly fields: readonly Field[];
  readonly body: string;
  /** Why there was no response: a Node.js error code, or `closed`. Empty otherwise. */
  readonly fault: string;
  /** Address of the server; empty without a connection. */
  readonly remote: string;
  readonly sentAt: EpochMs;
  readonly receivedAt: EpochMs;
  readonly isKept: boolean;
}

const MAX_BODY = 256 * 1024;
const MAX_HEAD = 64 * 1024;

/** @param name in lower case */
export function valuesOf({ fields }: Pick<ProbeResponse, 'fields'>, name: string): string[] {
  return fields.filter(([field]) => field.toLowerCase() === name).map(([, value]) => value);
}

const PROBE_MS = 5_000;

export interface Destination {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
  readonly authority: string;
  readonly timeout?: number;
}

/** Milliseconds: a firewall that drops packets must not use up the run. */
const GUESS_MS = 1_500;

export function guessedPort(to: Destination, port: number): Destination {
  return { ...to, port, isTls: false, timeout: GUESS_MS };
}

export function destinationOf(url: URL): Destination {
  const host = hostOf(url);
  return { host, port: portOf(url), isTls: url.protocol === 'https:', authority: url.host };
}

/** Allows old versions, so that a server that supports nothing newer can be reported. */
const OLD_TLS: ConnectionOptions = { minVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0' };

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

/** The certificate is reported separately and not verified here. */
function open(to: Destination): Socket {
  if (!to.isTls) return connect({ host: to.host, port: to.port });
  const secureContext = (shared ??= createSecureContext(OLD_TLS));
  return connectTls(tlsOptions(to, { secureContext, ALPNProtocols: ['http/1.1'] }));
}

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

export function isLoopback(address: string): boolean {
  return bytesOfAddress(address)[0] === 127 || address === '::1';
}

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

/** Sends bytes on a new connection. Never rejects. */
export async function exchange(to: Destination, bytes: Buffer, signal?: AbortSignal): Promise<ProbeResponse> {
  const sentAt = Date.now();
  const socket = open(to);
  const chunks: Buffer[] = [];
  let size = 0;
  let remote = '';
  let response: IncomingMessage | undefined;
  const fault = await new Promise<string>((end) => {
    const fail = ({ code, message }: NodeJS.ErrnoException) => end(code ?? message);
    const timer = setTimeout(() => end('ETIMEDOUT'), to.timeout ?? PROBE_MS);
    const onAbort = () => end('ABORTED');
    signal?.addEventListener('abort', onAbort);
    socket.once('connect', () => (remote = socket.remoteAddress ?? ''));
    socket.on('error', fail).on('close', () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    });
    const parser = parserOf(socket).on('error', () => end('closed'));
    for (const event of ['response', 'upgrade'])
      parser.on(event, (begun: IncomingMessage) => {
        response = begun;
        if (event === 'upgrade') end('');
        begun.on('data', (chunk: Buffer) => {
          chunks.push(chunk);
          if ((size += chunk.length) >= MAX_BODY) end('');
        });
        for (const last of ['end', 'error']) begun.on(last, () => end(''));
      });
    socket.write(bytes);
  });
  const isEnded = socket.readableEnded || socket.destroyed;
  socket.destroy();
  return { ...shown(response, Buffer.concat(chunks), isEnded), fault: response ? '' : fault, remote, sentAt, receivedAt: Date.now() };
} // prettier-ignore

/** Lets Node parse what a socket receives, and drops what Node would send. */
function parserOf(socket: Socket): ClientRequest {
  const received = new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() });
  socket.on('data', (chunk: Buffer) => received.push(chunk)).on('close', () => received.push(null));
  const settings = { insecureHTTPParser: true, maxHeaderSize: MAX_HEAD };
  return request({ createConnection: () => received, ...settings }).end();
}

function shown(response: IncomingMessage | undefined, body: Buffer, isEnded: boolean) {
  const { statusCode: status = 0, rawHeaders = [], httpVersion, headers, complete } = response ?? {};
  const fields = rawHeaders.flatMap((name, i): Field[] => (i % 2 === 0 ? [[name, rawHeaders[i + 1] ?? '']] : []));
  const isKept = complete === true && !isEnded && httpVersion === '1.1' && !/close/i.test(headers?.connection ?? '');
  return { status, fields, body: body.subarray(0, MAX_BODY).toString('utf8'), isKept };
} // prettier-ignore

export async function speaksHttp2({ host, port, timeout = PROBE_MS }: Destination): Promise<boolean> {
  const session = connectHttp2(`http://${isIP(host) === 6 ? `[${host}]` : host}:${port}`);
  const begun = once(session, 'remoteSettings', { signal: AbortSignal.timeout(timeout) });
  return begun.then(() => true, () => false).finally(() => session.on('error', () => undefined).destroy());
} // prettier-ignore

const REFUSALS: ReadonlySet<number> = new Set([
  400, 401, 403, 407, 411, 413, 414, 417, 421, 422, 426, 429, 431, 501, 503, 505,
]);
/** By these, Latchkey reports that it let a request through to an upstream that did not respond. */
const GATEWAY_FAULTS: ReadonlySet<number> = new Set([502, 504]);
export const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const LOGIN =
  /(?:^|[/._?&=-])(?:log-?in|sign-?in|_latchkey|sso|oauth2?|oidc|saml2?|authorize|auth)(?=[/._?&=-]|$)/i;

export function verdictOf(answer: ProbeResponse): 'refused' | 'passed' | 'unclear' | 'none' {
  const { status } = answer;
  if (status === 0) return 'none';
  if (REDIRECTS.has(status) && valuesOf(answer, 'location').some((to) => LOGIN.test(to))) return 'refused';
  if (status === 101 || (status >= 200 && status < 300) || status === 304) return 'passed';
  if (REFUSALS.has(status)) return 'refused';
  if (!isOfLatchkey(answer)) return 'unclear';
  return GATEWAY_FAULTS.has(status) ? 'passed' : 'refused';
}

/** Whether a response has the form of Latchkey's own: JSON with `msg`, and a request id. */
export function isOfLatchkey(answer: ProbeResponse): boolean {
  return (
    valuesOf(answer, 'content-type').join() === 'application/json' &&
    valuesOf(answer, 'x-request-id').length > 0 &&
    answer.body.startsWith('{"msg":"')
  );
}
