import { type ClientHttp2Session, createServer, type Http2Session, type ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { serveTcp } from '../helpers/http.js';
import { openHttp2 } from '../helpers/http2.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { createRandom, type Random } from '../helpers/random.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { readAnswers } from '../helpers/strict.mjs';
import { until } from '../helpers/until.js';
import { startBoth } from './both-protocols.js';

/*
 * Upstreams that send a response, or a part of it, and then end or reset the connection, at any
 * moment: each response that a client takes for whole is the one that was sent, or Latchkey's own
 * refusal.
 */

const CLIENTS = 12;
const REQUESTS = EVERY_CASE ? 15 : 6;
const SIZES = [1, 20, 4_000, 66_000, 300_000];
const KINDS = ['whole', 'whole', 'end', 'reset'] as const;
type Kind = (typeof KINDS)[number];

/** A response, which its path describes: `/one/NAME/SEED/KIND/SIZE`. */
function planOf(path: string) {
  const [, , , seed = '', kind = '', size = ''] = path.split('/');
  const random = createRandom(Number(seed));
  const body = `${path} `.repeat(Math.ceil(Number(size) / path.length));
  const pieces: string[] = [];
  for (let at = 0; at < body.length; ) {
    pieces.push(body.slice(at, at + 1 + random.below(random.pick([20, 60_000]))));
    at += pieces.at(-1)?.length ?? 0;
  }
  const sent = kind === 'whole' ? pieces : pieces.slice(0, random.below(pieces.length));
  return { body, sent, kind: kind as Kind, isChunked: random.oneIn(2), headFirst: random.oneIn(2), random };
} // prettier-ignore

/** The upstream of HTTP/1.1. */
const one = await serveTcp(t, (socket) => {
  let received = '';
  const answer = async (path: string) => {
    const { body, sent, kind, isChunked, headFirst, random } = planOf(path);
    const head = `HTTP/1.1 200 OK\r\n${isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`}\r\n\r\n`;
    if (kind === 'whole' || sent.length > 0 || headFirst) socket.write(head);
    for (const piece of sent) {
      if (random.oneIn(20)) await sleep(random.below(3));
      socket.write(isChunked ? `${piece.length.toString(16)}\r\n${piece}\r\n` : piece, 'latin1');
    }
    // The next request may follow a whole response at once.
    if (kind === 'whole' && isChunked) socket.write('0\r\n\r\n');
    if (kind !== 'whole' && random.oneIn(3)) await sleep(random.below(4));
    if (kind === 'end' || (kind === 'whole' && random.oneIn(3))) socket.end();
    else if (kind === 'reset') socket.resetAndDestroy();
  };
  socket.on('data', (chunk) => {
    received += chunk.toString('latin1');
    for (let end; (end = received.indexOf('\r\n\r\n')) >= 0; received = received.slice(end + 4))
      void answer(received.slice(4, received.indexOf(' HTTP/1.1')));
  });
});

/** The upstream of HTTP/2. */
const two = createServer();
two.on('stream', (stream: ServerHttp2Stream, headers) => {
  const { body, sent, kind, isChunked, headFirst, random } = planOf(String(headers[':path']));
  stream.on('error', () => undefined);
  const answer = async () => {
    const fields = isChunked ? {} : { 'content-length': String(body.length) };
    if (kind === 'whole' || sent.length > 0 || headFirst) stream.respond({ ':status': 200, ...fields });
    for (const piece of sent) {
      if (stream.destroyed) return;
      stream.write(piece, 'latin1');
      if (random.oneIn(20)) await sleep(random.below(3));
    }
    if (random.oneIn(3)) await sleep(random.below(4));
    if (stream.destroyed) return;
    if (kind === 'whole') stream.end();
    else if (kind === 'end') sockets.get(stream.session)?.destroy();
    else stream.destroy(new Error('reset'));
  };
  void answer();
});
const sockets = new Map<Http2Session | undefined, Socket>();
let accepted: Socket;
two.prependListener('connection', (socket: Socket) => {
  accepted = socket;
  t.teardown(() => socket.destroy());
});
two.on('session', (session) =>
  sockets.set(
    session.on('error', () => undefined),
    accepted,
  ),
);

const { plain, overTls } = await startBoth(t, one.url, two, 4);

/** A response as its client sees it. */
interface Got {
  readonly status: number;
  readonly body: string;
  readonly isWhole: boolean;
}

/** Receives a response over HTTP/1.1, on a connection of its own. */
async function get1(url: string, path: string, random: Random): Promise<Got> {
  const client = openRaw(url, { bytes: `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n` });
  const read = () => readAnswers(client.bytes(), ['GET'], client.ended);
  if (random.oneIn(3)) {
    client.socket.pause();
    await sleep(random.below(10));
    client.socket.resume();
  }
  await until(() => client.ended || read().answers.length > 0, path);
  const [answer] = read().answers;
  client.socket.destroy();
  return { status: answer?.status ?? 0, body: answer?.body.toString() ?? '', isWhole: answer !== undefined };
}

/** Receives a response over HTTP/2. */
async function get2(session: ClientHttp2Session, path: string, random: Random): Promise<Got> {
  const stream = session.request({ ':path': path });
  let status = 0;
  let body = '';
  let hasEnded = false;
  stream.on('response', (headers) => (status = Number(headers[':status'])));
  stream.on('error', () => undefined).on('end', () => (hasEnded = true));
  if (random.oneIn(3)) await sleep(random.below(10));
  stream.on('data', (chunk: Buffer) => (body += chunk.toString()));
  await until(() => stream.destroyed, `the end of ${path}`);
  return { status, body, isWhole: hasEnded && stream.rstCode === 0 };
}

for (const [name, url] of Object.entries({ tcp: plain.url, tls: overTls.url, http2: overTls.url }))
  t.test(`what clients take for whole is what was sent, over ${name}`, async (t) => {
    const counts = { whole: 0, refused: 0, broken: 0 };
    const wrong: string[] = [];
    const work = async (client: number) => {
      const random = createRandom(client);
      const session = name === 'http2' ? await openHttp2(t, url) : undefined;
      for (let i = 0; i < REQUESTS; i++) {
        const path = `/${random.pick(['one', 'two'])}/${name}/${client * REQUESTS + i}/${random.pick(KINDS)}/${random.pick(SIZES)}`;
        const got = session === undefined ? await get1(url, path, random) : await get2(session, path, random);
        const { kind, body } = planOf(path);
        const isSame = got.isWhole && got.status === 200 && got.body === body && kind === 'whole';
        const isRefused = got.isWhole && got.status === 502;
        counts[isSame ? 'whole' : isRefused ? 'refused' : 'broken'] += 1;
        // The end of an HTTP/2 connection breaks the other responses on it, too.
        const mayBreak = kind !== 'whole' || path.startsWith('/two/');
        if (isSame || (mayBreak && (isRefused || !got.isWhole))) continue;
        wrong.push(`${path}: ${got.status}, ${got.body.length} of ${body.length} bytes, ${got.isWhole ? 'whole' : 'broken'}`);
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, (_, client) => work(client)));
    t.same(wrong, []);
    for (const [what, count] of Object.entries(counts)) t.ok(count > 10, `${count} are ${what}`);
  }); // prettier-ignore
