import t from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import { startFixture } from '../helpers/fixture.js';
import { sendRaw, serveHttp } from '../helpers/http.js';
import { openRaw } from '../helpers/raw-client.mjs';

const upgrades: { url: string | undefined; headers: Record<string, unknown> }[] = [];
const requests: (string | undefined)[] = [];
const { url: upstreamUrl, server: upstream } = await serveHttp(t, (req, res) => {
  requests.push(req.url);
  res.end(
    JSON.stringify({
      upgrade: req.headers.upgrade,
      connection: req.headers.connection,
      settings: req.headers['http2-settings'],
    }),
  );
});
const sockets = new WebSocketServer({ noServer: true });
sockets.on('headers', (headers) =>
  headers.push(
    'Set-Cookie: service.session=evil',
    'Set-Cookie: \xa0service.session=evil',
    'Set-Cookie: a=b; service.session=evil',
    'X-Request-Id: evil',
  ),
);
upstream.on('upgrade', (req, socket, head) => {
  upgrades.push({ url: req.url, headers: req.headers });
  if (req.url === '/refused') {
    socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nSet-Cookie: service.session=evil\r\n\r\n');
    return;
  }
  sockets.handleUpgrade(req, socket, head, (ws) =>
    ws.on('message', (data, binary) => ws.send(data, { binary })),
  );
});
const { url, token, login } = await startFixture(t, { upstream: upstreamUrl });
const Key = await token('superuser');
const Cookie = await login('superuser');
const wsUrl = url.replace('http', 'ws');

function open(path: string, headers: Record<string, string>): Promise<WebSocket | number> {
  return new Promise((resolve, reject) => {
    const ws = new WebSocket(`${wsUrl}${path}`, { headers });
    ws.on('open', () => resolve(ws));
    ws.on('unexpected-response', (_req, res) => {
      res.resume();
      resolve(res.statusCode ?? 0);
    });
    ws.on('error', reject);
  });
}

t.test('an authorized WebSocket passes messages both ways, with identity but no credentials', async (t) => {
  const ws = await open('/service/SVC1/a//b?x=1', {
    'Service-Key': Key,
    'X-Auth-User-Id': 'evil',
    X_Auth_Role: 'evil',
    Cookie: `a=1; ${Cookie}`,
  });
  if (!(ws instanceof WebSocket)) throw new Error(`status ${ws}`);
  for (const message of ['hello', 'x'.repeat(200_000)]) {
    const answer = new Promise<string>((done) => ws.once('message', (data: Buffer) => done(data.toString())));
    ws.send(message);
    t.equal(await answer, message);
  }
  const seen = upgrades.at(-1);
  t.equal(seen?.url, '/service/SVC1/a//b?x=1', 'byte for byte');
  t.match(seen?.headers, { 'x-auth-user-id': 'superuser', 'x-auth-credential': 'token', cookie: 'a=1' });
  t.notMatch(JSON.stringify(seen?.headers), /evil|service-key|service\.session/i);
  const closed = new Promise((done) => ws.once('close', done));
  for (const client of sockets.clients) client.terminate();
  await closed;
  t.pass('the client is notified when the upstream closes');
});

t.test('refuses what requests are refused for, without asking the upstream', async (t) => {
  const before = upgrades.length;
  const purge = await token('superuser', { scope: 'purge_select' });
  const rows: [string, Record<string, string>, number][] = [
    ['no credential', {}, 401],
    ['bad key', { 'Service-Key': 'x' }, 401],
    ['scope', { 'Service-Key': purge }, 403],
    ['another origin with the session cookie', { Cookie, Origin: 'https://evil.example' }, 403],
  ];
  for (const [name, headers, status] of rows) t.equal(await open('/service/SVC1', headers), status, name);
  const tail = `Host: a\r\nService-Key: ${Key}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n`;
  const handshake = `${tail}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n`;
  for (const [name, bytes] of [
    ['a body', `GET /x HTTP/1.1\r\n${handshake}Content-Length: 5\r\n\r\nhello`],
    ['POST', `POST /x HTTP/1.1\r\n${handshake}\r\n`],
    ['another version', `GET /x HTTP/1.1\r\n${handshake.replace(': 13', ': 8')}\r\n`],
    ['no key', `GET /x HTTP/1.1\r\n${tail}Sec-WebSocket-Version: 13\r\n\r\n`],
    ['a built-in endpoint', `GET /tokens/self HTTP/1.1\r\n${handshake}\r\n`],
  ] as const) {
    t.match(await sendRaw(url, bytes), /^HTTP\/1\.1 400 /, name);
  }
  t.equal(upgrades.length, before);
  t.equal(
    typeof (await open('/service/SVC1', { Cookie })),
    'object',
    'a cookie without Origin does not come from a browser',
  );
});

t.test('a refused handshake or an unreachable upstream ends with a response', async (t) => {
  t.equal(await open('/refused', { 'Service-Key': Key }), 502);
});

t.test('bytes after the handshake wait for the 101', async (t) => {
  const handshake = `GET /refused HTTP/1.1\r\nHost: a\r\nService-Key: ${Key}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`;
  const before = requests.length;
  await sendRaw(url, `${handshake}GET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n`);
  t.equal(requests.length, before);
  const answer = await sendRaw(url, handshake.replace('/refused', '/x'));
  t.match(answer, /^HTTP\/1\.1 101 /);
  t.notMatch(answer, /evil/, 'the upstream cannot set the session cookie or the request id');
});

t.test('ignores another protocol in Upgrade and serves the request without it, body included', async (t) => {
  const h2c = `Host: a\r\nService-Key: ${Key}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n`;
  for (const bytes of [
    `GET /h2c HTTP/1.1\r\n${h2c}\r\n`,
    `POST /h2c HTTP/1.1\r\n${h2c}Content-Length: 5\r\n\r\nhello`,
  ]) {
    const answer = await sendRaw(url, bytes);
    t.match(answer, /^HTTP\/1\.1 200 /);
    t.notMatch(answer, /h2c|AAMAAABk/);
  }
  const { socket } = openRaw(url, { bytes: `GET /h2c HTTP/1.1\r\n${h2c.replace(Key, 'bad')}\r\n` });
  const first = await new Promise<Buffer>((done) => socket.once('data', done));
  t.match(first.toString(), /^HTTP\/1\.1 401 /, 'and authorized like any other');
  socket.destroy();
});
