import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { METHODS } from '../../src/domain/methods.js';
import { stringify } from 'yaml';
import { selfSigned } from '../helpers/certificates.js';
import { client, directory, PASSWORD, startFixture } from '../helpers/fixture.js';
import { freshMetrics, type Reply, send, sendRaw, type Sent, serveHttp } from '../helpers/http.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { freePort } from '../helpers/free-port.mjs';
import { EVERY_CASE, nightly } from '../helpers/nightly.js';
import { until, untilHourLasts } from '../helpers/until.js';

const APP = 'https://app.example';
const PARTNER = 'http://partner.example:8081';
const EVIL = 'https://evil.example';
const CORS = { origins: [APP], headers: ['Content-Type', 'Service-Key'], expose: ['X-Request-Id', 'Retry-After'], credentials: true }; // prettier-ignore
const PREFLIGHT_VARY = 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers';

/**
 * The API sends CORS fields of its own, including a trailer; `/never` and `?hold` get no response.
 */
const asked: string[] = [];
const held: (() => void)[] = [];
const { url } = await serveHttp(t, (req, res) => {
  asked.push(`${req.method} ${req.url}`);
  req.resume();
  if (req.url === '/never' || req.url?.endsWith('?hold') === true) {
    held.push(() => res.destroy());
    return;
  }
  res.writeHead(req.method === 'OPTIONS' ? 200 : 201, {
    'Access-Control-Allow-Origin': '*',
    'access-control-allow-methods': 'TRACE',
    'Access-Control-Max-Age': '5',
    Vary: 'Accept-Encoding',
    Trailer: 'Access-Control-Allow-Origin, X-Sum',
  });
  res.addTrailers({ 'Access-Control-Allow-Origin': '*', 'X-Sum': '1' });
  res.end('{}');
});
const upstreams = {
  api: { url },
  dead: { url: `http://127.0.0.1:${await freePort()}`, retries: 0 },
  slow: { url, response_timeout: '300ms', retries: 0 },
  full: { url, max_connections: 1, max_waiting: 0, retries: 0 },
};
t.teardown(() => {
  for (const end of held) end();
});

const folder = temporaryFolder(t);
const base = {
  upstreams,
  listen: { host: '127.0.0.1', port: 0, tls: selfSigned(folder, 'localhost') },
  decision: { host: '127.0.0.1', port: 0 },
  limits: { head_fields: 20, target_size: '512B', body_size: '1KiB', body_timeout: '1s' },
  rate_limit: { writes_per_hour: 1 },
  routes: [
    { path: '/nothing', auth: 'deny' },
    { path: '/vault', action: 'billing' },
    { path: '/open/*', auth: 'none' },
    { path: '/get', methods: ['GET'], auth: 'none' },
    { path: '/own', auth: 'none', cors: { origins: [PARTNER], methods: ['GET'] } },
    { path: '/all', auth: 'none', cors: { origins: '*', expose: ['X-Sum'] } },
    { path: '/off', auth: 'none', cors: false },
    { path: '/mixed', methods: ['GET', 'POST'], auth: 'none' },
    { path: '/mixed', methods: ['PUT'], auth: 'none', cors: { origins: [PARTNER] } },
    { path: '/mixed', methods: ['DELETE'], auth: 'none', cors: false },
    { path: '/dead', auth: 'none', upstream: 'dead' },
    { path: '/never', auth: 'none', upstream: 'slow' },
    { path: '/full', auth: 'none', upstream: 'full' },
  ],
  default_route: { action: 'api', upstream: 'api' },
};
const configFile = writeConfig(folder, { ...base, cors: CORS }, await directory());
const server = await start(t, configFile);
const { token, login } = client(server.url);
const key = await token('superuser');
// A new hour would allow another write.
await untilHourLasts(60_000);
const spent = await token('engineer');
await send(server.url, '/a', { method: 'POST', headers: { 'Service-Key': spent } });
const cookie = await login('user');

