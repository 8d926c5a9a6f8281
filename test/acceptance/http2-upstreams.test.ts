import { type IncomingMessage, type ServerResponse } from 'node:http';
import {
  createSecureServer,
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  sensitiveHeaders,
} from 'node:http2';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { credentials, ServerCredentials, type ServiceError, status } from '@grpc/grpc-js';
import t from 'tap';
import { WebSocket } from 'ws';
import { selfSigned } from '../helpers/certificates.js';
import { LEGACY_KEY, startFixture } from '../helpers/fixture.js';
import { type EchoHandlers, metadataOf, openGrpc, said, startGrpc } from '../helpers/grpc-echo.js';
import { send, serveHttp } from '../helpers/http.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { startNghttpx } from '../helpers/nghttpx.js';
import { nightly } from '../helpers/nightly.js';
import { until } from '../helpers/until.js';

const folder = temporaryFolder(t);
const tls = selfSigned(folder, 'one');
const [cert, privateKey] = [readFileSync(tls.cert), readFileSync(tls.key)];
const key = { 'Service-Key': LEGACY_KEY };

/** The requests that reached the backend behind nghttpx. */
const arrived: {
  method?: string | undefined;
  url?: string | undefined;
  headers: IncomingMessage['headers'];
  body: string;
}[] = [];
const { url: backend } = await serveHttp(t, (req: IncomingMessage, res: ServerResponse) => {
  let body = '';
  req.on('data', (chunk: Buffer) => (body += chunk.toString()));
  req.on('end', () => {
    arrived.push({ method: req.method, url: req.url, headers: req.headers, body });
    if (req.url === '/empty') res.writeHead(204).end();
    else res.writeHead(200, { 'Content-Type': 'text/plain', 'Set-Cookie': ['a=1', 'service.session=evil', '\xa0service.session=evil', 'c=3; service.session=evil'] }).end(`${req.method} ${req.url} ${body.length}`);
  });
}); // prettier-ignore
const nghttpx = await startNghttpx(t, backend);

/** The health checks that reached each server. */
const checks: string[] = [];
/** The fields of other requests that HPACK must not index. */
const neverIndexed: unknown[] = [];
const listener = (req: Http2ServerRequest, res: Http2ServerResponse) => {
  if (req.url === '/healthz') checks.push(`${req.method} ${req.httpVersion}`);
  else neverIndexed.push((req.headers as Record<symbol, unknown>)[sensitiveHeaders]);
  res.writeHead(200);
  res.end('fine');
}; // prettier-ignore
const h2 = createSecureServer({ cert, key: privateKey }, listener);
const h2c = createServer(listener);
for (const server of [h2, h2c]) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  server.on('session', (session) => t.teardown(() => session.destroy()));
  t.teardown(() => server.close());
}
const portOf = (server: { address: () => unknown }) => (server.address() as AddressInfo).port;
const { url: old } = await serveHttp(t, (_, res) => void res.end('HTTP/1.1'));

const handlers: EchoHandlers = {
  Say: (call, callback) => callback(null, { text: call.request.text ?? '' }),
  Count: (call) => call.end(),
  Collect: (_, callback) => callback(null, {}),
  Chat: (call) => call.end(),
};
const grpc = await startGrpc(t, handlers, ServerCredentials.createInsecure());
const settings = {
  upstream: undefined,
  upstreams: {
    nghttpx: { url: `${nghttpx}/base`, protocol: 'h2c' },
    tls: { url: `https://127.0.0.1:${portOf(h2)}`, protocol: 'h2', tls: { ca: tls.cert }, health_check: { path: '/healthz', interval: '200ms' } },
    clear: { urls: [`http://127.0.0.1:${portOf(h2c)}`, old], protocol: 'h2c', health_check: { path: '/healthz', interval: '200ms' } },
    grpc: { url: `http://127.0.0.1:${grpc.port}`, protocol: 'h2c' },
  },
  routes: [
    { path: '/tls', action: 'api', upstream: 'tls' },
    { path: '/clear', action: 'api', upstream: 'clear' },
    { path: '/test.v1.Echo/*', action: 'api', upstream: 'grpc' },
  ],
  default_route: { action: 'api', upstream: 'nghttpx' },
}; // prettier-ignore
const plain = await startFixture(t, settings);
const secure = await startFixture(t, { ...settings, listen: { host: '127.0.0.1', port: 0, tls } });

