import { connect, createServer, type ServerHttp2Stream } from 'node:http2';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import t from 'tap';
import { serveHttp } from '../helpers/http.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { createRandom, type Random } from '../helpers/random.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';
import { startBoth } from './both-protocols.js';

/*
 * Clients that send a body, or a part of it, and then wait, end their side, or reset the
 * connection, at any moment: each body that an upstream takes for whole is the one that was sent.
 * Connections to the upstreams are few and often new, so that many requests wait for one.
 */

const CLIENTS = 12;
const REQUESTS = EVERY_CASE ? 15 : 6;
const SIZES = [1, 20, 4_000, 66_000, 200_000];
/** Time for the last requests to arrive. */
const SETTLE_MS = 300;
type Way = 'wait' | 'end' | 'reset';

/** A body to send, in pieces. */
interface Sending {
  readonly path: string;
  readonly body: string;
  readonly isChunked: boolean;
  /** Whether the last piece is withheld. */
  readonly isCut: boolean;
  readonly way: Way;
  readonly random: Random;
}

/** The bodies sent, and those that upstreams took for whole, by path. */
const sent = new Map<string, Sending>();
const whole = new Map<string, string[]>();
const note = (path: string, body: string) => whole.set(path, [...(whole.get(path) ?? []), body]);
const isEarly = (path: string) => path.endsWith('early');

/** The upstream of HTTP/1.1. For some paths, it ends the connection after its response. */
const one = await serveHttp(t, (req: IncomingMessage, res: ServerResponse) => {
  const { url: path = '' } = req;
  const answer = () => {
    if (path.endsWith('close')) res.setHeader('Connection', 'close');
    res.end('done');
  };
  let body = '';
  if (isEarly(path)) answer();
  req.on('data', (chunk: Buffer) => {
    body += chunk.toString('latin1');
    if (!path.endsWith('slow')) return;
    req.pause();
    setTimeout(() => req.resume(), 2);
  });
  req.on('end', () => {
    if (req.complete) note(path, body);
    if (!isEarly(path)) answer();
  });
  req.on('error', () => undefined);
});
/** The upstream of HTTP/2. */
const two = createServer();
two.on('stream', (stream: ServerHttp2Stream, headers) => {
  const path = String(headers[':path']);
  let body = '';
  let hasEnded = false;
  const answer = () => {
    if (stream.destroyed) return;
    stream.respond({ ':status': 200 });
    stream.end('done');
  };
  if (isEarly(path)) answer();
  stream.on('data', (chunk: Buffer) => (body += chunk.toString('latin1')));
  stream.on('end', () => {
    hasEnded = true;
    if (!isEarly(path) && !stream.aborted) answer();
  });
  stream.on('close', () => hasEnded && !stream.aborted && stream.rstCode === 0 && note(path, body));
  stream.on('error', () => undefined);
});
two.on('session', (session) => t.teardown(() => session.destroy()));

const { plain, overTls } = await startBoth(t, one.url, two, 3);

/** Returns the bytes of a body as HTTP/1.1 sends them, in pieces. */
function piecesOf({ body, isChunked, isCut, random }: Sending): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < body.length;) {
    const data = body.slice(at, at + 1 + random.below(random.pick([20, 30_000])));
    at += data.length;
    pieces.push(isChunked ? `${data.length.toString(16)}\r\n${data}\r\n` : data);
  }
  if (isChunked) pieces.push('0\r\n\r\n');
  return isCut ? pieces.slice(0, -1) : pieces;
}