const PROTOCOLS = {
  'HTTP/1.1': (path: string, sent: Sent = {}) => send(server.url, path, sent),
  'HTTP/2': async (path: string, sent: Sent = {}) => {
    const session = await openHttp2(t, server.url);
    return sendHttp2(session, path, sent).finally(() => session.close());
  },
};
type Ask = (path: string, sent?: Sent) => Promise<Reply>;

/** The CORS fields of a response. */
function corsOf({ headers }: Reply) {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('access-control-')));
}
const varyOf = ({ headers }: Reply) =>
  (headers.vary ?? '').split(',').map((name) => name.trim().toLowerCase());
const ALLOWED = {
  'access-control-allow-origin': APP,
  'access-control-allow-credentials': 'true',
  'access-control-expose-headers': 'X-Request-Id, Retry-After',
};

const JSON_BODY = { 'Content-Type': 'application/json' };
/** Every kind of refusal and response, with its status. Headers are added to those of the page. */
const ANSWERS: Record<string, readonly [status: number, path: string, sent?: Sent]> = {
  'an ambiguous path': [400, '/a/%c0%ae'],
  'a repeated field': [400, '/a', { headers: { 'Service-Key': ['a', 'b'] } }],
  'no credential': [401, '/a'],
  'another scope': [403, '/vault', { headers: { Cookie: cookie } }],
  'another origin, by cookie': [403, '/a', { method: 'POST', headers: { Cookie: cookie } }],
  'a login from another origin': [403, '/login', { body: new URLSearchParams({ user: 'user@example.com', password: PASSWORD }) }],
  nothing: [404, '/nothing'],
  'a built-in path with a method of the routes': [401, '/tokens', { method: 'PUT' }],
  'an unregistered method': [501, '/a', { method: 'BREW' }],
  'a long target': [414, `/${'a'.repeat(600)}`],
  'an unknown expectation': [417, '/a', { headers: { Expect: 'more' } }],
  'many fields': [431, '/a', { headers: Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`X-${i}`, 'a'])) }],
  'too many writes': [429, '/a', { method: 'POST', headers: { 'Service-Key': spent } }],
  'an unreachable upstream': [502, '/dead'],
  'a slow upstream': [504, '/never'],
  'a service worker script': [400, '/open/a', { headers: { 'Service-Worker': 'script' } }],
  'a body on GET': [400, '/open/a', { method: 'GET', body: 'a' }],
  'a built-in endpoint': [200, '/tokens/self', { headers: { 'Service-Key': key } }],
  'the web page': [200, '/_latchkey/'],
  'a response of the upstream': [201, '/open/a'],
  'a response to a credential': [201, '/a', { headers: { 'Service-Key': key } }],
  'OPTIONS that is not a preflight': [200, '/open/a', { method: 'OPTIONS' }],
  'a redirect to the page': [302, '/', { headers: { Accept: 'text/html' } }],
}; // prettier-ignore

