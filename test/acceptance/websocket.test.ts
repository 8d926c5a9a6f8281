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
    socket.end(`HTTP/1.1 ${refusal}`);
    return;
  }
  sockets.handleUpgrade(req, socket, head, (ws) =>
    ws.on('message', (data, binary) => ws.send(data, { binary })),
  );
});
/** What the upstream responds to a handshake at `/refused`. */
let refusal = '';
const { url, token, login } = await startFixture(t, { upstream: upstreamUrl });
const Key = await token('superuser');
const Cookie = await login('superuser');
const wsUrl = url.replace('http', 'ws');

const handshakeTo = (path: string) =>
  `GET ${path} HTTP/1.1\r\nHost: a\r\nService-Key: ${Key}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`;

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

t.test('a handshake that the upstream refuses is passed on like any response', async (t) => {
  const odd = 'Set-Cookie: service.session=evil\r\nSet-Cookie: a=1\r\nX-Request-Id: evil\r\nConnection: keep-alive, X-Hop\r\nX-Hop: evil\r\nKeep-Alive: evil\r\n';
  const limit = 65_536;
  const rows: readonly [string, number, RegExp][] = [
    [`401 No Way\r\nWWW-Authenticate: NTLM\r\nWWW-Authenticate: Basic realm="x"\r\n${odd}Content-Length: 4\r\n\r\nwho?`, 401, /^HTTP\/1.1 401 No Way\r\nWWW-Authenticate: NTLM\r\nWWW-Authenticate: Basic realm="x"\r\nSet-Cookie: a=1\r\nX-Request-Id: [^\r]+\r\nConnection: close\r\nContent-Length: 4\r\n\r\nwho\?$/],
    ['403 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n', 403, /\r\nContent-Length: 2\r\n\r\nno$/],
    ['301 X\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n', 301, /\r\nLocation: \/elsewhere\r\n[^]*\r\nContent-Length: 0\r\n\r\n$/],
    ['426 X\r\nSec-WebSocket-Version: 13\r\n\r\nuntil the end', 426, /\r\nSec-WebSocket-Version: 13\r\n[^]*\r\n\r\nuntil the end$/],
    ['103 X\r\n\r\nHTTP/1.1 429 X\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n', 429, /\r\nRetry-After: 120\r\n/],
    [`503 X\r\nContent-Length: ${limit}\r\n\r\n${'x'.repeat(limit)}`, 503, /\r\nContent-Length: 65536\r\n\r\nx{65536}$/],
    // The client sees that the rest is missing.
    [`503 X\r\nContent-Length: ${limit + 1}\r\n\r\n${'x'.repeat(limit + 1)}`, 503, /\r\nTransfer-Encoding: chunked\r\n\r\n10000\r\nx{65536}$/],
    ['403 X\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n', 502, /malformed/],
    ['403 X\nContent-Length: 0\r\n\r\n', 502, /malformed/],
  ];
  for (const [bytes, status, wanted] of rows) {
    refusal = bytes;
    const about = bytes.slice(0, 60);
    t.equal(await open('/refused', { 'Service-Key': Key }), status, about);
    const answer = await sendRaw(url, handshakeTo('/refused'));
    t.match(answer, wanted, about);
    t.notMatch(answer, /evil/, about);
  }
}); // prettier-ignore

t.test('bytes after the handshake wait for the 101', async (t) => {
  const before = requests.length;
  await sendRaw(url, `${handshakeTo('/refused')}GET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n`);
  t.equal(requests.length, before);
  const answer = await sendRaw(url, handshakeTo('/x'));
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
