import type { ClientRequest, IncomingMessage } from 'node:http';
import { Agent as HttpAgent } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import httpProxy from 'http-proxy';
import type { Refusal } from '../domain/refusal.js';
import type { RequestHead } from '../http/head.js';
import type { Address } from './address.js';
import { inboundFields } from './inbound.js';
import { Tries } from './tries.js';
import { refusalOf } from './upstream-faults.js';
import type { Upstream } from './upstreams.js';

/** A judged WebSocket handshake to carry. */
export interface UpgradeJob {
  readonly head: RequestHead;
  readonly socket: Duplex;
  /** Bytes that the client sent behind the handshake. */
  readonly headBytes: Buffer;
  readonly upstream: Upstream;
  /** What the upstream is asked for, without the path of its address. */
  readonly target: string;
  readonly fields: readonly string[];
  readonly responseFields: readonly string[];
  /** Called at most once, while nothing was sent to the client; it answers and ends the socket. */
  readonly refuse: (refusal: Refusal) => void;
  /** Called once: at the end of the handshake, or after `refuse`. */
  readonly done: (outcome: { readonly status: number | null }) => void;
}

/** Nobody limits how long a WebSocket may be silent; the system finds the ones whose other side is gone. */
const TCP_KEEP_ALIVE_MS = 60_000;

/** Carries WebSocket handshakes and then the bytes of both sides. */
export type Upgrade = (job: UpgradeJob) => void;

/** Says why a head is no WebSocket handshake (RFC 6455 4.2.1); undefined when it is one. */
export function refuseHandshake(head: RequestHead): Refusal | undefined {
  const detail = handshakeFault(head);
  return detail === undefined ? undefined : { refusal: 'malformed', detail };
}

function handshakeFault(head: RequestHead): string | undefined {
  if (head.method !== 'GET') return 'a WebSocket handshake is a GET';
  if (head.chunked || head.contentLength !== undefined) return 'a WebSocket handshake has no body';
  const values = (name: string) =>
    head.fields.filter((_, i) => i % 2 === 1 && head.fields[i - 1]?.toLowerCase() === name);
  if (values('sec-websocket-version').join() !== '13') return 'Sec-WebSocket-Version must be 13';
  const [key = '', ...more] = values('sec-websocket-key');
  if (more.length > 0 || !/^[A-Za-z0-9+/]{22}==$/.test(key))
    return 'Sec-WebSocket-Key must be 16 bytes in base64';
  return undefined;
}

/**
 * Makes the carrier of handshakes on http-proxy.
 *
 * http-proxy gets a request made from the judged head, never the client's own, on a connection that is open already, and
 * nothing of the client's bytes reaches the upstream before its 101. Any other answer is turned into a refusal.
 */
export function createUpgrade({ sessionCookie }: { readonly sessionCookie: string }): Upgrade {
  const proxy = httpProxy.createProxyServer({});
  return (job) => new Handshake(job, proxy, sessionCookie).start();
}

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

/** Where an open connection leads does not matter any more; TLS, if any, is inside it. */
const TARGET = 'http://upstream';

class Handshake {
  readonly #job: UpgradeJob;
  readonly #proxy: httpProxy;
  readonly #sessionCookie: string;
  readonly #tries: Tries;
  #limit: NodeJS.Timeout | undefined;
  #over = false;

  constructor(job: UpgradeJob, proxy: httpProxy, sessionCookie: string) {
    this.#job = job;
    this.#proxy = proxy;
    this.#sessionCookie = sessionCookie;
    this.#tries = new Tries(job.upstream);
  }