const protocols = Object.entries(PROTOCOLS) as [string, Ask][];
for (const [protocol, ask] of EVERY_CASE ? protocols : protocols.slice(0, 1)) {
  t.test(`${protocol}: every response says whether the page may read it`, async (t) => {
    for (const [name, [status, path, sent = {}]] of Object.entries(ANSWERS)) {
      const from = async (origin?: string) =>
        ask(path, { ...sent, headers: { ...(origin === undefined ? {} : { Origin: origin }), ...sent.headers } });
      const reply = await from(APP);
      t.equal(reply.status, status, `${name}: ${reply.text}`);
      t.same(corsOf(reply), ALLOWED, name);
      t.ok(varyOf(reply).includes('origin'), `${name}: Vary`);
      for (const other of [undefined, EVIL, 'null', `${APP}/`, 'HTTPS://app.example', `${APP} ${EVIL}`]) {
        const refused = await from(other);
        t.same(corsOf(refused), {}, `${name}: from ${other}`);
        t.ok(varyOf(refused).includes('origin'), `${name}: Vary, from ${other}`);
      }
    }
  }); // prettier-ignore

  t.test(`${protocol}: refusals of bodies that are too large or malformed`, async (t) => {
    const body = 'a'.repeat(2_000);
    const large = await ask('/tokens', { body, headers: { Origin: APP, ...JSON_BODY, 'Sec-Fetch-Site': 'none' } });
    t.match([large.status, corsOf(large)], [413, ALLOWED]);
    const wrong = await ask('/tokens', { body: '{', headers: { Origin: APP, ...JSON_BODY, 'Sec-Fetch-Site': 'none' } });
    t.match([wrong.status, corsOf(wrong)], [400, ALLOWED]);
  }); // prettier-ignore

  t.test(`${protocol}: refusal by a busy upstream`, async (t) => {
    const count = held.length;
    const first = ask('/full?hold').catch(() => undefined);
    await until(() => held.length > count, 'the upstream has the request');
    const refused = await ask('/full', { headers: { Origin: APP } });
    t.match([refused.status, corsOf(refused)], [503, ALLOWED]);
    held.at(-1)?.();
    await first;
  });

  t.test(`${protocol}: answers preflights without a credential and without asking the upstream`, async (t) => {
    const preflight = (path: string, headers: Record<string, string | string[]>) =>
      ask(path, { method: 'OPTIONS', headers: { Origin: APP, 'Access-Control-Request-Method': 'GET', ...headers } });
    const allowed = (methods: string, headers = 'Content-Type, Service-Key') => ({
      'access-control-allow-origin': APP,
      'access-control-allow-credentials': 'true',
      'access-control-allow-methods': methods,
      'access-control-allow-headers': headers,
      'access-control-max-age': '600',
    });
    const every = METHODS.join(', ');
    asked.length = 0;
    const rows: [string, Record<string, string>, object][] = [
      ['/a', {}, allowed(every)],
      ['/a', { 'Access-Control-Request-Method': 'PURGE', 'Access-Control-Request-Headers': 'service-key,content-type' }, allowed(every)],
      ['/a', { 'Access-Control-Request-Headers': 'service-key,x-other' }, {}],
      ['/a', { 'Access-Control-Request-Method': 'BREW' }, {}],
      ['/a', { Origin: EVIL }, {}],
      ['/a', { Origin: 'null' }, {}],
      ['/a', { Origin: '' }, {}],
      ['/get', { 'Access-Control-Request-Headers': 'Service-Key' }, allowed('GET, HEAD')],
      ['/get', { 'Access-Control-Request-Method': 'HEAD' }, allowed('GET, HEAD')],
      // Other methods on this path belong to default_route.
      ['/get', { 'Access-Control-Request-Method': 'PUT' }, allowed(METHODS.slice(2).join(', '))],
      ['/mixed', { 'Access-Control-Request-Method': 'POST' }, allowed('GET, HEAD, POST')],
      ['/mixed', { 'Access-Control-Request-Method': 'PUT' }, {}],
      ['/mixed', { 'Access-Control-Request-Method': 'PUT', Origin: PARTNER }, { 'access-control-allow-origin': PARTNER, 'access-control-allow-methods': 'PUT', 'access-control-max-age': '600' }],
      ['/own', {}, {}],
      ['/own', { Origin: PARTNER }, { 'access-control-allow-origin': PARTNER, 'access-control-allow-methods': 'GET', 'access-control-max-age': '600' }],
      ['/own', { Origin: PARTNER, 'Access-Control-Request-Method': 'POST' }, {}],
      ['/own', { Origin: PARTNER, 'Access-Control-Request-Headers': 'service-key' }, {}],
      ['/all', { Origin: 'null', 'Access-Control-Request-Method': 'POST' }, { 'access-control-allow-origin': '*', 'access-control-allow-methods': every, 'access-control-max-age': '600' }],
      ['/tokens/self', { 'Access-Control-Request-Headers': 'service-key' }, allowed('GET, HEAD')],
      ['/tokens/self', { 'Access-Control-Request-Method': 'DELETE' }, allowed('DELETE')],
      ['/_latchkey/', {}, allowed('GET, HEAD')],
      ['/nothing', {}, allowed(every)],
    ];
    for (const [path, headers, fields] of rows) {
      const name = `${path} ${JSON.stringify(headers)}`;
      const reply = await preflight(path, headers);
      t.equal(reply.status, 204, name);
      t.same(corsOf(reply), fields, name);
      t.equal(reply.headers.vary, PREFLIGHT_VARY, name);
      t.equal(reply.text, '');
    }
    t.same(asked, [], 'the upstream was not asked');

    // Node's HTTP/2 client sends this field once.
    if (protocol === 'HTTP/1.1')
      t.equal((await preflight('/a', { 'Access-Control-Request-Method': ['GET', 'PUT'] })).status, 401, 'two methods');
    t.equal((await ask('/a', { method: 'OPTIONS', headers: { 'Access-Control-Request-Method': 'GET' } })).status, 401, 'no Origin');
    t.equal((await ask('/a', { method: 'POST', headers: { Origin: APP, 'Access-Control-Request-Method': 'GET' } })).status, 401, 'not OPTIONS');
    t.equal((await preflight('/a/%c0%ae', {})).status, 400);
    t.same(asked, []);
    t.equal((await preflight('/off', {})).status, 200);
    t.equal((await preflight('/mixed', { 'Access-Control-Request-Method': 'DELETE' })).status, 401, 'the default route accepts OPTIONS');
    t.same(asked, ['OPTIONS /off'], 'as without CORS');
  }); // prettier-ignore

  t.test(`${protocol}: replaces the upstream's CORS fields where cors is set, and otherwise keeps them`, async (t) => {
    const own = { 'access-control-allow-origin': '*', 'access-control-allow-methods': 'TRACE', 'access-control-max-age': '5' };
    for (const origin of [APP, EVIL]) {
      const reply = await ask('/off', { headers: { Origin: origin } });
      t.same([corsOf(reply), reply.headers.vary], [own, 'Accept-Encoding']);
    }
    const open = await ask('/open/a', { headers: { Origin: APP } });
    t.equal(open.headers.vary, 'Accept-Encoding, Origin');
    for (const origin of [APP, EVIL, PARTNER, undefined]) {
      const reply = await ask('/all', origin === undefined ? {} : { headers: { Origin: origin } });
      t.same(corsOf(reply), { 'access-control-allow-origin': '*', 'access-control-expose-headers': 'X-Sum' });
      t.equal(reply.headers.vary, 'Accept-Encoding', 'independent of the origin');
    }
    t.same(corsOf(await ask('/own', { headers: { Origin: PARTNER } })), { 'access-control-allow-origin': PARTNER });
    t.same(corsOf(await ask('/own', { headers: { Origin: APP } })), {});
  }); // prettier-ignore
}