t.test('forwards requests of both HTTP versions through nghttpx', async (t) => {
  const session = await openHttp2(t, secure.url);
  const big = 'x'.repeat(1_000_000);
  for (const [about, ask] of [
    ['HTTP/1.1', (path: string, sent: object) => send(plain.url, path, sent)],
    ['HTTP/2', (path: string, sent: object) => sendHttp2(session, path, sent)],
  ] as const) {
    const got = await ask('/a%20b?x=1', {
      headers: { ...key, 'X-Auth-Role': 'forged', 'X-Own': 'a', Cookie: 'a=1; service.session=x' },
    });
    t.match(got, { status: 200, text: 'GET /base/a%20b?x=1 0' }, about);
    t.strictSame(got.headers['set-cookie'], ['a=1']);
    const last = arrived.at(-1);
    t.match(last?.headers, { 'x-own': 'a', 'x-auth-role': 'superuser', te: 'trailers', cookie: 'a=1' });
    t.notMatch(last?.headers['service-key'], /./);
    t.match(await ask('/upload', { method: 'POST', headers: key, body: big }), { text: 'POST /base/upload 1000000' }, about);
    t.equal((await ask('/empty', { headers: key })).status, 200);
    t.equal((await ask('/x', { method: 'HEAD', headers: key })).text, '');
  }
}); // prettier-ignore

t.test('forwards many concurrent requests', nightly, async (t) => {
  const all = await Promise.all(Array.from({ length: 300 }, (_, i) => send(plain.url, `/n${i}`, { headers: key })));
  t.strictSame(all.map(({ text }) => text), all.map((_, i) => `GET /base/n${i} 0`));
}); // prettier-ignore

t.test('health checks use HTTP/2 and detect an address that does not', async (t) => {
  await until(() => checks.filter((each) => each === 'GET 2.0').length > 4, 'checks over HTTP/2');
  t.strictSame([...new Set(checks)], ['GET 2.0']);
  await until(() => plain.server.stdout().includes('upstream address unhealthy'), 'the failing address');
  for (let i = 0; i < 4; i++) t.equal((await send(plain.url, '/clear', { headers: key })).text, 'fine');
  t.equal((await send(plain.url, '/tls', { headers: key })).text, 'fine');
  t.strictSame(
    neverIndexed,
    Array.from({ length: 5 }, () => ['x-request-id']),
  );
});

t.test('refuses a WebSocket to an HTTP/2 upstream', async (t) => {
  const socket = new WebSocket(`${plain.url.replace('http', 'ws')}/x`, { headers: key });
  const [, answer] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
  t.equal(answer.statusCode, 400);
  socket.on('error', () => undefined).terminate();
});

t.test('loses no call while a gRPC server restarts between calls', async (t) => {
  const client = openGrpc(t, secure.url.replace('127.0.0.1', 'localhost'), credentials.createSsl(cert));
  const metadata = metadataOf({ 'service-key': LEGACY_KEY });
  let { server } = grpc;
  for (let i = 0; i < 3; i++) {
    t.match(await said(client, { text: `before ${i}` }, metadata), { text: `before ${i}` });
    await new Promise<void>((done) => server.tryShutdown(() => done()));
    const gone = (await said(client, { text: 'x' }, metadata)) as ServiceError;
    t.equal(gone.code, status.UNAVAILABLE);
    ({ server } = await startGrpc(t, handlers, ServerCredentials.createInsecure(), () => undefined, grpc.port)); // prettier-ignore
  }
  t.match(await said(client, { text: 'after' }, metadata), { text: 'after' });
});
