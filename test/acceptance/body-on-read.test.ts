import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { exchange } from '../helpers/exchange.js';
import { startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { run, temporaryFolder } from '../helpers/latchkey.js';

const READS = ['GET', 'HEAD'];
const routes = [
  { path: '/service/*', action: 'service' },
  { path: '/open/*', auth: 'none' },
  { path: '/closed/*', auth: 'deny' },
  { path: '/search/*', action: 'search', body_on_read: 'allow' },
];
const settings = { routes, default_route: { action: 'api' }, decision: { host: '127.0.0.1', port: 0 } };
const plain = await startFixture(t, settings);
const tls = selfSigned(temporaryFolder(t), 'one');
const secure = await startFixture(t, { ...settings, listen: { host: '127.0.0.1', port: 0, tls } });
const keys = [await plain.token('superuser'), await secure.token('superuser')];
const head = (method: string, target: string) =>
  `${method} ${target} HTTP/1.1\r\nHost: a\r\nService-Key: ${keys[0]}\r\n`;

const LENGTH = 'Content-Length: 5\r\n\r\nhello';
const CHUNKED = 'Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n';
const EMPTY_CHUNKED = 'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n';
const BODIES = { LENGTH, CHUNKED, EMPTY_CHUNKED };
/**
 * Routes with and without authentication, a denying one, default_route, built-in endpoints, the web
 * page.
 */
const PLACES = [
  '/service/S1',
  '/open/a',
  '/closed/a',
  '/',
  '/tokens/self',
  '/_latchkey/',
  '/.well-known/jwks.json',
];

t.test('refuses a body on GET and HEAD at every path of the public port', async (t) => {
  plain.upstream.received.length = 0;
  for (const method of READS)
    for (const place of PLACES)
      for (const [name, body] of Object.entries({ LENGTH, CHUNKED })) {
        const reply = await exchange(plain.url, head(method, place) + body, method === 'HEAD');
        t.match(reply, { status: 400 }, `${method} ${place} ${name}`);
        t.same(reply.all('connection'), ['close'], 'the following bytes are not a request');
      }
  t.equal(plain.upstream.received.length, 0);
});

t.test('refuses it over HTTP/2 too, with and without a length', async (t) => {
  secure.upstream.received.length = 0;
  const session = await openHttp2(t, secure.url);
  const headers = { 'Service-Key': keys[1] ?? '' };
  for (const method of READS)
    for (const place of PLACES)
      for (const more of [{}, { 'Transfer-Encoding': 'chunked' }]) {
        const sent = { method, body: 'hello', headers: { ...headers, ...more } };
        const status = await sendHttp2(session, place, sent).then((reply) => reply.status);
        t.equal(status, 400, `${method} ${place} ${JSON.stringify(more)}`);
      }
  t.equal(secure.upstream.received.length, 0);
  const empty = await sendHttp2(session, '/', { headers: { ...headers, 'content-length': '0' }, body: '' });
  t.equal(empty.status, 200, 'a length of 0 is no body');
});

t.test('refuses it on a WebSocket handshake, whatever the route allows', async (t) => {
  const handshake =
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
  for (const place of ['/service/S1', '/search/a'])
    for (const [name, body] of Object.entries(BODIES))
      t.equal(
        (await exchange(plain.url, head('GET', place) + handshake + body)).status,
        400,
        `${place} ${name}`,
      );
});

t.test('an empty body counts as none', async (t) => {
  for (const method of [...READS, 'OPTIONS'])
    for (const body of ['Content-Length: 0\r\n\r\n', EMPTY_CHUNKED]) {
      const reply = await exchange(plain.url, head(method, '/service/S1') + body, method === 'HEAD');
      t.equal(reply.status, 200, `${method} ${body}`);
    }
  t.equal((await exchange(plain.url, `${head('GET', '/tokens/self')}Content-Length: 0\r\n\r\n`)).status, 200);
});

t.test('a route may allow it; the upstream connection is then not reused', async (t) => {
  plain.upstream.received.length = 0;
  const ports = new Set<number | undefined>();
  let requests = 0;
  plain.upstream.server.on('request', (req) => {
    requests += 1;
    ports.add(req.socket.remotePort);
  });
  const rows = [...READS, 'OPTIONS', 'DELETE', 'PURGE'].flatMap((method) =>
    ([['LENGTH', LENGTH], ['CHUNKED', CHUNKED]] as const).map(([name, body]) => ({ method, name, body })),
  ); // prettier-ignore
  // Some servers leave chunks unread, whatever the method.
  for (const method of ['POST', 'PUT', 'PATCH']) rows.push({ method, name: 'CHUNKED', body: CHUNKED });
  for (const { method, name, body } of rows) {
    const reply = await exchange(plain.url, head(method, '/search/a') + body, method === 'HEAD');
    t.equal(reply.status, 200, `${method} ${name}`);
  }
  t.equal(ports.size, rows.length, 'each on its own connection');
  t.equal(requests, rows.length);
  for (const { method, headers, body } of plain.upstream.received)
    t.match({ headers, body }, { headers: { connection: 'close' }, body: 'hello' }, method);
  plain.upstream.received.length = 0;
  ports.clear();
  for (const method of ['POST', 'PUT', 'PATCH', 'POST'])
    await send(plain.url, '/search/a', { method, body: 'hello', headers: { 'Service-Key': keys[0] ?? '' } });
  t.equal(ports.size, 1, 'methods whose body every upstream reads keep the connection');
});

t.test('a body without a length over HTTP/2 ends the upstream connection too', async (t) => {
  const session = await openHttp2(t, secure.url);
  // The helper states the length unless it is told not to.
  for (const [length, connection] of [[{ 'Transfer-Encoding': 'chunked' }, 'close'], [{}, 'keep-alive']] as const) {
    secure.upstream.received.length = 0;
    const headers = { 'Service-Key': keys[1] ?? '', ...length };
    const { status } = await sendHttp2(session, '/service/S1', { method: 'POST', body: 'hello', headers });
    t.equal(status, 200);
    t.match(secure.upstream.received, [{ headers: { connection }, body: 'hello' }], connection);
  }
}); // prettier-ignore

t.test('the decision port refuses a check that reports a body', async (t) => {
  const { decision } = plain.server;
  const forms: [string, (method: string, target: string) => string][] = [
    ['/auth-request', (method, target) => `GET /auth-request HTTP/1.1\r\nHost: a\r\nX-Original-Method: ${method}\r\nX-Original-URI: ${target}\r\n`],
    ['/forward-auth', (method, target) => `GET /forward-auth HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: ${method}\r\nX-Forwarded-Uri: ${target}\r\n`],
    ['/ext_authz', (method, target) => `${method} /ext_authz${target} HTTP/1.1\r\nHost: a\r\n`],
  ]; // prettier-ignore
  const ask = async (lines: string, body: string, isHead = false) =>
    (await exchange(decision, `${lines}Service-Key: ${keys[0]}\r\n${body}`, isHead)).status;
  for (const [form, lines] of forms) {
    for (const method of READS) {
      const isHead = form === '/ext_authz' && method === 'HEAD';
      for (const [name, body] of Object.entries(BODIES))
        t.equal(await ask(lines(method, '/service/S1'), body, isHead), 403, `${form} ${method} ${name}`);
      t.equal(
        await ask(lines(method, '/service/S1'), 'Content-Length: 0\r\n\r\n', isHead),
        200,
        `${form} ${method}`,
      );
      t.equal(
        await ask(lines(method, '/search/a'), LENGTH, isHead),
        200,
        `${form} ${method} where it is allowed`,
      );
    }
    t.equal(
      await ask(lines('POST', '/service/S1'), LENGTH),
      200,
      `${form} POST, with a check that is itself a GET`,
    );
  }
});

t.test('explain reports it', async (t) => {
  const explain = async (path: string) => {
    const { stdout } = await run([
      'explain',
      '--config',
      plain.configFile,
      '--method',
      'GET',
      '--path',
      path,
      '--header',
      'Content-Length: 5',
      '--anonymous',
      '--json',
    ]);
    return (JSON.parse(stdout) as { verdict: { status: number | null; detail: string } }).verdict;
  };
  t.match(await explain('/open/a'), { status: 400, outcome: 'malformed', detail: /body_on_read/ });
  t.match(await explain('/search/a'), { status: 401 });
});
