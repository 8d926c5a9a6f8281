import { type ClientHttp2Session, connect } from 'node:http2';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { Serve } from '../../src/http/exchange.js';
import { Http2Connections, serveStream } from '../../src/listeners/http2-connections.js';
import { bodyOf, jsonOf, methodOf, type Reply, type Sent } from './http.js';

export const HTTP2_LIMITS = {
  head_size: 16_384,
  head_fields: 100,
  target_size: 8_192,
  head_timeout: 10_000,
  keep_alive: 60_000,
};

/** Serves a listener over HTTP/2 without sockets, on one connection that is opened when needed. */
export function inProcessHttp2(serve: Serve) {
  let session: Promise<ClientHttp2Session> | undefined;
  const open = async (): Promise<ClientHttp2Session> => {
    const [near, far] = linked();
    const connections = new Http2Connections(
      HTTP2_LIMITS,
      (...stream) => serveStream(serve, HTTP2_LIMITS.head_timeout, ...stream),
      (error) => {
        throw error;
      },
    );
    connections.accept(Object.assign(far, { remoteAddress: '127.0.0.1' }) as unknown as Socket);
    return connect('http://api.example', { createConnection: () => near });
  };
  return {
    get session() {
      return session;
    },
    send: async (target: string, sent: Sent): Promise<Reply> =>
      exchange(await (session ??= open()), target, sent),
  };
}

function exchange(session: ClientHttp2Session, target: string, sent: Sent): Promise<Reply> {
  const { body, type } = bodyOf(sent);
  const { host = 'api.example', ...fields } = Object.fromEntries(
    Object.entries(sent.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]),
  );
  if (type !== undefined) fields['content-type'] ??= type;
  return new Promise((resolve, reject) => {
    const stream = session.request(
      { ':method': methodOf(sent), ':path': target, ':authority': String(host), ...fields },
      { endStream: body === undefined },
    );
    const chunks: Buffer[] = [];
    let answer: Pick<Reply, 'status' | 'headers'> | undefined;
    stream
      .on('response', ({ ':status': status = 0, ...headers }) => (answer = { status, headers }))
      .on('data', (chunk: Buffer) => chunks.push(chunk))
      .on('error', reject)
      .on('close', () => {
        const text = Buffer.concat(chunks).toString();
        if (answer === undefined) reject(new Error(`no answer: ${stream.rstCode}`));
        else resolve({ ...answer, rawHeaders: [], text, json: jsonOf(text) });
      });
    if (body !== undefined) stream.end(body);
  });
} // prettier-ignore

/** Two ends of a connection. */
function linked(): [Duplex, Duplex] {
  const end = (other: () => Duplex) =>
    new Duplex({
      read: () => undefined,
      write: (chunk: Buffer, _encoding, done) => {
        other().push(chunk);
        done();
      },
      final: (done) => {
        other().push(null);
        done();
      },
    });
  const near: Duplex = end(() => far);
  const far: Duplex = end(() => near);
  return [near, far];
}
