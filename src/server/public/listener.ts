import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Refusal } from '../../domain/refusal.js';
import { type Answer, answerRefusal } from '../../http/answers.js';
import type { ListenerCertificate } from '../../config/certificate.js';
import { writeRawAnswer } from '../../http/write-answer.js';
import { parseRefusal } from './faults.js';
import type { ServeHttp2 } from './http2-connections.js';
import { newRequestId } from './request-id.js';
import { TlsServer } from './tls-server.js';
import { answerUnderWay, endAfterAnswers, inTurn } from './turns.js';
import { asksForWebSocket } from './upgrade.js';

/** How often node looks for connections over their time. */
const MAX_CHECK_INTERVAL_MS = 2_000;
/** After this time without a byte the system asks whether the other side still lives. */
const TCP_KEEP_ALIVE_MS = 60_000;

/** Limits of connections and heads; times in milliseconds, sizes in bytes. */
export interface ListenerLimits {
  readonly head_size: number;
  readonly head_timeout: number;
  readonly keep_alive: number;
}

/** A handshake that asks for another protocol on its connection. */
export type UpgradeListener = (req: IncomingMessage, socket: Duplex, head: Buffer) => void;

/** The server of the public port, with TLS or without. */
export type PublicServer = Server | TlsServer;

/**
 * Makes the public server. Everything the parser accepts goes to the same listener, whatever it expects;
 * everything it does not is answered here and its connection closed.
 *
 * @param answerOf the answer to what can't be read
 * @param certificate null for a port without TLS, which never speaks HTTP/2
 */
export function createPublicServer(
  limits: ListenerLimits,
  certificate: ListenerCertificate | null,
  serve: RequestListener,
  onUpgrade: UpgradeListener,
  answerOf: (refusal: Refusal) => Answer = answerRefusal,
): PublicServer {
  const onRequest = inTurn(serve);
  const options = {
    // Node 24.9 and newer ask before they take a connection away from the parser; older ones ignore the option.
    shouldUpgradeCallback: asksForWebSocket,
    maxHeaderSize: limits.head_size,
    headersTimeout: limits.head_timeout,
    // Bodies may take as long as they need; the forwarder limits the time between their bytes.
    requestTimeout: 0,
    keepAliveTimeout: limits.keep_alive,
    connectionsCheckingInterval: Math.min(MAX_CHECK_INTERVAL_MS, limits.head_timeout / 2),
    // Checked by the head reader, so that the answer has the form of every other.
    requireHostHeader: false,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
  };
  const server: PublicServer =
    certificate === null
      ? createServer(options, onRequest)
      : // The classes of HTTP/2 behave like those of HTTP/1 in all that the line asks of them (http2-exchange).
        new TlsServer(options, certificate, limits, onRequest, serve as unknown as ServeHttp2);
  // Node drops fields beyond this silently; 0 lets all through to the reader, which counts them.
  server.maxHeadersCount = 0;
  server.on('checkContinue', onRequest);
  server.on('checkExpectation', onRequest);
  server.on('upgrade', onUpgrade);
  server.on('connect', (_req, socket) => {
    // The parser is gone from it, and with it whoever took care of its errors.
    socket.on('error', () => socket.destroy());
    if (answerUnderWay(socket) !== undefined) {
      socket.destroy();
      return;
    }
    const refusal = { refusal: 'method_not_allowed', detail: 'the method CONNECT is not served' } as const;
    writeRawAnswer(socket, answerRefusal(refusal), newRequestId());
  });
  server.on('clientError', (error, socket) => refuseUnreadable(error, socket as Socket, answerOf));
  return server;
}

/** What came is no request. It never cuts short, and is never written into, the answer to one that was. */
function refuseUnreadable(
  error: NodeJS.ErrnoException,
  socket: Socket,
  answerOf: (refusal: Refusal) => Answer,
): void {
  const answer = answerUnderWay(socket);
  const refuse = () => writeRawAnswer(socket, answerOf(parseRefusal(error)), newRequestId());
  if (error.code === 'ECONNRESET') socket.destroy();
  else if (answer === undefined) refuse();
  else if (answer.req.complete) endAfterAnswers(socket);
  else if (answer.headersSent) socket.destroy();
  else refuse();
}

/** Listens and returns the base URL, with the port that was chosen when 0 was asked for. */
export async function listen(server: PublicServer, host: string, port: number): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port, backlog: 4096 }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return baseUrl(server.address() as AddressInfo, server instanceof TlsServer);
}

/** The URL of an address; one that listens on every interface is shown as loopback. */
export function baseUrl({ address, port }: { address: string; port: number }, secure: boolean): string {
  const host = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
  return `${secure ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
