import type { IncomingMessage, ServerResponse } from 'node:http';
import { constants } from 'node:http2';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { negativeSeries, underWay } from '../helpers/counts.js';
import { startFixture } from '../helpers/fixture.js';
import { block, DATA, END_HEADERS, frame, FrameConnection, HEADERS, RST_STREAM, uint32 } from '../helpers/frames.js'; // prettier-ignore
import { freshMetrics, send, serveHttp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

/** Maximum connections to the upstream, and maximum requests waiting for one. */
const SIZE = 2;
const WAITING = 1;

const held: ServerResponse[] = [];
const behaviours: Record<string, (req: IncomingMessage, res: ServerResponse) => void> = {
  '/ok': (req, res) => void req.resume().on('end', () => res.end('ok')),
  '/hold': (req, res) => {
    req.resume();
    held.push(res);
  },
  '/early': (_req, res) => res.end('early'),
  '/begin': (req, res) => {
    req.resume();
    res.writeHead(200).write('begun');
  },
  '/break': (req) => req.socket.destroy(),
  '/half': (req, res) => {
    res.writeHead(200, { 'Content-Length': '10' }).write('half');
    setTimeout(() => req.socket.destroy(), 20);
  },
};
let arrived = 0;
const { url: upstreamUrl } = await serveHttp(t, (req, res) => {
  arrived += 1;
  behaviours[req.url ?? '']?.(req, res);
});

const api = { url: upstreamUrl, max_connections: SIZE, max_waiting: WAITING, wait_timeout: '300ms', idle_timeout: '500ms', retries: 0 }; // prettier-ignore
const config = { upstream: undefined, upstreams: { api } };
const tls = selfSigned(temporaryFolder(t), 'one');
const plain = await startFixture(t, config);
const secure = await startFixture(t, { ...config, listen: { host: '127.0.0.1', port: 0, tls } });
const keys = new Map([
  [plain, await plain.token('superuser')],
  [secure, await secure.token('superuser')],
]);
const keyOf = (fixture: typeof plain) => keys.get(fixture) ?? '';

/** What a client does to a request in flight. */
const ENDINGS: readonly [string, (write: (bytes: string) => void, socket: Socket) => void][] = [
  ['the rest of the body', (write) => write('x'.repeat(10))],
  ['nothing more', () => undefined],
  ['a reset', (_write, socket) => void ('encrypted' in socket ? socket.destroy() : socket.resetAndDestroy())],
  ['the end of the connection', (_write, socket) => void socket.end()],
  ['malformed bytes after it', (write) => write('xxxxxxxxxxGARBAGE\r\n\r\n')],
];
/** What an HTTP/2 client does. */
const RESETS: readonly [string, number | null][] = [
  ['NO_ERROR', constants.NGHTTP2_NO_ERROR],
  ['CANCEL', constants.NGHTTP2_CANCEL],
  ['INTERNAL_ERROR', constants.NGHTTP2_INTERNAL_ERROR],
  ['the end of the connection', null],
];

async function overHttp1(fixture: typeof plain, path: string, end: (typeof ENDINGS)[number][1]) {
  const { socket, write } = openRaw(fixture.url);
  write(
    `POST ${path} HTTP/1.1\r\nHost: a\r\nService-Key: ${keyOf(fixture)}\r\nContent-Length: 20\r\n\r\n${'x'.repeat(10)}`,
  );
  await sleep(60);
  if (!socket.destroyed) end(write, socket);
  await sleep(40);
  return socket;
}

async function overHttp2(t: Test, path: string, code: number | null) {
  const connection = await FrameConnection.open(t, secure.url);
  const fields = [[':method', 'POST'], [':scheme', 'https'], [':path', path], [':authority', 'a'], ['service-key', keyOf(secure)]] as const; // prettier-ignore
  connection.write(
    frame(HEADERS, END_HEADERS, 1, block(fields)),
    frame(DATA, 0, 1, Buffer.from('some of it')),
  );
  await sleep(60);
  // Node's own client ends the body instead of resetting with NO_ERROR.
  if (code !== null) connection.write(frame(RST_STREAM, 0, 1, uint32(code)));
  else connection.socket.destroy();
  await sleep(40);
  connection.socket.destroy();
}

/**
 * Checks that exactly the allowed number of requests is forwarded at once, and the others wait or
 * are refused.
 */
async function limitsHold(t: Test, fixture: typeof plain, about: string) {
  arrived = 0;
  held.length = 0;
  const headers = { 'Service-Key': keyOf(fixture) };
  let refused = 0;
  const replies = Array.from({ length: SIZE + WAITING + 2 }, async () => {
    const reply = await send(fixture.url, '/hold', { headers });
    refused += Number(reply.status === 503);
    return reply;
  });
  await until(() => arrived === SIZE && refused === WAITING + 2, `${about}: the others are refused`);
  t.equal(arrived, SIZE, `${about}: no more than max_connections`);
  for (const res of held) res.end('ok');
  const statuses = (await Promise.all(replies)).map(({ status }) => status).toSorted((a, b) => a - b);
  t.same(statuses, [200, 200, 503, 503, 503], about);
}

t.test('releases what a request held exactly once, however it ends', async (t) => {
  const paths = Object.keys(behaviours);
  t.ok(paths.length > 5);
  for (const path of paths) {
    arrived = 0;
    for (const [, end] of ENDINGS)
      for (const fixture of [plain, secure]) {
        const sockets = await Promise.all([1, 2].map(() => overHttp1(fixture, path, end)));
        for (const socket of sockets) socket.destroy();
      }
    for (const [, code] of RESETS) for (let i = 0; i < 2; i++) await overHttp2(t, path, code);
    for (const res of held.splice(0)) res.destroy();
    t.ok(arrived > 0, path);
  }
  for (const fixture of [plain, secure]) {
    await until(async () => (await underWay(fixture.server.admin)).length === 0, 'nothing in flight at rest');
    t.same(negativeSeries(await freshMetrics(fixture.server.admin)), []);
    await limitsHold(t, fixture, fixture === plain ? 'without TLS' : 'with TLS');
  }
});

t.test('six uploads reset with NO_ERROR do not change the limits', async (t) => {
  for (let i = 0; i < 6; i++) await overHttp2(t, '/hold', constants.NGHTTP2_NO_ERROR);
  await until(async () => (await underWay(secure.server.admin)).length === 0, 'nothing in flight at rest');
  await limitsHold(t, secure, 'after six resets');
});
