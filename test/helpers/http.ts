import {
  createServer,
  type IncomingHttpHeaders,
  request,
  type RequestListener,
  type Server,
} from 'node:http';
import { createServer as createTlsServer, request as requestOverTls, type ServerOptions } from 'node:https';
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Server as TcpServer,
  type Socket,
} from 'node:net';
import { checkExchange } from './interface.js';
import { openRaw } from './raw-client.mjs';
import { rememberSecretsOf } from './secrets.js';

/** An answer with its body as text and, when it is JSON, as a value. */
export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly text: string;
  readonly json: any; // oxlint-disable-line typescript/no-explicit-any -- tests look into answers of any shape
}

/** What to send. */
export interface Sent {
  readonly method?: string;
  readonly headers?: Record<string, string | string[]>;
  readonly body?: string | Buffer | URLSearchParams;
  readonly json?: unknown;
}

/** The body of what is sent, and its media type where it follows from the kind of value. */
export function bodyOf({ json, body }: Sent): { body?: string | Buffer | undefined; type?: string } {
  if (json !== undefined) return { body: JSON.stringify(json), type: 'application/json' };
  if (body instanceof URLSearchParams)
    return { body: body.toString(), type: 'application/x-www-form-urlencoded' };
  return { body };
}

/**
 * Sends one request on a connection of its own; the path goes out byte for byte. An exchange with a built-in endpoint is held
 * against the description of the interface.
 */
export async function send(base: string, path: string, sent: Sent = {}): Promise<Reply> {
  const reply = await exchange(base, path, sent);
  await checkReply(base, path, sent, reply);
  return reply;
}

/** Holds a reply against the description of the interface. */
export function checkReply(base: string, path: string, sent: Sent, reply: Reply): Promise<void> {
  const { body, type } = bodyOf(sent);
  const named = Object.entries(sent.headers ?? {}).find(([name]) => name.toLowerCase() === 'content-type');
  return checkExchange(base, {
    method: methodOf(sent),
    path,
    requestType: String(named?.[1] ?? type ?? ''),
    requestBody: body?.toString(),
    status: reply.status,
    headers: reply.headers,
    text: reply.text,
  });
}

/** The method of what is sent. */
export function methodOf(sent: Sent): string {
  return sent.method ?? (bodyOf(sent).body === undefined ? 'GET' : 'POST');
}

function exchange(base: string, path: string, sent: Sent): Promise<Reply> {
  const { hostname, port, protocol } = new URL(base);
  const headers: Record<string, string | string[]> = { ...sent.headers };
  const { body, type } = bodyOf(sent);
  if (type !== undefined) headers['Content-Type'] ??= type;
  // Node does not frame the body of a DELETE by itself.
  if (body !== undefined && headers['Transfer-Encoding'] === undefined) {
    headers['Content-Length'] = String(Buffer.byteLength(body));
  }
  return new Promise((resolve, reject) => {
    const req = (protocol === 'https:' ? requestOverTls : request)(
      {
        rejectUnauthorized: false,
        hostname,
        port,
        path,
        method: methodOf(sent),
        headers,
        agent: false,
      },
      (res) => {
        const chunks: Buffer[] = [];
        res.on('data', (chunk: Buffer) => chunks.push(chunk));
        res.on('error', reject);
        res.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          const json = jsonOf(text);
          rememberSecretsOf(res.headers, json);
          resolve({
            status: res.statusCode ?? 0,
            headers: res.headers,
            rawHeaders: res.rawHeaders,
            text,
            json,
          });
        });
      },
    );
    req.on('error', reject);
    req.end(body);
  });
}

/** The metrics as they are now: what is told may be a second old. */
export async function freshMetrics(admin: string): Promise<string> {
  await new Promise((over) => setTimeout(over, 1_050));
  return (await send(admin, '/metrics')).text;
}

/** The longest time to an answer, on a machine with more to do. */
const ANSWER_MS = 20_000;

/**
 * Sends exact bytes and returns what comes back until the connection closes or stays quiet.
 *
 * @param quietMs counted once there are as many answers as must come
 * @param answers how many those are, with interim ones
 */
export function sendRaw(base: string, bytes: string, quietMs = 300, answers = 1): Promise<string> {
  return new Promise((resolve) => {
    const { socket, text } = openRaw(base, { bytes });
    const finish = () => {
      clearTimeout(timer);
      socket.destroy();
      resolve(text());
    };
    let timer = setTimeout(finish, ANSWER_MS);
    socket.on('data', () => {
      if ((text().match(/HTTP\/1\.1 \d/g)?.length ?? 0) < answers) return;
      clearTimeout(timer);
      timer = setTimeout(finish, quietMs);
    });
    socket.on('end', finish).on('error', finish);
  });
}

/** One request as the upstream received it. */
export interface Received {
  readonly method: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

/**
 * A real upstream that remembers what it received and answers 200 with it as JSON.
 *
 * @param path of a Unix socket to listen on instead of loopback
 */
export async function startUpstream(
  t: Test,
  path?: string,
): Promise<{ url: string; received: Received[]; server: Server }> {
  const received: Received[] = [];
  const answer: RequestListener = (req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const { method = '', url: target = '', headers, rawHeaders } = req;
      const entry = { method, target, headers, rawHeaders, body: Buffer.concat(chunks).toString() };
      received.push(entry);
      res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(entry));
    });
  };
  const { url, server } = await serveHttp(t, answer, {}, path);
  return { url, received, server };
}

type Test = { teardown: (fn: () => void) => void };

/**
 * Serves HTTP on loopback until the test ends, whatever is open then.
 *
 * @param options of Node's server: with `cert` it speaks TLS, whatever the URL says
 * @param path of a Unix socket to listen on instead
 */
export async function serveHttp(
  t: Test,
  answer: RequestListener,
  options: ServerOptions = {},
  path?: string,
): Promise<{ url: string; server: Server }> {
  const server =
    options.cert === undefined ? createServer(options, answer) : createTlsServer(options, answer);
  return { url: await serve(t, server, path), server };
}

/**
 * Serves TCP on loopback until the test ends, whatever is open then.
 *
 * @param meet gets each connection; its errors are none
 * @param path of a Unix socket to listen on instead
 */
export async function serveTcp(
  t: Test,
  meet: (socket: Socket) => void,
  path?: string,
): Promise<{ url: string; server: TcpServer }> {
  const server = createTcpServer((socket) => meet(socket.on('error', () => undefined)));
  return { url: await serve(t, server, path), server };
}

async function serve(t: Test, server: TcpServer, path: string | undefined): Promise<string> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  t.teardown(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  if (path === undefined) return listenOnLoopback(server);
  await new Promise<void>((done) => void server.listen(path, done));
  return `unix://${path}`;
}

/** Listens on a free loopback port and returns the base URL. */
export async function listenOnLoopback(server: {
  listen(port: number, host: string, done: () => void): unknown;
  address(): unknown;
}): Promise<string> {
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The value of a text of JSON; undefined when it is none. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
