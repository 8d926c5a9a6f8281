import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { underWay } from '../helpers/counts.js';
import { startFixture } from '../helpers/fixture.js';
import { freshMetrics, send, serveHttp } from '../helpers/http.js';
import { openRaw, type RawClient } from '../helpers/raw-client.mjs';
import { pause, until } from '../helpers/until.js';
import { acceptOf } from '../helpers/wire.mjs';

/** Maximum connections to the upstream, and maximum requests waiting for one. */
const SIZE = 2;
const WAITING = 1;
const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';

type Behaviour = (req: IncomingMessage, socket: Duplex) => void;
const accept: Behaviour = (_req, socket) =>
  void socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${acceptOf(KEY)}\r\n\r\n`,
  );
const behaviours: Record<string, Behaviour> = {
  '/accept': accept,
  '/refuse': (_req, socket) => void socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n'),
  '/echo': (_req, socket) => void socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
  '/break': (_req, socket) => void socket.destroy(),
  '/silent': () => undefined,
  // Does not end by itself.
  '/deaf': accept,
  '/leave': (req, socket) => {
    accept(req, socket);
    setTimeout(() => socket.destroy(), 20);
  },
}; // prettier-ignore
let open = 0;
let deaf = 0;
const { url: upstreamUrl, server: upstream } = await serveHttp(t, (_req, res) => res.end('ok'));
upstream.on('connection', (socket: Socket) => {
  open += 1;
  socket.on('close', () => (open -= 1));
});
upstream.on('upgrade', (req, socket) => {
  socket.on('error', () => undefined);
  if (req.url !== '/deaf') socket.on('end', () => socket.end()).resume();
  behaviours[req.url ?? '']?.(req, socket);
});
const { url, token, server } = await startFixture(t, {
  upstream: undefined,
  upstreams: {
    api: { url: upstreamUrl, max_connections: SIZE, max_waiting: WAITING, wait_timeout: '3s', response_timeout: '2s', retries: 0 },
    // No host answers there, so a connection attempt lasts until its timeout.
    far: { url: 'http://192.0.2.1:9', max_connections: 1, max_waiting: 0, connect_timeout: '1s' },
  },
  routes: [{ path: '/far', action: 'api', upstream: 'far' }],
  default_route: { action: 'api', upstream: 'api' },
}); // prettier-ignore
const Key = await token('superuser');
const headers = { 'Service-Key': Key };
t.teardown(async () => void (await server.stop('SIGKILL')));

/** Requests a WebSocket. The response is in `text`. */
function ask(path: string): RawClient {
  const bytes =
    `GET ${path} HTTP/1.1\r\nHost: a\r\nService-Key: ${Key}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${KEY}\r\n\r\n`;
  return openRaw(url, { bytes });
}

async function status(asked: RawClient): Promise<string> {
  await until(() => asked.text().includes('\r\n\r\n'), 'a response');
  return asked.text().slice(9, 12);
}

t.test('open WebSockets use connections, and further requests wait in order', async (t) => {
  const taken = [ask('/accept'), ask('/accept')];
  for (const each of taken) t.equal(await status(each), '101');
  t.match(await freshMetrics(server.admin), /latchkey_upstream_active_requests\{upstream="api"\} 2/);
  const waiting = ask('/accept');
  await sleep(100);
  const full = ask('/accept');
  t.equal(await status(full), '503', 'the queue is full');
  t.match(full.text(), /Too many requests are waiting/);
  t.equal((await send(url, '/x', { headers })).status, 503, 'requests and WebSockets share one queue');
  t.equal(await status(waiting), '503', 'the wait is limited');
  t.match(waiting.text(), /waited too long/);
  t.match(waiting.text(), /retry-after: 1/i);
  t.equal(open, SIZE, 'no connection beyond the limit');
  const next = ask('/accept');
  await pause(100);
  t.equal(next.text(), '');
  taken[0]?.socket.destroy();
  t.equal(await status(next), '101', 'when one ends the next one starts');
  const gone = ask('/accept');
  await sleep(100);
  gone.socket.destroy();
  await sleep(100);
  const after = ask('/accept');
  await sleep(100);
  taken[1]?.socket.destroy();
  t.equal(await status(after), '101', 'a client that left keeps no place');
  for (const { socket } of [next, after]) socket.destroy();
  await until(async () => (await underWay(server.admin)).length === 0, 'nothing in flight');
});

t.test('releases the connection exactly once, whatever ends a handshake or a WebSocket', async (t) => {
  for (const path of Object.keys(behaviours)) {
    for (let i = 0; i < 2 * SIZE; i++) {
      const asked = ask(path);
      await status(asked);
      asked.socket.destroy();
      const left = ask(path);
      await sleep(i * 10);
      left.socket.resetAndDestroy();
    }
    await until(async () => (await underWay(server.admin)).length === 0, `${path}: nothing in flight`);
    t.same(await underWay(server.admin), [], path);
    // A peer that does not read never notices the end of its connection.
    if (path !== '/deaf') await until(() => open <= deaf, `${path}: its connections are closed`);
    else deaf = open;
  }
  const both = [ask('/accept'), ask('/accept')];
  for (const each of both) t.equal(await status(each), '101', 'no connection is lost');
  const third = ask('/accept');
  t.equal(await status(third), '503', 'none is gained');
  for (const { socket } of both) socket.destroy();
});

t.test('a connection attempt counts until it ends', async (t) => {
  const first = ask('/far');
  await sleep(200);
  first.socket.destroy();
  await sleep(50);
  const second = ask('/far');
  const answered = await status(second);
  if (answered === '502') {
    t.pass('192.0.2.1 is refused at once on this machine');
    return;
  }
  t.equal(answered, '503', 'its client left, the attempt continues');
  await until(async () => (await underWay(server.admin)).length === 0, 'it ends with connect_timeout');
});

t.test('a refused handshake does not keep its connection', async (t) => {
  const refused = [ask('/refuse'), ask('/echo')];
  t.same(await Promise.all(refused.map(status)), ['403', '502']);
  await until(() => refused.every(({ socket }) => socket.destroyed), 'their connections are closed');
  const silent = openRaw(url, { halfOpen: true, bytes: 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n' });
  const probe = setInterval(() => silent.write('x'), 500);
  await silent.closed;
  clearInterval(probe);
  t.pass('nor does one that its client keeps open');
});
