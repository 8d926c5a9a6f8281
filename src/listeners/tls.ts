import { Server as HttpsServer, type ServerOptions } from 'node:https';
import type { RequestListener, Server } from 'node:http';
import { Server as TcpServer, type Socket } from 'node:net';
import type { SecureContextOptions, TLSSocket } from 'node:tls';
import type { Duplex } from 'node:stream';
import type { ListenerCertificate } from '../config/certificate.js';
import { guarded } from '../domain/guarded.js';
import { failedHandshakes } from '../observe/metrics.js';
import { Http2Connections, type ListenerLimits, type ServeHttp2 } from './http2-connections.js';

/** The server of the public port, with TLS or without. */
export type PublicServer = Server | TlsServer;

/** The oldest version that is spoken; ciphers are those of Node. */
const MIN_VERSION = 'TLSv1.2';

/**
 * The public server where TLS is on. Each connection says in its handshake which protocol it speaks (ALPN): HTTP/1.1 goes to
 * node's own server, as without TLS, and HTTP/2 to {@link Http2Connections}.
 */
export class TlsServer extends HttpsServer {
  readonly #http2: Http2Connections;
  readonly #handshakes = new Map<string, Socket>();
  readonly #sweep: NodeJS.Timeout;
  readonly #failed: (error: unknown, socket: Duplex) => void;
  #draining = false;

  /**
   * @param options those of node's server of HTTP/1
   * @param failed gets an error that a listener threw; it closes the connection
   */
  constructor(
    options: ServerOptions,
    certificate: ListenerCertificate,
    limits: ListenerLimits,
    onRequest: RequestListener,
    serveHttp2: ServeHttp2,
    failed: (error: unknown, socket: Duplex) => void,
  ) {
    super(
      {
        ...options,
        ...contextOf(certificate),
        ALPNProtocols: ['h2', 'http/1.1', 'http/1.0'],
        handshakeTimeout: limits.head_timeout,
        requestCert: certificate.clientCa !== null,
        rejectUnauthorized: certificate.clientCa !== null,
      },
      onRequest,
    );
    this.#failed = failed;
    this.#http2 = new Http2Connections(limits, serveHttp2, failed);
    this.#sweep = setInterval(() => this.#http2.sweep(), options.connectionsCheckingInterval).unref();
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
    this.#http2.drain();
    TcpServer.prototype.close.call(this, (error) => {
      clearInterval(this.#sweep);
      callback?.(error);
    });
    return this;
  }

  override closeIdleConnections(): void {
    super.closeIdleConnections();
    this.#http2.closeIdle();
    if (this.#draining) this.#endHandshakes();
  }

  override closeAllConnections(): void {
    super.closeAllConnections();
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
    // Node's own listener takes what failed for an unreadable request, and nobody could read an answer.
    this.removeAllListeners('tlsClientError');
    this.on('tlsClientError', (_error, socket) => {
      failedHandshakes.inc();
      socket.destroy();
    });
  }

  #chooseProtocol(): void {
    const [serveHttp1] = this.listeners('secureConnection') as ((socket: TLSSocket) => void)[];
    if (serveHttp1 === undefined) throw new Error('node serves HTTP/1 in another way');
    this.removeAllListeners('secureConnection');
    const accept = (socket: TLSSocket): void => {
      this.#handshakes.delete(peerOf(socket));
      if (socket.alpnProtocol === 'h2') this.#http2.accept(socket);
      else serveHttp1.call(this, socket);
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
