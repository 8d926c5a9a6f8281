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

/** A response with its body as text and, if it is JSON, as a value. */
export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly text: string;
  readonly json: any; // oxlint-disable-line typescript/no-explicit-any -- tests look into answers of any shape
}

/** The parts of a request. */
export interface Sent {
  readonly method?: string;
  readonly headers?: Record<string, string | string[]>;
  readonly body?: string | Buffer | URLSearchParams;
  readonly json?: unknown;
}

/** Returns the body to send, and its media type if the kind of value implies one. */
export function bodyOf({ json, body }: Sent): { body?: string | Buffer | undefined; type?: string } {
  if (json !== undefined) return { body: JSON.stringify(json), type: 'application/json' };
  if (body instanceof URLSearchParams)
    return { body: body.toString(), type: 'application/x-www-form-urlencoded' };
  return { body };
}

/**
 * Sends one request on a connection of its own; the path is sent byte for byte. An exchange with a
 * built-in endpoint is validated against the OpenAPI document.
 */
export async function send(base: string, path: string, sent: Sent = {}): Promise<Reply> {
  const reply = await exchange(base, path, sent);
  await checkReply(base, path, sent, reply);
  return reply;
}

/** Validates a reply against the OpenAPI document. */
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

/** Returns the request method. */
export function methodOf(sent: Sent): string {
  return sent.method ?? (bodyOf(sent).body === undefined ? 'GET' : 'POST');
}

function exchange(base: string, path: string, sent: Sent): Promise<Reply> {
  const { hostname, port, protocol } = new URL(base);
  const headers: Record<string, string | string[]> = { ...sent.headers };
  const { body, type } = bodyOf(sent);
  if (type !== undefined) headers['Content-Type'] ??= type;
  // Node does not frame the body of a DELETE by default.
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

/** Fetches current metrics, after a wait: the endpoint may return values up to a second old. */
export async function freshMetrics(admin: string): Promise<string> {
  await new Promise((over) => setTimeout(over, 1_050));
  return (await send(admin, '/metrics')).text;
}

/** Longest wait for a response, in milliseconds; allows for a busy machine. */
const ANSWER_MS = 20_000;

/**
 * Sends exact bytes. Returns what arrives until the connection closes or stays quiet.
 *
 * @param quietMs counted from the last expected response
 * @param answers the number of expected responses, interim ones included
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

/** A request as the upstream received it. */
export interface Received {
  readonly method: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

/**
 * Starts a real upstream that records its requests and answers 200 with each as JSON.
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
 * Serves HTTP on loopback. At the end of the test, open connections are closed too.
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
 * Serves TCP on loopback. At the end of the test, open connections are closed too.
 *
 * @param meet receives each connection; its errors are ignored
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

/** Parses JSON; returns undefined if the text is not JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
