import type { ClientRequest, IncomingMessage } from 'node:http';
import { Agent as HttpAgent } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import httpProxy from 'http-proxy';
import type { Refusal } from '../domain/refusal.js';
import type { RequestHead } from '../http/head.js';
import { inboundFields } from './inbound.js';
import { refusalOf } from './upstream-faults.js';
import type { Upstream } from './upstreams.js';

/** A judged WebSocket handshake to carry. */
export interface UpgradeJob {
  readonly head: RequestHead;
  readonly socket: Duplex;
  /** Bytes that the client sent behind the handshake. */
  readonly headBytes: Buffer;
  readonly upstream: Upstream;
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
 * http-proxy gets a request made from the judged head, never the client's own, and nothing of the client's bytes
 * reaches the upstream before its 101. Any other answer is turned into a refusal.
 */
export function createUpgrade({ sessionCookie }: { readonly sessionCookie: string }): Upgrade {
  const proxy = httpProxy.createProxyServer({});
  // One connection for one tunnel: nothing is kept for another request.
  const agent = new HttpAgent({ keepAlive: false });
  return (job) => {
    const { head, socket, headBytes, upstream, refuse, done } = job;
    let over = false;
    const finish = (status: number | null, refusal?: Refusal): void => {
      if (over) return;
      over = true;
      clearTimeout(limit);
      if (refusal !== undefined) refuse(refusal);
      done({ status });
    };
    let request: ClientRequest | undefined;
    const limit = setTimeout(() => {
      finish(null, { refusal: 'upstream_too_slow', detail: 'The upstream did not answer in time' });
      request?.destroy();
    }, upstream.settings.connect_timeout + upstream.settings.response_timeout);

    const onRequest = (proxyRequest: ClientRequest, _req: unknown, forSocket: unknown): void => {
      if (forSocket !== socket) return;
      request = proxyRequest;
      // http-proxy joins and merges slashes; the upstream gets the target byte for byte.
      proxyRequest.path = upstream.prefix + head.target;
      proxyRequest.prependListener('upgrade', (answer: IncomingMessage, upstreamSocket: Socket) => {
        if (answer.statusCode !== 101 || over) {
          upstreamSocket.destroy();
          return;
        }
        replaceHeaders(answer, job, sessionCookie);
        tieTogether(socket, upstreamSocket);
        upstreamSocket.setKeepAlive(true, TCP_KEEP_ALIVE_MS);
        finish(101);
      });
      proxyRequest.prependListener('response', (answer: IncomingMessage) => {
        // Marked as upgraded so that http-proxy leaves it to us; it would write the answer as it came.
        Object.assign(answer, { upgrade: true });
        answer.destroy();
        finish(answer.statusCode ?? null, {
          refusal: 'upstream_broken',
          detail: `The upstream did not accept the WebSocket (${answer.statusCode})`,
        });
      });
      socket.once('close', () => {
        finish(null);
        proxyRequest.destroy();
      });
    };
    proxy.on('proxyReqWs', onRequest);
    proxy.ws(
      handshakeRequest(job) as IncomingMessage,
      socket,
      headBytes,
      {
        target: upstream.url.origin,
        agent: upstream.url.protocol === 'http:' ? agent : undefined,
        xfwd: false,
      },
      (error: Error) => {
        finish(null, refusalOf(error));
      },
    );
    // It was emitted inside the call; another handshake must not meet this listener.
    proxy.off('proxyReqWs', onRequest);
  };
}

/** What http-proxy reads of a request. */
function handshakeRequest({ head, fields, upstream }: UpgradeJob): Partial<IncomingMessage> {
  const headers: Record<string, string | string[]> = Object.create(null) as Record<string, string | string[]>;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    const known = headers[name];
    const value = fields[i + 1] as string;
    headers[name] = known === undefined ? value : [known, value].flat();
  }
  headers['host'] = upstream.url.host;
  headers['connection'] = 'Upgrade';
  headers['upgrade'] = 'websocket';
  return { method: 'GET', url: head.target, headers };
}

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
