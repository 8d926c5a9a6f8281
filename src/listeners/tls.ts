import type { ServerOpts, Socket } from 'node:net';
import { type SecureContextOptions, Server, type TLSSocket } from 'node:tls';
import type { Duplex } from 'node:stream';
import type { ListenerCertificate } from '../config/certificate.js';
import { guarded } from '../domain/guarded.js';
import type { Serve } from '../http/exchange.js';
import { failedHandshakes } from '../observe/metrics.js';
import type { Http1Connections } from './http1-connections.js';
import { Http2Connections, type ListenerLimits } from './http2-connections.js';
import { Http2Request } from './http2-request.js';
import { Http2Response } from './http2-response.js';

/** The oldest version that is spoken; ciphers are those of Node. */
const MIN_VERSION = 'TLSv1.2';
/** How often limits of HTTP/2 are looked after. */
export const MAX_SWEEP_MS = 2_000;

/**
 * The public server where TLS is on. Each connection says in its handshake which protocol it speaks (ALPN): HTTP/1.1 goes to
 * {@link Http1Connections}, as without TLS, and HTTP/2 to {@link Http2Connections}.
 */
export class TlsServer extends Server {
  readonly #http1: Http1Connections;
  readonly #http2: Http2Connections;
  readonly #handshakes = new Map<string, Socket>();
  readonly #sweep: NodeJS.Timeout;
  readonly #failed: (error: unknown, socket: Duplex) => void;
  #draining = false;

  /**
   * @param failed gets an error that a listener threw; it closes the connection
   */
  constructor(
    options: ServerOpts,
    certificate: ListenerCertificate,
    limits: ListenerLimits,
    http1: Http1Connections,
    serveHttp2: Serve,
    failed: (error: unknown, socket: Duplex) => void,
  ) {
    super({
      ...options,
      ...contextOf(certificate),
      ALPNProtocols: ['h2', 'http/1.1', 'http/1.0'],
      handshakeTimeout: limits.head_timeout,
      requestCert: certificate.clientCa !== null,
      rejectUnauthorized: certificate.clientCa !== null,
    });
    this.#http1 = http1;
    this.#failed = failed;
    this.#http2 = new Http2Connections(
      limits,
      (socket, stream, headers, rawHeaders) => {
        const request = new Http2Request(socket, stream, headers, rawHeaders);
        serveHttp2(request, new Http2Response(request));
      },
      failed,
    );
    this.#sweep = setInterval(
      () => this.#http2.sweep(),
      Math.min(MAX_SWEEP_MS, limits.head_timeout / 2),
    ).unref();
    this.#watchHandshakes();
    this.#chooseProtocol();
  }

  /** New connections get this certificate; those that are open go on. @throws Error when OpenSSL does not take it */
  useCertificate(certificate: ListenerCertificate): void {
    this.setSecureContext(contextOf(certificate));
  }

  /** Stops accepting, and tells what is open of the end. Connections of HTTP/1 that are idle stay until somebody closes them. */
  override close(callback?: (error?: Error) => void): this {
    this.#draining = true;
    this.#http1.endAfterAnswers();
    this.#http2.drain();
    return super.close((error) => {
      clearInterval(this.#sweep);
      this.#http1.stop();
      callback?.(error);
    });
  }

  get tunnels(): ReadonlySet<Duplex> {
    return this.#http1.tunnels;
  }

  closeIdleConnections(): void {
    this.#http1.closeIdle();
    this.#http2.closeIdle();
    if (this.#draining) this.#endHandshakes();
  }

  closeAllConnections(): void {
    this.#http1.destroyAll();
    this.#http2.destroyAll();
    this.#endHandshakes();
  }

  #endHandshakes(): void {
    for (const socket of this.#handshakes.values()) socket.destroy();
  }

  #watchHandshakes(): void {
    this.prependListener('connection', (socket: Socket) => {
      const peer = peerOf(socket);
      this.#handshakes.set(peer, socket);
      socket.once('close', () => this.#handshakes.delete(peer));
    });
    this.on('tlsClientError', (_error, socket) => {
      failedHandshakes.inc();
      socket.destroy();
    });
  }

  #chooseProtocol(): void {
    const accept = (socket: TLSSocket): void => {
      this.#handshakes.delete(peerOf(socket));
      if (socket.alpnProtocol === 'h2') this.#http2.accept(socket);
      else this.#http1.accept(socket);
    };
    this.on('secureConnection', guarded(accept, this.#failed));
  }
}

function contextOf({ cert, key, clientCa }: ListenerCertificate): SecureContextOptions {
  return { cert, key, minVersion: MIN_VERSION, ...(clientCa === null ? {} : { ca: clientCa }) };
}

/** Names a connection: the socket below TLS and the one above tell the same. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
