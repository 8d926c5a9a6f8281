import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { decodeJwt } from 'jose';
import t from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import { selfSigned } from '../helpers/certificates.js';
import { PROXIES } from '../helpers/checks.js';
import { startFixture } from '../helpers/fixture.js';
import { listenOnLoopback, send } from '../helpers/http.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { rememberSecret } from '../helpers/secrets.js';

/** The latest request that reached the upstream. */
let arrived: IncomingMessage | undefined;
const upstream = createServer((req, res) => {
  arrived = req;
  req.resume();
  res.end('ok');
});
const sockets = new WebSocketServer({ server: upstream });
sockets.on('connection', (socket, req) => {
  arrived = req;
  socket.close();
});
const upstreamUrl = await listenOnLoopback(upstream);
t.teardown(() => {
  upstream.close();
  upstream.closeAllConnections();
});
const { cert, key } = selfSigned(temporaryFolder(t), 'latchkey');
const { url, server, token, login } = await startFixture(t, {
  upstream: undefined,
  upstreams: { api: { url: upstreamUrl }, below: { url: `${upstreamUrl}/base/v2/` } },
  listen: { host: '127.0.0.1', port: 0, tls: { cert, key }, trusted_proxies: ['127.0.0.1'] },
  decision: { host: '127.0.0.1', port: 0 },
  default_route: { action: 'api', upstream: 'api' },
  routes: [
    { path: '/status', auth: 'none' },
    { path: '/cut/off/*', action: 'api', strip_prefix: '/cut/off' },
    { path: '/below/*', action: 'api', upstream: 'below', strip_prefix: '/below' },
    { path: '/kept/*', action: 'api', upstream: 'below' },
  ],
  identity: {
    assertion: { enabled: true, issuer: 'https://auth.example.com', audience: 'api', bind: 'request' },
  },
});
const secret = await token('superuser');
const headers = { 'Service-Key': secret, 'X-Request-Id': 'of-the-client', 'X-Auth-Assertion': 'forged' };
const http2 = await openHttp2(t, url);

const digest = (text: string) => createHash('sha256').update(text, 'latin1').digest('base64url');
const claimsOf = (jwt: unknown) => {
  rememberSecret(String(jwt));
  return decodeJwt(String(jwt));
};

/** Each way to build the upstream target, with the result. */
const TARGETS = [
  ['/x', '/x'],
  ['/a%20b/%C3%A9/~x?q=1&q=%2F%2f&&=', '/a%20b/%C3%A9/~x?q=1&q=%2F%2f&&='],
  ['/x?=', '/x?='],
  ['/cut/off/a?b=/cut/off', '/a?b=/cut/off'],
  ['/below/a?b', '/base/v2/a?b'],
  ['/kept/a', '/base/v2/kept/a'],
] as const;

t.test('names the request that the upstream receives', async (t) => {
  for (const [target, expected] of TARGETS) {
    for (const [entrance, ask] of Object.entries({
      'HTTP/1.1': () => send(url, target, { method: 'POST', headers, body: 'x' }),
      'HTTP/2': () => sendHttp2(http2, target, { method: 'DELETE', headers }),
      'a session': async () => send(url, target, { headers: { Cookie: await login('superuser') } }),
      WebSocket: () =>
        new Promise<void>((resolve, reject) => {
          const socket = new WebSocket(`${url.replace('https', 'wss')}${target}`, { headers, rejectUnauthorized: false });
          socket.on('error', reject);
          socket.on('close', () => resolve());
        }),
    })) {
      arrived = undefined;
      await ask();
      const { method, url: received = '', headers: got } = arrived ?? ({} as IncomingMessage);
      t.equal(received, expected, `${entrance} ${target}`);
      t.match(claimsOf(got?.['x-auth-assertion']), { htm: method, htu: digest(received), rid: got?.['x-request-id'] }, `${entrance} ${target}`);
    }
  }
}); // prettier-ignore

t.test('names the checked request when another proxy forwards it', async (t) => {
  for (const [name, ask] of Object.entries(PROXIES)) {
    for (const [target] of TARGETS) {
      const asked = { method: 'DELETE', target, headers: { 'Service-Key': secret } };
      const { status, headers: got } = await ask(server.decision ?? '', asked);
      t.equal(status, 200, name);
      const expected = { htm: 'DELETE', htu: digest(target), rid: got['x-request-id'] };
      t.match(claimsOf(got['x-auth-assertion']), expected, `${name} ${target}`);
    }
  }
});

t.test('each request gets its own assertion, valid for a short time', async (t) => {
  const ids = new Set<unknown>();
  for (let i = 0; i < 3; i++) {
    await send(url, '/x', { headers });
    const { rid, iat = 0, exp = 0 } = claimsOf(arrived?.headers['x-auth-assertion']);
    t.ok(exp - iat <= 10, `${exp - iat} seconds`);
    ids.add(rid);
  }
  t.equal(ids.size, 3);
  t.notOk(ids.has('of-the-client'));
  await send(url, '/status', { headers });
  t.notMatch(arrived?.rawHeaders.join(), 'assertion', 'no assertion without a user');
});
