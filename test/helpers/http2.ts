import { once } from 'node:events';
import { type ClientHttp2Session, connect, constants, type IncomingHttpHeaders } from 'node:http2';
import type { ConnectionOptions } from 'node:tls';
import { bodyOf, checkReply, jsonOf, methodOf, type Reply, type Sent } from './http.js';
import { rememberSecretsOf } from './secrets.js';

/** Opens an HTTP/2 connection, which is destroyed when the test ends. */
export async function openHttp2(
  t: { teardown: (fn: () => void) => void },
  base: string,
  options: ConnectionOptions = {},
): Promise<ClientHttp2Session> {
  const session = connect(base, { rejectUnauthorized: false, ...options });
  session.on('error', () => undefined);
  t.teardown(() => session.destroy());
  await once(session, 'connect');
  return session;
}

/**
 * Sends one request on an HTTP/2 connection. Rejects if the stream is reset; the error's `code` is
 * the reset code.
 */
export async function sendHttp2(session: ClientHttp2Session, path: string, sent: Sent = {}): Promise<Reply> {
  // The port is unknown once the connection is destroyed.
  const base = `https://127.0.0.1:${session.destroyed ? 0 : session.socket.remotePort}`;
  const reply = await exchange(session, path, sent);
  await checkReply(base, path, sent, reply);
  return reply;
}

function exchange(session: ClientHttp2Session, path: string, sent: Sent): Promise<Reply> {
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(sent.headers ?? {})) headers[name.toLowerCase()] = value;
  const { body, type } = bodyOf(sent);
  if (type !== undefined) headers['content-type'] ??= type;
  if (body !== undefined && headers['transfer-encoding'] === undefined)
    headers['content-length'] ??= String(Buffer.byteLength(body));
  delete headers['transfer-encoding'];
  const method = methodOf(sent);
  return new Promise((resolve, reject) => {
    const stream = session.request(
      { ':method': method, ':path': path, ...headers },
      { endStream: body === undefined },
    );
    let answered: (IncomingHttpHeaders & { ':status'?: number }) | undefined;
    let rawHeaders: string[] = [];
    const chunks: Buffer[] = [];
    let whole = false;
    stream.on('response', (got: IncomingHttpHeaders, flags: number, raw: unknown) => {
      answered = got;
      // A Node 26 client whose own body is cut off does not report the end after that.
      whole = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
      rawHeaders = (raw as string[]) ?? [];
    });
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('error', () => undefined);
    // A Node 20 client does not close a stream whose request body was not read.
    stream.on('end', () => {
      whole = !stream.destroyed && stream.rstCode === constants.NGHTTP2_NO_ERROR;
      if (whole) finish();
    });
    stream.on('close', () => finish());
    const finish = () => {
      const { rstCode } = stream;
      if (answered === undefined || !whole) {
        reject(Object.assign(new Error(`the stream was reset (${rstCode})`), { code: rstCode }));
        return;
      }
      const text = Buffer.concat(chunks).toString();
      const json = jsonOf(text);
      rememberSecretsOf(answered, json);
      resolve({ status: answered[':status'] ?? 0, headers: answered, rawHeaders, text, json });
    };
    stream.end(body);
  });
}
