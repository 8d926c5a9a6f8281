// src/listeners: the entrances: HTTP/1.1, HTTP/2, WebSocket handshakes, TLS.
// May import pipeline and all below.
// `http.ts` and `websocket.ts` are entrances of `handle`; the rest makes requests of bytes.

import { type AddressInfo, createServer, type Server, type ServerOpts, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import {
  createServer as createTls,
  type SecureContextOptions,
  Server as SecureServer,
  type TLSSocket,
} from 'node:tls';
import type { ListenerCertificate } from '../config/certificate.js';
import type { Serve } from '../http/exchange.js';
import { parserLimits } from '../http/read-head.js';
import { refusalReply } from '../http/replies.js';
import { guarded } from '../util/async.js';
import { DEFAULT_LIMITS } from '../http1/events.js';
import type { Http1Settings, ListenerLimits, RefusalAnswer } from './http1-input.js';
import { Http1Connections } from './http1-connection.js';
import { Http2Connections, serveStream } from './http2-connections.js';
import { createLogThrottle } from '../util/time.js';
import { readFileSync } from 'node:fs';
import type { Log } from '../observe/log.js';
import { metrics } from '../observe/metrics.js';

/** Milliseconds without data after which the system probes whether the peer is alive. */
const TCP_KEEP_ALIVE_MS = 60_000;

export const TCP_OPTIONS: ServerOpts = {
  noDelay: true,
  keepAlive: true,
  keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
};

const MIN_VERSION = 'TLSv1.2';

export interface PublicServer extends Server {
  readonly tunnels: ReadonlySet<Duplex>;
  /** Uses another certificate for new connections. @throws Error when OpenSSL rejects it */
  readonly useCertificate?: (certificate: ListenerCertificate) => void;
  closeIdleConnections(): void;
  closeAllConnections(): void;
}

/** The handlers of a port. */
export interface PortHandlers extends Pick<Http1Settings, 'serve' | 'upgrade' | 'unreadable' | 'fault'> {
  readonly answerOf?: RefusalAnswer;
  /** Whether a peer sends the requests of many clients, which share the limits of its connection. */
  readonly isProxy?: (peer: Socket) => boolean;
}

/**
 * @param certificate null for a port without TLS
 * @param h2c whether a port without TLS accepts HTTP/2 too; one with TLS always does (ALPN)
 */
export function createPublicServer(
  limits: ListenerLimits,
  certificate: ListenerCertificate | null,
  handlers: PortHandlers,
  h2c = false,
): PublicServer {
  const { serve, fault, answerOf = refusalReply, isProxy = () => false } = handlers;
  const closed = (error: unknown, socket: Duplex): void => {
    socket.destroy();
    fault(error);
  };
  const serveHttp2: Serve = guarded(serve, (error, _request, response) => {
    response.destroy();
    fault(error);
  });
  const http2 = new Http2Connections(
    limits,
    (...stream) => serveStream(serveHttp2, limits.head_timeout, ...stream),
    closed,
    isProxy,
  );
  const settings = {
    ...handlers,
    answerOf,
    limits: { ...DEFAULT_LIMITS, ...parserLimits(limits) },
    keepAliveHint: `timeout=${Math.floor(limits.keep_alive / 1_000)}`,
    http2: certificate === null && h2c ? (socket: Socket) => acceptHttp2(http2, socket) : null,
  };
  const http1 = new Http1Connections(settings, limits);
  if (certificate !== null) return createTlsServer(certificate, limits.head_timeout, http1, http2, closed);
  // A client that ended its side in the middle of a request still receives a refusal.
  const server = createServer({ ...TCP_OPTIONS, allowHalfOpen: true });
  server.on('connection', (socket: Socket) => http1.accept(socket));
  return withConnections(server, http2, http1);
}

/** Starts HTTP/2 on a connection that HTTP/1.1 began to read. */
function acceptHttp2(connections: Http2Connections, socket: Socket): void {
  // Unlike HTTP/1.1, HTTP/2 has no use for a connection whose client ended its side.
  socket.allowHalfOpen = false;
  connections.accept(socket);
}

/** Creates a server with TLS: HTTP/1.1 or HTTP/2, as selected in the handshake (ALPN). */
function createTlsServer(
  certificate: ListenerCertificate,
  handshakeTimeout: number,
  http1: Http1Connections,
  http2: Http2Connections,
  failed: (error: unknown, socket: Duplex) => void,
): PublicServer {
  const handshakes = new Map<string, Socket>();
  const server = createTls({
    ...TCP_OPTIONS,
    ...contextOf(certificate),
    ALPNProtocols: ['h2', 'http/1.1', 'http/1.0'],
    handshakeTimeout,
    requestCert: certificate.clientCa !== null,
    rejectUnauthorized: certificate.clientCa !== null,
  });
  server.prependListener('connection', (socket: Socket) => {
    const peer = peerOf(socket);
    handshakes.set(peer, socket);
    socket.once('close', () => handshakes.delete(peer));
  });
  server.on('tlsClientError', (_error, socket) => {
    metrics.failedHandshakes.inc();
    socket.destroy();
  });
  const accept = (socket: TLSSocket): void => {
    handshakes.delete(peerOf(socket));
    if (socket.alpnProtocol === 'h2') http2.accept(socket);
    else http1.accept(socket);
  };
  server.on('secureConnection', guarded(accept, failed));
  const useCertificate = (next: ListenerCertificate): void => server.setSecureContext(contextOf(next));
  return Object.assign(withConnections(server, http2, http1, handshakes), { useCertificate });
}

function contextOf({ cert, key, clientCa }: ListenerCertificate): SecureContextOptions {
  return { cert, key, minVersion: MIN_VERSION, ...(clientCa === null ? {} : { ca: clientCa }) };
}

/** Identifies a connection: the TLS socket and the one below it have the same peer. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/**
 * Makes a server close its connections: the busy ones after their requests, the idle ones when told.
 * @param handshakes connections without a protocol yet
 */
export function withConnections(
  server: Server,
  http2: Http2Connections,
  http1?: Http1Connections,
  handshakes: ReadonlyMap<string, Socket> = new Map(),
): PublicServer {
  const close = server.close.bind(server);
  const endHandshakes = (): void => {
    for (const socket of handshakes.values()) socket.destroy();
  };
  server.on('close', () => http1?.stop());
  return Object.assign(server, {
    tunnels: http1?.tunnels ?? new Set<Duplex>(),
    close: (callback?: (error?: Error) => void): Server => {
      http1?.endAfterAnswers();
      http2.drain();
      return close(callback);
    },
    closeIdleConnections: (): void => {
      http1?.closeIdle();
      http2.closeIdle();
      if (!server.listening) endHandshakes();
    },
    closeAllConnections: (): void => {
      http1?.destroyAll();
      http2.destroyAll();
      endHandshakes();
    },
  });
}

export type ListenSection = 'listen' | 'admin' | 'decision' | 'decision.grpc';

/** Codes of system errors about the host of an address. */
const NO_ADDRESS: ReadonlySet<string> = new Set(['ENOTFOUND', 'EAI_AGAIN', 'EADDRNOTAVAIL']);

type ListenError = NodeJS.ErrnoException & { readonly port?: number };

/** Says why a port cannot be opened, and names the setting, but not the host that it has. */
function describe({ code, port, message }: ListenError, section: ListenSection): string {
  if (code === 'EADDRINUSE') {
    const setting = section === 'listen' ? '--port (demo) or listen.port' : `${section}.port`;
    return `port ${port} is already in use; choose another one with ${setting} (configuration); 0 picks a free one`;
  }
  if (code === 'EACCES') return `this user may not open port ${port}; choose a port above 1023`;
  if (code !== undefined && NO_ADDRESS.has(code))
    return `cannot listen on an address that does not belong to this machine (${code}); check ${section}.host`;
  return message;
}

/** Returns the base URL with the actual port, which differs when `port` is 0. @throws Error */
export async function listen(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
  section: ListenSection = 'listen',
): Promise<string> {
  await new Promise<void>((resolve, fail) => {
    const reject = (error: ListenError) =>
      fail(Object.assign(new Error(describe(error, section)), { code: error.code }));
    server.once('error', reject);
    server.listen({ host, port, backlog: 4096 }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return baseUrl(server.address() as AddressInfo, server instanceof SecureServer);
}

/** Returns the URL of an address; one on all interfaces is shown as loopback. */
function baseUrl({ address, port }: { address: string; port: number }, secure: boolean): string {
  const host = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
  return `${secure ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** File descriptors reserved for the store, the log, the admin port and the process itself. */
const RESERVED_FILES = 64;
const INTERVAL_MS = 1_000;
const WORTH_TELLING = 0.9;

/**
 * At the limit, it closes connections that wait for their next request, and then new ones at once.
 * @param limit connections per process
 */
export function limitConnections(servers: readonly PublicServer[], limit: number, log: Log): void {
  const allowed = Math.max(1, Math.min(limit, allowedByFiles()));
  // A slightly lower limit is not worth a log line at every start.
  if (allowed < WORTH_TELLING * limit) {
    log.warn(
      { limit: allowed, configured: limit },
      'limits.connections reduced; open file limit too low (ulimit -n)',
    );
  }
  const open = new Set<Socket>();
  let madeRoomAt = -Infinity;
  const throttle = createLogThrottle();

  const makeRoom = (): void => {
    const now = performance.now();
    if (now - madeRoomAt >= INTERVAL_MS) {
      madeRoomAt = now;
      for (const server of servers) server.closeIdleConnections();
      for (const socket of open) if (socket.destroyed) open.delete(socket);
    }
    if (open.size >= allowed && throttle() !== undefined) {
      log.warn({ limit: allowed }, 'limits.connections reached; new connections closed');
    }
  };

  const onConnection = (socket: Socket): void => {
    if (open.size >= allowed) makeRoom();
    if (open.size >= allowed) {
      metrics.refusedConnections.inc();
      socket.destroy();
      return;
    }
    open.add(socket);
    metrics.openConnections.set(open.size);
    socket.once('close', () => {
      open.delete(socket);
      metrics.openConnections.set(open.size);
    });
  };
  // Runs before the server's own listener, which would start to read.
  for (const server of servers) server.prependListener('connection', onConnection);
}

/** Each client may need a second file, for its upstream. Node raises its soft limit by itself. */
function allowedByFiles(): number {
  try {
    const [, files] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return files === undefined ? Infinity : Math.floor((Number(files) - RESERVED_FILES) / 2);
  } catch {
    // Only Linux has this file.
    return Infinity;
  }
}
