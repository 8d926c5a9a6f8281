import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { answerRefusal } from '../http/answers.js';
import { writeRawAnswer } from '../http/write-answer.js';
import { parseRefusal } from './faults.js';
import { newRequestId } from './request-id.js';
import { asksForWebSocket } from './upgrade.js';

/** The target and all header fields together, in bytes. */
const MAX_HEADER_SIZE = 16 * 1024;
/** A head must be complete within this time, or the answer is 408. */
const HEADERS_TIMEOUT_MS = 20_000;
/** An idle connection is kept this long: longer than the minute that common load balancers keep theirs. */
const KEEP_ALIVE_MS = 65_000;
/** How often node looks for connections over their time. */
const CHECK_INTERVAL_MS = 2_000;

/** A handshake that asks for another protocol on its connection. */
export type UpgradeListener = (req: IncomingMessage, socket: Duplex, head: Buffer) => void;

/**
 * Makes the public server. Everything the parser accepts goes to the same listener, whatever it expects;
 * everything it does not is answered here and its connection closed.
 */
export function createPublicServer(onRequest: RequestListener, onUpgrade: UpgradeListener): Server {
  // Node 24.9 and newer ask before they take a connection away from the parser; older ones ignore the option.
  const options = { shouldUpgradeCallback: asksForWebSocket };
  const server = createServer(
    {
      ...options,
      maxHeaderSize: MAX_HEADER_SIZE,
      headersTimeout: HEADERS_TIMEOUT_MS,
      // Bodies may take as long as they need; the forwarder limits the time between their bytes.
      requestTimeout: 0,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: CHECK_INTERVAL_MS,
      // Checked by the head reader, so that the answer has the form of every other.
      requireHostHeader: false,
      noDelay: true,
    },
    onRequest,
  );
  // Node drops fields beyond this silently; 0 lets all through to the reader, which counts them.
  server.maxHeadersCount = 0;
  server.on('checkContinue', onRequest);
  server.on('checkExpectation', onRequest);
  server.on('upgrade', onUpgrade);
  server.on('connect', (_req, socket) => {
    const refusal = { refusal: 'method_not_allowed', detail: 'the method CONNECT is not served' } as const;
    writeRawAnswer(socket, answerRefusal(refusal), newRequestId());
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (error.code === 'ECONNRESET') socket.destroy();
    else writeRawAnswer(socket, answerRefusal(parseRefusal(error)), newRequestId());
  });
  return server;
}

/** Listens and returns the base URL, with the port that was chosen when 0 was asked for. */
export async function listen(server: Server, host: string, port: number): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port, backlog: 4096 }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return baseUrl(server.address() as AddressInfo);
}

/** The URL of an address; one that listens on every interface is shown as loopback. */
export function baseUrl({ address, port }: { address: string; port: number }): string {
  const host = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