t.test('counts and logs a preflight as such', async (t) => {
  const metrics = await freshMetrics(server.admin);
  t.match(metrics, /^latchkey_requests_total\{route="\/get",outcome="preflight",status_class="2xx"\} [1-9]/m);
  t.match(
    metrics,
    /^latchkey_requests_total\{route="\/",outcome="preflight_refused",status_class="2xx"\} [1-9]/m,
  );
  await until(() => /"outcome":"preflight"/.test(server.stdout()), 'its log record');
});

t.test('explain and check --expect predict what the server does with a preflight', nightly, async (t) => {
  const explain = async (path: string, ...fields: string[]) => {
    const headers = ['Access-Control-Request-Method: GET', ...fields].flatMap((each) => ['--header', each]);
    const args = ['explain', '--config', configFile, '--method', 'OPTIONS', '--path', path, '--anonymous', ...headers];
    return [(await run([...args, '--json'])).stdout, (await run(args)).stdout] as const;
  };
  const [json, text] = await explain('/get', `Origin: ${APP}`);
  t.match(JSON.parse(json), { route: { path: '/get' }, verdict: { allowed: true, outcome: 'preflight', status: 204 } });
  t.match(text, /verdict +204, answered by the CORS rules of the route/);
  t.match(JSON.parse((await explain('/get', `Origin: ${EVIL}`))[0]), { verdict: { allowed: false, outcome: 'preflight_refused', detail: /^cors does not/ } });
  t.match(JSON.parse((await explain('/off', `Origin: ${APP}`))[0]), { verdict: { outcome: 'forward' } });
  t.match(JSON.parse((await explain('/a'))[0]), { verdict: { outcome: 'unauthenticated' } });
  const preflight = (Origin: string, expect: string) => ({ method: 'OPTIONS', path: '/get', headers: { Origin, 'Access-Control-Request-Method': 'GET' }, as: 'anonymous', expect });
  writeFileSync(join(folder, 'expect.yaml'), stringify({ requests: [preflight(APP, 'allow'), preflight(EVIL, 'preflight_refused')] }));
  t.equal((await run(['check', '--config', configFile, '--expect', join(folder, 'expect.yaml')])).stderr.replace(/.*warning.*\n/g, ''), '');
}); // prettier-ignore