  start(): void {
    if (this.#job.socket.destroyed) {
      this.#finish(null);
      return;
    }
    this.#job.socket.once('close', () => {
      this.#finish(null);
      this.#tries.leave();
    });
    this.#connect(this.#tries.begin());
  }

  /** Nothing is sent before a connection stands, so one that fails is tried at another address. */
  #connect(address: Address): void {
    address.connect((opened) => {
      if (opened instanceof Error) this.#failed(opened);
      else if (this.#over) opened.destroy();
      else this.#send(address, opened);
    });
  }

  #failed(error: Error): void {
    if (this.#over) return;
    const { sent } = this.#tries;
    const another = this.#tries.another(error, { whole: !this.#job.socket.destroyed, harmless: false });
    if (another !== undefined) this.#connect(another);
    else this.#finish(null, refusalOf(error, sent));
  }

  #finish(status: number | null, refusal?: Refusal): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#limit);
    if (refusal !== undefined) this.#job.refuse(refusal);
    this.#job.done({ status });
  }

  #send(address: Address, upstreamSocket: Socket): void {
    const { socket, headBytes, upstream } = this.#job;
    this.#tries.sent = true;
    this.#limit = setTimeout(() => {
      this.#finish(null, { refusal: 'upstream_too_slow', detail: 'The upstream did not answer in time' });
      upstreamSocket.destroy();
    }, upstream.settings.response_timeout);
    const onRequest = (request: ClientRequest, _req: unknown, forSocket: unknown): void => {
      if (forSocket === socket) this.#follow(request, address);
    };
    this.#proxy.on('proxyReqWs', onRequest);
    this.#proxy.ws(
      handshakeRequest(this.#job, address) as IncomingMessage,
      socket,
      headBytes,
      { target: TARGET, agent: new OpenConnection(upstreamSocket), xfwd: false },
      (error: Error) => this.#failed(error),
    );
    // It was emitted inside the call; another handshake must not meet this listener.
    this.#proxy.off('proxyReqWs', onRequest);
  }

  #follow(request: ClientRequest, address: Address): void {
    const { socket, target } = this.#job;
    // http-proxy joins and merges slashes; the upstream gets the target byte for byte.
    request.path = address.prefix + target;
    request.prependListener('upgrade', (answer: IncomingMessage, upstreamSocket: Socket) => {
      if (answer.statusCode !== 101 || this.#over) {
        upstreamSocket.destroy();
        return;
      }
      this.#tries.answered();
      replaceHeaders(answer, this.#job, this.#sessionCookie);
      tieTogether(socket, upstreamSocket);
      upstreamSocket.setKeepAlive(true, TCP_KEEP_ALIVE_MS);
      this.#finish(101);
    });
    request.prependListener('response', (answer: IncomingMessage) => {
      // Marked as upgraded so that http-proxy leaves it to us; it would write the answer as it came.
      Object.assign(answer, { upgrade: true });
      answer.destroy();
      this.#tries.answered();
      this.#finish(answer.statusCode ?? null, {
        refusal: 'upstream_broken',
        detail: `The upstream did not accept the WebSocket (${answer.statusCode})`,
      });
    });
    socket.once('close', () => request.destroy());
  }
}

/** What http-proxy reads of a request. */
function handshakeRequest({ head, target, fields, upstream }: UpgradeJob, address: Address): Partial<IncomingMessage> {
  const headers: Record<string, string | string[]> = Object.create(null) as Record<string, string | string[]>;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    const known = headers[name];
    const value = fields[i + 1] as string;
    headers[name] = known === undefined ? value : [known, value].flat();
  }
  headers['host'] = upstream.hostFor(head) ?? address.host;
  headers['connection'] = 'Upgrade';
  headers['upgrade'] = 'websocket';
  return { method: 'GET', url: target, headers };
} // prettier-ignore

/** http-proxy writes what stands in `headers`; so that is where the answer is rebuilt. */
function replaceHeaders(
  answer: IncomingMessage,
  { responseFields }: UpgradeJob,
  sessionCookie: string,
): void {
  const headers: Record<string, string | string[]> = { Connection: 'Upgrade', Upgrade: 'websocket' };
  const fields = inboundFields(answer.rawHeaders, responseFields, sessionCookie);
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    const value = fields[i + 1] as string;
    const known = headers[name];
    headers[name] = known === undefined ? value : [known, value].flat();
  }
  Object.defineProperty(answer, 'headers', { value: headers });
}

/** When one side is gone the other one is ended too. */
function tieTogether(client: Duplex, upstream: Duplex): void {
  client.once('close', () => upstream.destroy());
  upstream.once('close', () => client.destroy());
  client.on('error', () => upstream.destroy());
  upstream.on('error', () => client.destroy());
}
