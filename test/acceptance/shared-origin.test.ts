import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { directory, startFixture } from '../helpers/fixture.js';
import { exchange } from '../helpers/exchange.js';
import { PROXIES } from '../helpers/checks.js';
import { send, serveHttp } from '../helpers/http.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { forEachRow } from '../helpers/table.js';

const ROUTES = [
  { path: '/open/*', auth: 'none' },
  { path: '/app/worker.js', auth: 'none', service_worker: 'allow' },
  { path: '/hidden/*', auth: 'deny' },
];

/** How browsers request a service worker script, and other spellings of that. */
const ASKS: Record<string, string>[] = [
  { 'Service-Worker': 'script' },
  { 'service-worker': 'script' },
  { 'SERVICE-WORKER': 'SCRIPT' },
  { 'Service-Worker': 'script, script' },
  { 'Service-Worker': '' },
  { 'Service-Worker': 'anything' },
  { Service_Worker: 'script' },
  { 'Service.Worker': 'script' },
  { 'Sec-Fetch-Dest': 'serviceworker' },
  { 'Sec-Fetch-Dest': 'ServiceWorker' },
];
const HARMLESS: Record<string, string>[] = [
  {},
  { 'Sec-Fetch-Dest': 'script' },
  { 'Sec-Fetch-Dest': 'sharedworker' },
  { 'Service-Worker-Navigation-Preload': 'true' },
  { 'X-Service-Worker': 'script' },
];
const OWN = ['/_latchkey/', '/_latchkey/openapi.json', '/_latchkey/nothing', '/tokens'];
const DETAIL =
  'Service worker scripts are not served here; a route can allow them with service_worker: allow';

t.test('refuses service worker scripts at every entrance, unless the route allows them', async (t) => {
  const folder = temporaryFolder(t);
  const tls = selfSigned(folder, 'shared-origin');
  const secure = await startFixture(t, { routes: ROUTES, listen: { host: '127.0.0.1', port: 0, tls } });
  const plain = await startFixture(t, {
    routes: ROUTES,
    decision: { port: 0 },
    listen: { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] },
  });
  const http2 = await openHttp2(t, secure.url);
  const key = { 'Service-Key': await plain.token('superuser') };
  for (const headers of ASKS) {
    const told = JSON.stringify(headers);
    for (const path of ['/open/sw.js', '/anything.js', '/open/sw.js?x=1']) {
      const reply = await send(plain.url, path, { headers: { ...key, ...headers } });
      t.match(reply, { status: 400, json: { msg: 'Bad request', detail: DETAIL } }, `${path} ${told}`);
      t.equal((await send(plain.url, path, { headers })).status, 400, 'before checking a credential');
    }
    for (const path of OWN) t.match(await send(plain.url, path, { headers }), { status: /40[04]/ }, `${path} ${told}`);
    t.equal((await send(plain.url, '/hidden/sw.js', { headers })).status, 404);
    t.equal((await sendHttp2(http2, '/open/sw.js', { headers })).status, 400, `HTTP/2 ${told}`);
    t.equal((await send(plain.url, '/app/worker.js', { headers })).status, 200, 'allowed');
    for (const [proxy, ask] of Object.entries(PROXIES)) {
      const asked = { method: 'GET', headers };
      t.equal((await ask(plain.server.decision, { ...asked, target: '/open/sw.js' })).status, 403, `${proxy} ${told}`);
      t.equal((await ask(plain.server.decision, { ...asked, target: '/app/worker.js' })).status, 200, proxy);
    }
  }
  for (const headers of HARMLESS)
    t.equal((await send(plain.url, '/open/sw.js', { headers })).status, 200, JSON.stringify(headers));
  for (const { headers } of plain.upstream.received) t.equal(headers['service-worker-x'], undefined);
  t.notOk(
    plain.upstream.received.some(({ target, headers }) => target.startsWith('/open') && 'service-worker' in headers),
    'no request to the upstream',
  );

  const shown = await run(['explain', '--config', plain.configFile, '--method', 'GET', '--path', '/open/sw.js', '--header', 'Service-Worker: script', '--anonymous', '--json']);
  t.match(JSON.parse(shown.stdout), { verdict: { allowed: false, outcome: 'service_worker', status: 400, detail: DETAIL } });
}); // prettier-ignore

t.test('a WebSocket handshake does not bypass it', async (t) => {
  const { url } = await startFixture(t, { routes: ROUTES });
  const fields =
    'Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n';
  const reply = await exchange(url, `GET /open/sw.js HTTP/1.1\r\n${fields}Service-Worker: script\r\n\r\n`);
  t.equal(reply.status, 400);
});