t.test('does not apply to WebSocket handshakes and the decision port', async (t) => {
  const handshake = { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==' };
  const refused = await send(server.url, '/a', { headers: { ...handshake, Origin: APP } });
  t.match([refused.status, corsOf(refused), refused.headers.vary], [401, {}, undefined]);
  for (const method of ['GET', 'OPTIONS']) {
    const headers = { Origin: APP, 'Access-Control-Request-Method': 'GET', 'X-Forwarded-Method': method, 'X-Forwarded-Uri': '/a' };
    const decided = await send(server.decision, '/forward-auth', { headers });
    t.match([decided.status, corsOf(decided), decided.headers.vary], [401, {}, undefined]);
  }
}); // prettier-ignore

t.test('repeated Origin fields and malformed bytes, on a plain-text port', async (t) => {
  const { url } = await startFixture(t, { cors: CORS, routes: [{ path: '/open', auth: 'none' }] });
  const ask = (lines: string, rest = '') => sendRaw(url, `${lines}\r\nHost: a\r\nConnection: close\r\n\r\n${rest}`);
  const two = await ask(`GET /a HTTP/1.1\r\nOrigin: ${APP}\r\nOrigin: ${APP}`);
  t.match(two, /^HTTP\/1\.1 400 /);
  t.match(two, /^Vary: Origin\r$/m);
  t.notMatch(two, /access-control/i);
  const preflight = await ask(`OPTIONS /a HTTP/1.1\r\nOrigin: ${APP}\r\nOrigin: ${APP}\r\nAccess-Control-Request-Method: GET`);
  t.match(preflight, /^HTTP\/1\.1 400 /);
  t.notMatch(preflight, /access-control/i);
  const body = await ask(`OPTIONS /a HTTP/1.1\r\nOrigin: ${APP}\r\nAccess-Control-Request-Method: GET\r\nContent-Length: 1`, 'a');
  t.match(body, /^HTTP\/1\.1 401 /, 'a preflight has no body');
  const chunk = await ask(`POST /login HTTP/1.1\r\nOrigin: ${APP}\r\nSec-Fetch-Site: none\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked`, 'zz\r\n');
  t.match(chunk, /^HTTP\/1\.1 400 /, 'a malformed body');
  t.match(chunk, `Access-Control-Allow-Origin: ${APP}\r\n`);
  t.match(chunk, /^Vary: Origin\r$/m);
  t.notMatch(await ask(`GET /a HTTP/9.9\r\nOrigin: ${APP}`), /access-control/i, 'a malformed request line');
}); // prettier-ignore

t.test('a reload enables and disables it', async (t) => {
  const fixture = await startFixture(t, {});
  const preflight = () => send(fixture.url, '/a', { method: 'OPTIONS', headers: { Origin: APP, 'Access-Control-Request-Method': 'GET' } });
  const reload = async (more: object) => {
    writeFileSync(fixture.configFile, stringify({ upstream: fixture.upstream.url, listen: { host: '127.0.0.1', port: 0 }, admin: { port: 0 }, directory: { file: './directory.yaml' }, ...more }));
    t.match((await send(fixture.server.admin, '/-/reload', { method: 'POST' })).json, { reloaded: true, needs_restart: [] });
  };
  const without = await preflight();
  t.match([without.status, corsOf(without), without.headers.vary], [401, {}, undefined], 'off by default');
  await reload({ cors: CORS });
  t.equal((await preflight()).headers['access-control-allow-origin'], APP);
  t.match(corsOf(await send(fixture.url, '/a', { headers: { Origin: APP } })), ALLOWED);
  await reload({ cors: { ...CORS, origins: [PARTNER] } });
  t.same(corsOf(await preflight()), {});
  await reload({});
  t.equal((await preflight()).status, 401);
}); // prettier-ignore

t.test('a page on its own host: each host answers by its own routes', async (t) => {
  const PAGE = 'login.example';
  const ui = { host: PAGE };
  const pages = { '/own': [404, APP], '/a': [404, APP], '/_latchkey/': [200, APP], '/tokens': [401, APP], '/a/%c0%ae': [400, APP] } as const;
  const others = { '/own': [201, PARTNER], '/a': [401, APP], '/_latchkey/': [401, APP], '/tokens': [401, APP], '/a/%c0%ae': [400, APP] } as const;
  const { tls: _tls, ...listen } = base.listen;
  const started = await start(t, writeConfig(temporaryFolder(t), { ...base, listen, decision: undefined, interface: { ui }, cors: CORS }));
  for (const [Host, paths] of [[PAGE, pages], ['api.example', others], [`${PAGE}:81`, others]] as const) {
    for (const [path, [status, allowed]] of Object.entries(paths)) {
      for (const Origin of [APP, PARTNER, EVIL, `http://${PAGE}`, 'null']) {
        const reply = await send(started.url, path, { headers: { Host, Origin } });
        t.equal(reply.status, status, `${Host}${path} from ${Origin}`);
        t.equal(corsOf(reply)['access-control-allow-origin'], Origin === allowed ? Origin : undefined, `${Host}${path} from ${Origin}`);
        t.ok(varyOf(reply).includes('origin'), `${Host}${path}: Vary`);
        const asks = { Host, Origin, 'Access-Control-Request-Method': 'GET' };
        const preflight = await send(started.url, path, { method: 'OPTIONS', headers: asks });
        if (path === '/a/%c0%ae') continue;
        t.equal(preflight.status, 204, `a preflight of ${Host}${path}`);
        t.equal(corsOf(preflight)['access-control-allow-origin'], Origin === allowed ? Origin : undefined, `a preflight of ${Host}${path} from ${Origin}`);
      }
    }
  }
  const without = await start(t, writeConfig(temporaryFolder(t), { ...base, listen, decision: undefined, interface: { ui } }));
  for (const Host of [PAGE, 'api.example']) {
    for (const path of ['/own', '/tokens', '/_latchkey/', '/nothing', '/a/%c0%ae']) {
      const reply = await send(without.url, path, { headers: { Host, Origin: PARTNER } });
      const expected = Host !== PAGE && path === '/own' ? PARTNER : undefined;
      t.equal(corsOf(reply)['access-control-allow-origin'], expected, `only the route has CORS: ${Host}${path}`);
    }
  }
}); // prettier-ignore
