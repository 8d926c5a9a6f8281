import type { ClientRequest, IncomingMessage } from 'node:http';
import { Agent as HttpAgent } from 'node:http';
import type { Socket } from 'node:net';
import type Server from 'http-proxy';
import { responseLimits } from './connect.js';
import { codeOf, InvalidUpstreamResponse } from './faults.js';

/** The arguments of an `upgrade` event: the response, its connection, and the bytes after its head. */
export type Upgraded = [answer: IncomingMessage, opened: Socket, rest: Buffer];

export interface TunnelOptions {
  readonly socket: Socket;
  readonly opened: Socket;
  /** Milliseconds for a side to receive what is left after the other has ended. */
  readonly idleTimeout: number;
  readonly path: string;
  readonly fields: readonly string[];
  readonly failed: (error: Error) => void;
}

export interface TunnelRequest {
  readonly request: ClientRequest;
  /**
   * Responds to the client with 101, and forwards the bytes of both sides.
   * @param early what the client has sent already
   */
  readonly open: (upgraded: Upgraded, fields: readonly string[], early: Buffer) => void;
}

/** Milliseconds of silence before TCP keep-alive probes, which find WebSockets with a dead peer. */
const TCP_KEEP_ALIVE_MS = 60_000;

/**
 * Milliseconds without data after which the other side closes too: close frames come first (RFC 6455 7.1.1).
 */
const LINGER_MS = 5_000;
/** Milliseconds between two checks whether data was delivered; a permit is held in the meantime. */
const CHECK_MS = 1_000;

const NO_BYTES = Buffer.alloc(0);
/** Bytes of the body of a response that does not open the WebSocket. */
const MAX_BODY = 65_536;
/** Node.js limits the size of the head itself. */
const LIMITS = responseLimits();

/** A placeholder: the connection is already open, and TLS is part of it. */
const TARGET = 'http://upstream';

/**
 * The only request that http-proxy sees: it would use names as keys of plain objects, and change the path.
 */
const BARE_HANDSHAKE: Partial<IncomingMessage> = {
  method: 'GET',
  url: '/',
  headers: { connection: 'Upgrade', upgrade: 'websocket' },
};

let httpProxy: typeof Server | undefined;

/** Loads http-proxy, which most servers never use, with the first handshake. */
export async function loadProxy(): Promise<void> {
  httpProxy ??= (await import('http-proxy')).default;
}

/**
 * Sends a handshake, after {@link loadProxy}. http-proxy forwards any response unchanged, so it receives only
 * those that the caller has checked.
 */
export function requestTunnel(options: TunnelOptions): TunnelRequest {
  const request = sendHandshake(options);
  const [onUpgrade] = request.listeners('upgrade') as ((...args: Upgraded) => void)[];
  if (onUpgrade === undefined) throw new Error('http-proxy handles responses in an unexpected way');
  request.removeAllListeners('upgrade').removeAllListeners('response');
  return {
    request,
    open: (upgraded, fields, early) => {
      const [answer, opened] = upgraded;
      const { socket, idleTimeout } = options;
      Object.defineProperty(answer, 'headers', { value: headersOf(fields) });
      // Header fields are bytes, and what follows them is not text.
      socket.setDefaultEncoding('latin1');
      linkSockets(socket, opened, idleTimeout);
      opened.setKeepAlive(true, TCP_KEEP_ALIVE_MS);
      socket.pause();
      if (early.length > 0) socket.unshift(early);
      onUpgrade.apply(request, upgraded);
    },
  };
}

function sendHandshake({ socket, opened, path, fields, failed }: TunnelOptions): ClientRequest {
  let made: ClientRequest | undefined;
  const proxy = (httpProxy as typeof Server).createProxyServer({});
  proxy.once('proxyReqWs', (request) => {
    made = request;
    // Comes first: after the request is aborted, its errors have no other listener.
    request.on('error', () => undefined);
    // Node.js drops fields beyond its limit; one too many shows that there were more.
    request.maxHeadersCount = LIMITS.head_fields + 1;
    let interim = 0;
    request.on('information', () => {
      interim += 1;
      if (interim > LIMITS.informational)
        failed(new InvalidUpstreamResponse('malformed response: too_many_informational'));
    });
    request.path = path;
    request.removeHeader('host');
    for (let i = 0; i < fields.length; i += 2)
      request.appendHeader(fields[i] as string, fields[i + 1] as string);
  });
  // It has one open connection for one tunnel, and keeps none for other requests.
  const agent = Object.assign(new HttpAgent({ keepAlive: false }), { createConnection: () => opened });
  const options = { target: TARGET, agent, xfwd: false };
  proxy.ws(BARE_HANDSHAKE as IncomingMessage, socket, NO_BYTES, options, (error) => failed(faultOf(error)));
  if (made === undefined) throw new Error('http-proxy makes requests in an unexpected way');
  return made;
}

