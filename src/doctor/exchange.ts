import { connect, isIP, type Socket } from 'node:net';
import {
  connect as connectTls,
  type ConnectionOptions,
  createSecureContext,
  type SecureContext,
} from 'node:tls';
import { type Answer, noAnswer, type Probe } from './message.js';
import { readAnswer } from './read-answer.js';

/** Longest wait for a connection and its answer, in milliseconds. */
export const PROBE_MS = 5_000;

/** Where requests go. */
export interface Destination {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
  /** As `Host` names it. */
  readonly authority: string;
  /** The name that TLS asks for; empty for none. Absent: that of the host. */
  readonly serverName?: string;
  /** Longest wait in milliseconds, where nobody said that anything is there. */
  readonly timeout?: number;
}

/** A firewall that says nothing must not cost the run its time. */
const GUESS_MS = 1_500;

/** Another port of the same host, without TLS, that may be open. */
export function guessedPort(to: Destination, port: number): Destination {
  return { ...to, port, isTls: false, timeout: GUESS_MS };
}

/** Reads where a URL leads. */
export function destinationOf({ hostname, port, protocol, host }: URL): Destination {
  const isTls = protocol === 'https:';
  const plain = hostname.replace(/^\[|\]$/g, '');
  return { host: plain, port: Number(port) || (isTls ? 443 : 80), isTls, authority: host };
}

/** A server that speaks nothing newer is a finding, too. */
const OLD_TLS: ConnectionOptions = { minVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0' };

/** Options of a TLS connection that is made whatever the certificate and the version are. */
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

/** Made once: it costs as much as a handshake. */
let shared: SecureContext | undefined;

/** Sessions that spare both sides most of the next handshake. */
const sessions = new WeakMap<Destination, Buffer>();

/** Opens a connection. The certificate is a finding of its own, so here it stops nothing. */
function open(to: Destination): Socket {
  if (!to.isTls) return connect({ host: to.host, port: to.port });
  const session = sessions.get(to);
  const secureContext = (shared ??= createSecureContext(OLD_TLS));
  const options = { secureContext, ALPNProtocols: ['http/1.1'], ...(session === undefined ? {} : { session }) };
  const socket = connectTls(tlsOptions(to, options));
  return socket.on('session', (made) => sessions.set(to, made));
} // prettier-ignore

/** The bytes of a request, on a connection of its own. @param agent names this program */
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

/** Sends bytes on a new connection, and resolves to the first answer. It never rejects. */
export async function exchange(to: Destination, bytes: Buffer, signal?: AbortSignal): Promise<Answer> {
  const sentAt = Date.now();
  return new Promise((done) => {
    const socket = open(to);
    const chunks: Buffer[] = [];
    const finish = (answer: Answer) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      socket.destroy();
      done(answer);
    };
    const take = (hasEnded: boolean) => {
      const remote = socket.remoteAddress ?? '';
      const message = readAnswer(Buffer.concat(chunks), hasEnded);
      if (message !== undefined) finish({ ...message, fault: '', remote, sentAt, receivedAt: Date.now() });
      else if (hasEnded) finish(noAnswer('closed', sentAt, remote));
    };
    const fail = (code: string) => {
      const message = readAnswer(Buffer.concat(chunks), true);
      const remote = socket.remoteAddress ?? '';
      if (message === undefined) finish(noAnswer(code, sentAt, remote));
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
