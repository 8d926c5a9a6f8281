import type { ServerOpts, Socket } from 'node:net';
import { type SecureContextOptions, Server, type TLSSocket } from 'node:tls';
import type { Duplex } from 'node:stream';
import type { ListenerCertificate } from '../config/certificate.js';
import { guarded } from '../util/async.js';
import { metrics } from '../observe/metrics.js';
import type { Http1Connections } from './http1-connections.js';
import type { Http2Connections } from './http2-connections.js';
import type { ListenerLimits } from './http1-input.js';

const MIN_VERSION = 'TLSv1.2';

/** The public server with TLS: HTTP/1.1 or HTTP/2, as selected in the handshake (ALPN). */
export class TlsServer extends Server {
  readonly #http1: Http1Connections;
  readonly #http2: Http2Connections;
  readonly #handshakes = new Map<string, Socket>();
  readonly #failed: (error: unknown, socket: Duplex) => void;
  #draining = false;

  constructor(
    options: ServerOpts,
    certificate: ListenerCertificate,
    limits: ListenerLimits,
    http1: Http1Connections,
    http2: Http2Connections,
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
    this.#http2 = http2;
    this.#watchHandshakes();
    this.#chooseProtocol();
  }

  /** Uses another certificate for new connections. @throws Error when OpenSSL rejects it */
  useCertificate(certificate: ListenerCertificate): void {
    this.setSecureContext(contextOf(certificate));
  }

  /** Idle HTTP/1.1 connections stay open until the caller closes them. */
  override close(callback?: (error?: Error) => void): this {
    this.#draining = true;
    this.#http1.endAfterAnswers();
    this.#http2.drain();
    return super.close((error) => {
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
      metrics.failedHandshakes.inc();
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

/** Identifies a connection: the TLS socket and the one below it have the same peer. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