/** Sends a body over HTTP/1.1; returns the text of the response. */
async function send1(url: string, sending: Sending): Promise<string> {
  const { path, body, isChunked, isCut, way, random } = sending;
  const client = openRaw(url, { halfOpen: true });
  const framing = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`;
  client.write(`POST ${path} HTTP/1.1\r\nHost: a\r\n${framing}\r\n\r\n`);
  for (const piece of piecesOf(sending)) {
    client.write(piece);
    if (random.oneIn(20)) await sleep(random.below(3));
  }
  if (way === 'wait' && !isCut) await until(() => client.ended || /^HTTP.*200[^]*done/.test(client.text()), path);
  if (random.oneIn(3)) await sleep(random.below(5));
  if (way === 'end') client.socket.end();
  else if (way === 'reset' && url.startsWith('http:')) client.socket.resetAndDestroy();
  else client.socket.destroy();
  await client.closed;
  return client.text();
} // prettier-ignore

/**
 * Sends a body over HTTP/2, on a connection of its own; returns the text of the response. What is cut
 * ends with its connection: Node would end a stream that it resets.
 */
async function send2(url: string, sending: Sending): Promise<string> {
  const { path, isCut, way, random } = sending;
  const { hostname: host, port } = new URL(url);
  const socket = connectTls({ host, port: Number(port), rejectUnauthorized: false, ALPNProtocols: ['h2'] });
  const session = connect(url, { createConnection: () => socket });
  session.on('error', () => undefined);
  const stream = session.request({ ':method': 'POST', ':path': path });
  let text = '';
  stream.on('error', () => undefined).on('data', (chunk: Buffer) => (text += chunk.toString()));
  stream.on('response', (headers) => (text += `HTTP ${headers[':status']} `));
  const pieces = piecesOf({ ...sending, isChunked: false });
  for (const [at, piece] of pieces.entries()) {
    if (at === pieces.length - 1 && !isCut && random.oneIn(2)) stream.end(piece, 'latin1');
    else stream.write(piece, 'latin1');
    if (random.oneIn(20)) await sleep(random.below(3));
  }
  if (!isCut && !stream.writableEnded) stream.end();
  if (way === 'wait' && !isCut) await until(() => stream.closed || text.endsWith('done'), path);
  if (random.oneIn(3)) await sleep(random.below(5));
  if (way === 'reset' && !isCut) stream.close(random.pick([0, 8]));
  socket.destroy();
  return text;
}

/** Sends bodies one after another; returns what went wrong for clients that waited. */
async function work(name: string, client: number, exchange: (sending: Sending) => Promise<string>): Promise<string[]> {
  const random = createRandom(client);
  const wrong: string[] = [];
  for (let i = 0; i < REQUESTS; i++) {
    const path = `/${random.pick(['one', 'two'])}/${name}-${client}-${i}-${random.pick(['plain', 'plain', 'close', 'slow', 'early'])}`;
    const body = `${path} `.repeat(Math.ceil(random.pick(SIZES) / path.length));
    const sending: Sending = { path, body, isChunked: random.oneIn(2), isCut: random.oneIn(4), way: random.pick(['wait', 'end', 'reset']), random };
    sent.set(path, sending);
    const text = await exchange(sending);
    if (sending.way === 'wait' && !sending.isCut && !/^HTTP.*200[^]*done/.test(text)) wrong.push(`${path}: ${text}`);
  }
  return wrong;
} // prettier-ignore

for (const [name, exchange] of Object.entries({
  tcp: (sending: Sending) => send1(plain.url, sending),
  tls: (sending: Sending) => send1(overTls.url, sending),
  http2: (sending: Sending) => send2(overTls.url, sending),
}))
  t.test(`what arrives whole is what was sent, over ${name}`, async (t) => {
    const wrong = await Promise.all(
      Array.from({ length: CLIENTS }, (_, client) => work(name, client, exchange)),
    );
    t.same(wrong.flat(), [], 'clients that wait get their responses');
    await sleep(SETTLE_MS);
    const waited = [...sent].filter(
      ([path, { way, isCut }]) => way === 'wait' && !isCut && !isEarly(path) && !whole.has(path),
    );
    t.same(waited, [], 'and their bodies arrive');
    const damaged = [...whole].filter(
      ([path, bodies]) => bodies.length > 1 || bodies[0] !== sent.get(path)?.body,
    );
    t.same(
      damaged.map(([path, bodies]) => [path, bodies.map(({ length }) => length), sent.get(path)]),
      [],
      'nothing arrives changed',
    );
    t.same([...whole.keys()].filter((path) => sent.get(path)?.isCut), [], 'nor whole without having been sent'); // prettier-ignore
    t.ok(whole.size > 0);
    sent.clear();
    whole.clear();
  });
