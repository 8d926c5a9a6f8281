import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Refusal } from '../domain/refusal.js';
import { type Reply, refusalReply } from '../http/replies.js';
import type { ListenerCertificate } from '../config/certificate.js';
import { guarded } from '../domain/guarded.js';
import { writeRawReply } from '../http/write-reply.js';
import { parseRefusal } from '../pipeline/faults.js';
import type { ListenerLimits, ServeHttp2 } from './http2-connections.js';
import { limitIdle } from './idle-connections.js';
import { newRequestId } from '../pipeline/request-id.js';
import { type PublicServer, TlsServer } from './tls.js';
import { answerUnderWay, closeAtError, endAfterAnswers, pipelined, whenAnswered } from './pipelining.js';
import { asksForWebSocket } from './websocket.js';

/** How often node looks for connections over their time. */
const MAX_CHECK_INTERVAL_MS = 2_000;
/** After this time without a byte the system asks whether the other side still lives. */
const TCP_KEEP_ALIVE_MS = 60_000;

/** A handshake that asks for another protocol on its connection, on which all answers before are sent. */
export type UpgradeListener = (req: IncomingMessage, socket: Duplex, head: Buffer) => void;

/** The answer to what can't be read. @param req whose body that is; undefined when it is no part of a request */
type RefusalAnswer = (refusal: Refusal, req?: IncomingMessage) => Reply;

/** Called with an unexpected error. */
export type FaultListener = (error: unknown) => void;

/**
 * Makes the public server. Everything the parser accepts goes to the same listener, whatever it expects;
 * everything it does not is answered here and its connection closed.
 *
 * @param onUpgrade null for a port that never changes protocols: it serves such requests like any other
 * @param certificate null for a port without TLS, which never speaks HTTP/2
 * @param fault called with an error that a listener threw; the connection is closed by then
 * @param answerOf the answer to what can't be read
 */
export function createPublicServer(
  limits: ListenerLimits,
  certificate: ListenerCertificate | null,
  serve: RequestListener,
  onUpgrade: UpgradeListener | null,
  fault: FaultListener,
  answerOf: RefusalAnswer = refusalReply,
): PublicServer {
  const serveSafely: RequestListener = (req, res) => {
    try {
      serve(req, res);
    } catch (error) {
      res.destroy();
      fault(error);
    }
  };
  const closed = (error: unknown, socket: Duplex): void => {
    socket.destroy();
    fault(error);
  };
  const onRequest = pipelined(serveSafely);
  const options = {
    // Node 24.9 and newer ask before they take a connection away from the parser; older ones ignore the option.
    shouldUpgradeCallback: onUpgrade === null ? () => false : asksForWebSocket,
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
      : // The classes of HTTP/2 behave like those of HTTP/1 in all that the request handler asks of them (http2-exchange).
        new TlsServer(options, certificate, limits, onRequest, serveSafely as unknown as ServeHttp2, closed);
  // Node drops fields beyond this silently; 0 lets all through to the reader, which counts them.
  server.maxHeadersCount = 0;
  limitIdle(server, certificate === null ? 'connection' : 'secureConnection', limits.keep_alive);
  server.on('checkContinue', onRequest);
  server.on('checkExpectation', onRequest);
  if (onUpgrade !== null)
    server.on('upgrade', (req, socket, rest) => {
      closeAtError(socket);
      // Its answer would fall into the middle of the one that is under way.
      const goOn = guarded(
        () => onUpgrade(req, socket, rest),
        (error) => closed(error, socket),
      );
      whenAnswered(socket, goOn);
    });
  server.on(
    'connect',
    guarded(
      (_req: IncomingMessage, socket: Duplex) => refuseConnect(socket),
      (error, _req, socket) => closed(error, socket),
    ),
  );
  server.on(
    'clientError',
    guarded(
      (error: Error, socket: Duplex) => refuseUnreadable(error, socket as Socket, answerOf),
      (error, _error, socket) => closed(error, socket),
    ),
  );
  return server;
}

function refuseConnect(socket: Duplex): void {
  closeAtError(socket);
  if (answerUnderWay(socket) !== undefined) {
    socket.destroy();
    return;
  }
  const refusal = { refusal: 'method_not_allowed', detail: 'the method CONNECT is not served' } as const;
  writeRawReply(socket, refusalReply(refusal), newRequestId());
}

/** What came is no request. It never cuts short, and is never written into, the answer to one that was. */
function refuseUnreadable(error: NodeJS.ErrnoException, socket: Socket, answerOf: RefusalAnswer): void {
  const answer = answerUnderWay(socket);
  const refuse = () => writeRawReply(socket, answerOf(parseRefusal(error), answer?.req), newRequestId());
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
