import type { ClientHttp2Session } from 'node:http2';
import { request } from 'node:https';
import { askByGrpc } from './grpc.js';
import { type Reply, send } from './http.js';
import { sendHttp2 } from './http2.js';
import type { Running } from './latchkey.js';

/** A request that any entrance can carry. A handshake is always a GET, whatever the method. */
interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string | string[]>;
}

/** Sends a request through one entrance. */
export type Entrance = (asked: Asked) => Promise<Reply>;

/** The headers that turn a GET into a WebSocket handshake. */
export const HANDSHAKE = {
  Connection: 'Upgrade',
  Upgrade: 'websocket',
  'Sec-WebSocket-Version': '13',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
};

/** Entrances of the decision ports, where proxies understand only 401 and 403. */
export const DECIDES: ReadonlySet<string> = new Set([
  'auth-request',
  'forward-auth',
  'ext_authz',
  'gRPC',
  'gRPC with joined fields',
]);

/**
 * Every way into a server.
 * @param session an HTTP/2 connection to it
 */
export function entrancesOf({ url, decision, grpc }: Running, session: ClientHttp2Session) {
  return {
    'HTTP/1.1': ({ method, path, headers }) => send(url, path, { method, headers }),
    'HTTP/2': ({ method, path, headers }) => sendHttp2(session, path, { method, headers }),
    WebSocket: ({ path, headers }) => shakeHands(url, path, headers),
    'auth-request': ({ method, path, headers }) =>
      send(decision, '/auth-request', {
        headers: { ...headers, 'X-Original-Method': method, 'X-Original-URI': path },
      }),
    'forward-auth': ({ method, path, headers }) =>
      send(decision, '/forward-auth', {
        headers: { ...headers, 'X-Forwarded-Method': method, 'X-Forwarded-Uri': path },
      }),
    ext_authz: ({ method, path, headers }) => send(decision, `/ext_authz${path}`, { method, headers }),
    gRPC: ({ method, path, headers }) => askByGrpc(grpc, { method, target: path, headers }),
    'gRPC with joined fields': ({ method, path, headers }) =>
      askByGrpc(grpc, { method, target: path, headers, joined: true }),
  } as const satisfies Record<string, Entrance>;
}

/**
 * Sends a handshake over TLS. If accepted, the reply is a 101 without a body, and the WebSocket
 * ends at once.
 */
function shakeHands(url: string, path: string, headers: Asked['headers']): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const asked = request(`${url}${path}`, {
      headers: { ...headers, ...HANDSHAKE },
      rejectUnauthorized: false,
    });
    asked.on('upgrade', (res, socket) => {
      socket.destroy();
      resolve({ status: 101, headers: res.headers, rawHeaders: res.rawHeaders, text: '', json: undefined });
    });
    asked.on('response', (res) => {
      let text = '';
      res.on('data', (chunk: Buffer) => (text += chunk.toString()));
      res.on('end', () => {
        const { statusCode = 0, rawHeaders } = res;
        resolve({ status: statusCode, headers: res.headers, rawHeaders, text, json: JSON.parse(text) });
      });
    });
    asked.on('error', reject).end();
  });
}