t.test("a response never widens a service worker's scope, and caches keep scripts apart", async (t) => {
  const { url: base } = await serveHttp(t, (req, res) => {
    const type = new URL(req.url ?? '', 'http://a').searchParams.get('type') ?? 'text/plain';
    res.writeHead(200, ['Content-Type', type, 'Service-Worker-Allowed', '/', 'service-worker-allowed', '/x', 'Vary', 'Accept', 'Connection', 'Vary']);
    res.end('x');
  });
  const configFile = writeConfig(temporaryFolder(t), { upstream: base, routes: ROUTES }, await directory());
  const { url } = await start(t, configFile);
  for (const [path, widens, vary] of [
    ['/open/a?type=text/javascript', undefined, 'Service-Worker'],
    ['/open/a?type=Application/JavaScript;x=y', undefined, 'Service-Worker'],
    ['/open/a?type=text/jscript', undefined, 'Service-Worker'],
    ['/open/a?type=text/html', undefined, undefined],
    ['/app/worker.js?type=text/javascript', '/, /x', undefined],
  ] as const) {
    const { headers } = await send(url, path);
    t.equal(headers['service-worker-allowed'], widens, path);
    t.equal(headers.vary, vary, path);
  }
}); // prettier-ignore

t.test('a page on its own host is served only there, and no upstream is reachable on it', async (t) => {
  const host = 'Login.example:8443';
  const listen = { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] };
  const ui = { host, path: '/account/' };
  const fixture = await startFixture(t, { listen, interface: { ui }, default_route: { auth: 'none' } });
  const { url, upstream, configFile, create, login } = fixture;
  const status = async (method: string, path: string, headers: Record<string, string>) =>
    (await send(url, path, { method, headers })).status;
  const there: Record<string, string>[] = [
    { Host: 'login.example:8443' },
    { Host: 'LOGIN.example:8443' },
    { Host: 'api.example', 'X-Forwarded-Host': 'login.example:8443' },
  ];
  const elsewhere: Record<string, string>[] = [
    { Host: 'api.example' },
    { Host: 'login.example' },
    { Host: 'login.example.:8443' },
    { Host: 'xlogin.example:8443' },
    { Host: 'login.example:8443', 'X-Forwarded-Host': 'api.example' },
  ];
  const cookie = await login('superuser');
  for (const headers of there) {
    const told = JSON.stringify(headers);
    upstream.received.length = 0;
    t.equal(await status('GET', '/account/', headers), 200, told);
    t.equal(await status('GET', '/account', headers), 308, told);
    t.equal(await status('GET', '/account/session', { ...headers, Cookie: cookie }), 200, told);
    t.equal(await status('GET', '/tokens', { ...headers, Cookie: cookie }), 200, told);
    for (const path of ['/', '/billing', '/service/SVC1', '/sw.js', '/account/x', '/login/x'])
      t.equal(await status('GET', path, { ...headers, Cookie: cookie }), 404, `${path} ${told}`);
    t.equal(upstream.received.length, 0, 'nothing was forwarded');
  }
  for (const headers of elsewhere) {
    const told = JSON.stringify(headers);
    upstream.received.length = 0;
    for (const path of ['/account/', '/account', '/account/session', '/account/assets/x'])
      t.equal(await status('GET', path, headers), 200, `${path} ${told}`);
    t.equal(upstream.received.length, 4, 'they belong to the upstream');
    t.equal(await status('GET', '/tokens', { ...headers, Cookie: cookie }), 200, 'the token endpoints are served');
  }
  t.equal((await create('superuser')).status, 200);

  const explained = async (host: string) => {
    const args = ['--method', 'GET', '--path', '/account/', '--header', `Host: ${host}`, '--anonymous', '--json'];
    return JSON.parse((await run(['explain', '--config', configFile, ...args])).stdout).verdict;
  };
  t.match(await explained('login.example:8443'), { outcome: 'answer', endpoint: 'show_page' });
  t.match(await explained('api.example'), { outcome: 'forward' });
}); // prettier-ignore

t.test('check refuses an invalid host, or one with the default port of the scheme', async (t) => {
  const folder = temporaryFolder(t);
  const faults = await Promise.all(
    ['https://login.example', 'login.example/', 'login.example:443', 'a b', ''].map(async (host, i) => {
      const below = `${folder}/${i}`;
      const { mkdirSync } = await import('node:fs');
      mkdirSync(below);
      const file = writeConfig(below, { upstream: 'http://127.0.0.1:1', interface: { ui: { host } } });
      return run(['check', '--config', file]);
    }),
  );
  forEachRow(faults, ({ code, stderr }) => {
    t.equal(code, 1);
    t.match(stderr, /interface\.ui\.host: expected/);
  });
});