export interface RefusedHandshake {
  readonly status: number;
  readonly reason: string;
  readonly fields: readonly string[];
  readonly body: Buffer;
  readonly isWhole: boolean;
}

/**
 * Reads a response that does not switch protocols; calls back at its end, or the limit of its body.
 * @returns a function that ends the wait for the rest
 */
export function readRefused(answer: IncomingMessage, done: (refused: RefusedHandshake) => void): () => void {
  const body: Buffer[] = [];
  let left = MAX_BODY;
  let isOver = false;
  const end = (isWhole: boolean): void => {
    if (isOver) return;
    isOver = true;
    answer.destroy();
    const { statusCode: status = 0, statusMessage: reason = '', rawHeaders: fields } = answer;
    done({ status, reason, fields, body: Buffer.concat(body), isWhole });
  };
  answer.on('data', (chunk: Buffer) => {
    body.push(chunk.subarray(0, left));
    left -= chunk.length;
    if (left < 0) end(false);
  });
  answer.once('end', () => end(answer.complete));
  answer.once('error', () => end(false)).once('close', () => end(false));
  return () => end(false);
}

function faultOf(error: Error): Error {
  if (!codeOf(error).startsWith('HPE_')) return error;
  return new InvalidUpstreamResponse(`malformed response: ${error.message}`);
}

function headersOf(fields: readonly string[]): Record<string, string | string[]> {
  const headers = Object.create(null) as Record<string, string | string[]>;
  headers['Connection'] = 'Upgrade';
  headers['Upgrade'] = 'websocket';
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    const value = fields[i + 1] as string;
    const known = headers[name];
    if (known === undefined) headers[name] = value;
    else if (typeof known === 'string') headers[name] = [known, value];
    else known.push(value);
  }
  return headers;
}

/**
 * Connects the ends of both sides: a side that ends or breaks passes its end on and receives what the other
 * still sends; one that is destroyed before, as by a revocation, takes the other with it.
 */
function linkSockets(client: Socket, upstream: Socket, idleTimeout: number): void {
  let closing: NodeJS.Timeout | undefined;
  for (const [side, other] of [
    [client, upstream],
    [upstream, client],
  ] as const) {
    side.allowHalfOpen = true;
    side.once('end', () => (closing ??= closeWhenIdle(client, upstream, idleTimeout)));
    side.once('close', () => {
      // The other side still receives what this one sent; what it sends itself has no reader.
      if ((side.readableEnded && side.writableFinished) || side.errored !== null) other.end().resume();
      else other.destroy();
      if (other.destroyed) clearInterval(closing);
      else closing ??= closeWhenIdle(client, upstream, idleTimeout);
    });
    side.on('error', ignore);
  }
}

/** Closes both sides after no byte has been delivered to either of them for some time. */
function closeWhenIdle(client: Socket, upstream: Socket, idleTimeout: number): NodeJS.Timeout {
  let delivered = deliveredTo(client) + deliveredTo(upstream);
  let idle = 0;
  return setInterval(() => {
    const now = deliveredTo(client) + deliveredTo(upstream);
    idle = now === delivered ? idle + CHECK_MS : 0;
    delivered = now;
    const isBlocked = client.writableLength + upstream.writableLength > 0;
    if (idle < (isBlocked ? Math.max(idleTimeout, LINGER_MS) : LINGER_MS)) return;
    client.destroy();
    upstream.destroy();
  }, CHECK_MS);
}

function deliveredTo(socket: Socket): number {
  return socket.bytesWritten - socket.writableLength;
}

function ignore(): void {}
