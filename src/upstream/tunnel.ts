import type { ClientRequest, IncomingMessage } from 'node:http';
import { Agent as HttpAgent } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import httpProxy from 'http-proxy';

/** What an `upgrade` event brings: the answer, its connection, and the bytes behind its head. */
export type Upgraded = [answer: IncomingMessage, opened: Socket, rest: Buffer];

/** What a request for a tunnel is made of. */
export interface TunnelAsked {
  readonly socket: Duplex;
  /** Bytes that the client sent behind the handshake. */
  readonly headBytes: Buffer;
  /** A connection to the upstream. */
  readonly opened: Socket;
  /** The whole target. */
  readonly path: string;
  /** Flat. */
  readonly fields: readonly string[];
  readonly failed: (error: Error) => void;
}

/** A request for a tunnel that is sent. Whoever made it listens to its `upgrade` and `response`. */
export interface TunnelRequest {
  readonly request: ClientRequest;
  /** Answers the client with 101 and these fields, and passes the bytes of both sides on. */
  readonly open: (upgraded: Upgraded, fields: readonly string[]) => void;
}

/** Nobody limits how long a WebSocket may be silent; the system finds the ones whose other side is gone. */
const TCP_KEEP_ALIVE_MS = 60_000;

/** A WebSocket ends by frames in both directions before its connection does (RFC 6455 7.1.1). */
const LINGER_MS = 5_000;

/** Where an open connection leads does not matter any more; TLS, if any, is inside it. */
const TARGET = 'http://upstream';

/** All that http-proxy reads of a request: it keeps names as keys of plain objects, and changes slashes. */
const BARE_HANDSHAKE: Partial<IncomingMessage> = {
  method: 'GET',
  url: '/',
  headers: { connection: 'Upgrade', upgrade: 'websocket' },
};

/** One connection for one tunnel: it is open, and nothing is kept for another request. */
class OpenConnection extends HttpAgent {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    super({ keepAlive: false });
    this.#socket = socket;
  }

  override createConnection(): Socket {
    return this.#socket;
  }
}

/** Tunnels on http-proxy, which passes on any answer as it came. It gets to see those that its caller checked. */
export class Tunnels {
  readonly #proxy = httpProxy.createProxyServer({});

  /** Sends a request for a tunnel. @throws TypeError for a path, name or value that can't be sent */
  ask(asked: TunnelAsked): TunnelRequest {
    const request = this.#send(asked);
    const [onUpgrade] = request.listeners('upgrade') as ((...args: Upgraded) => void)[];
    if (onUpgrade === undefined) throw new Error('http-proxy takes answers in another way');
    request.removeAllListeners('upgrade').removeAllListeners('response');
    const { socket } = asked;
    socket.once('close', () => request.destroy());
    return {
      request,
      open: (upgraded, fields) => {
        const [answer, opened] = upgraded;
        Object.defineProperty(answer, 'headers', { value: headersOf(fields) });
        // Fields are bytes; what follows them is no text.
        socket.setDefaultEncoding('latin1');
        tieTogether(socket, opened);
        opened.setKeepAlive(true, TCP_KEEP_ALIVE_MS);
        onUpgrade.apply(request, upgraded);
      },
    };
  }

  #send({ socket, headBytes, opened, path, fields, failed }: TunnelAsked): ClientRequest {
    let made: ClientRequest | undefined;
    const onRequest = (request: ClientRequest, _req: unknown, forSocket: unknown): void => {
      if (forSocket !== socket) return;
      made = request;
      // Before anything else: the error of one that is given up has nobody else who takes it.
      request.on('error', () => undefined);
      request.path = path;
      request.removeHeader('host');
      for (let i = 0; i < fields.length; i += 2)
        request.appendHeader(fields[i] as string, fields[i + 1] as string);
    };
    this.#proxy.on('proxyReqWs', onRequest);
    try {
      const options = { target: TARGET, agent: new OpenConnection(opened), xfwd: false };
      this.#proxy.ws(BARE_HANDSHAKE as IncomingMessage, socket, headBytes, options, failed);
    } finally {
      // It was emitted inside the call; another handshake must not meet this listener.
      this.#proxy.off('proxyReqWs', onRequest);
    }
    if (made === undefined) throw new Error('http-proxy makes requests in another way');
    return made;
  }
}

/** Fields as http-proxy writes them. */
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

/** When one side is gone the other one is ended too; when one has only ended, the other one has a moment to follow. */
function tieTogether(client: Duplex, upstream: Duplex): void {
  let lingering: NodeJS.Timeout | undefined;
  for (const [side, other] of [
    [client, upstream],
    [upstream, client],
  ] as const) {
    side.once('end', () => (lingering ??= setTimeout(() => side.destroy(), LINGER_MS)));
    side.once('close', () => {
      clearTimeout(lingering);
      other.destroy();
    });
    side.on('error', () => other.destroy());
  }
}
