import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { startFixture } from '../helpers/fixture.js';
import { block, DATA, END_HEADERS, END_STREAM, frame, FrameConnection, HEADERS, PING, SETTINGS } from '../helpers/frames.js'; // prettier-ignore
import { freshMetrics, serveHttp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';
import { acceptOf } from '../helpers/wire.mjs';

const KEEP_ALIVE_MS = 3_000;
/** How late a timeout may fire: sweep intervals, and a busy machine. */
const LATE_MS = 4_000;
/** The time allowed for the rest of an unread body. */
const REST_MS = 10_000;
/** The time without data after which a WebSocket is closed that one side has left. */
const LEFT_MS = 5_000;
const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';

const { url: upstreamUrl, server: upstream } = await serveHttp(t, (req, res: ServerResponse) => {
  res.end('early');
  req.resume();
});
const config = {
  upstream: upstreamUrl,
  default_route: { auth: 'none' },
  routes: [{ path: '/x', auth: 'none' }],
  limits: { keep_alive: `${KEEP_ALIVE_MS}ms`, head_timeout: '20s' },
  decision: { host: '127.0.0.1', port: 0 },
};
const tls = selfSigned(temporaryFolder(t), 'one');
const plain = await startFixture(t, config);
const secure = await startFixture(t, { ...config, listen: { host: '127.0.0.1', port: 0, tls } });

/** A connection without ALPN, if it uses TLS. */
const open = (base: string) => openRaw(base, { tls: { ALPNProtocols: [] } }).socket;

/**
 * Milliseconds from the first response to the end of a connection on which `again` is written
 * repeatedly.
 */
async function endsAfter(socket: Socket, first: string, again: string, every: number): Promise<number> {
  let answered = 0;
  let ended = 0;
  socket.on('data', () => (answered ||= performance.now()));
  socket.on('close', () => (ended = performance.now()));
  socket.write(first);
  await until(() => answered > 0, 'the first response');
  const timer = setInterval(() => socket.writable && socket.write(again), every);
  await until(() => ended > 0, 'the connection ends', 30_000).finally(() => clearInterval(timer));
  return ended - answered;
}

t.test('blank lines do not keep a connection open', async (t) => {
  const get = 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n';
  const check =
    'GET /auth-request HTTP/1.1\r\nHost: a\r\nX-Original-Method: GET\r\nX-Original-URI: /x\r\n\r\n';
  const rows: [string, string, string, string][] = [
    ['the public port', plain.url, get, '\r\n'],
    ['the public port, half of a line break', plain.url, get, '\n'],
    ['the public port with TLS', secure.url, get, '\r\n'],
    ['the decision port', plain.server.decision, check, '\r\n'],
    ['nothing at all', plain.url, get, ''],
  ];
  const took = await Promise.all(
    rows.map(([, base, first, again]) => endsAfter(open(base), first, again, 300)),
  );
  for (const [i, ms] of took.entries()) {
    // A second blank line cannot start a request, and is refused at once.
    const least = rows[i]?.[3] === '' ? KEEP_ALIVE_MS * 0.6 : 0;
    t.ok(ms > least && ms < KEEP_ALIVE_MS + LATE_MS, `${rows[i]?.[0]}: ${ms}`);
  }
});

t.test('frames other than requests do not keep an HTTP/2 connection open', async (t) => {
  const fields = [[':method', 'GET'], [':scheme', 'https'], [':path', '/x'], [':authority', 'a']] as const; // prettier-ignore
  for (const [name, again] of [
    ['PING', frame(PING, 0, 0, Buffer.alloc(8))],
    ['SETTINGS', frame(SETTINGS, 0, 0)],
  ] as const) {
    const connection = await FrameConnection.open(t, secure.url);
    connection.write(frame(HEADERS, END_HEADERS | END_STREAM, 1, block(fields)));
    await until(() => connection.outcome() === 200, name);
    const since = performance.now();
    const timer = setInterval(() => connection.write(again), 300);
    await until(() => connection.ended, name, 20_000).finally(() => clearInterval(timer));
    const ms = performance.now() - since;
    t.ok(ms < KEEP_ALIVE_MS + LATE_MS, `${name}: ${ms}`);
  }
});

t.test('a connection with regular requests stays open', async (t) => {
  const uses = [plain, secure].map(async ({ url }) => {
    const socket = open(url);
    let answers = 0;
    socket.on('data', (data: Buffer) => (answers += data.toString().split('HTTP/1.1 200').length - 1));
    for (let i = 1; i <= 5; i++) {
      socket.write('\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n');
      await sleep(KEEP_ALIVE_MS / 3);
      await until(() => answers === i || socket.destroyed, 'a response');
    }
    t.equal(answers, 5, url);
    socket.destroy();
  });
  await Promise.all(uses);
});

t.test('a slow upload after its response is limited in time', async (t) => {
  const post = 'POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nx';
  const check = post
    .replace('/x', '/auth-request')
    .replace('Host', 'X-Original-Method: POST\r\nX-Original-URI: /x\r\nHost');
  const bases: [string, string, string][] = [
    ['without TLS', plain.url, post],
    ['with TLS', secure.url, post],
    ['of a check', plain.server.decision, check],
  ];
  const took = await Promise.all(bases.map(([, base, first]) => endsAfter(open(base), first, 'x', 1_000)));
  for (const [i, ms] of took.entries()) t.ok(ms < REST_MS + LATE_MS, `${bases[i]?.[0]}: ${ms}`);

  const connection = await FrameConnection.open(t, secure.url);
  const fields = [[':method', 'POST'], [':scheme', 'https'], [':path', '/x'], [':authority', 'a']] as const; // prettier-ignore
  connection.write(frame(HEADERS, END_HEADERS, 1, block(fields)));
  const timer = setInterval(() => connection.write(frame(DATA, 0, 1, Buffer.from('x'))), 500);
  await until(() => connection.find(3, 1) !== undefined || connection.ended, 'the stream ends', 20_000).finally(() => clearInterval(timer)); // prettier-ignore
  t.pass('over HTTP/2 the stream is reset');
});

t.test('a WebSocket that its client left gives back its connection, even if its upstream does not end', async (t) => {
  let leftAt = 0;
  upstream.once('upgrade', (_req, socket) => {
    t.teardown(() => socket.destroy());
    socket.on('end', () => (leftAt = performance.now())).resume();
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${acceptOf(KEY)}\r\n\r\n`);
  });
  const bytes = `GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${KEY}\r\n\r\n`;
  const client = openRaw(plain.url, { bytes });
  const held = async () => /^latchkey_upstream_active_requests\{upstream="api"\} (\d+)$/m.exec(await freshMetrics(plain.server.admin))?.[1];
  await until(() => client.text().includes(' 101 '), 'the WebSocket is open');
  t.equal(await held(), '1');
  client.socket.end();
  await until(async () => (await held()) === '0', 'the connection is given back');
  const ms = performance.now() - leftAt;
  t.ok(leftAt > 0 && ms > LEFT_MS * 0.6 && ms < LEFT_MS + LATE_MS, `${ms}`);
}); // prettier-ignore
