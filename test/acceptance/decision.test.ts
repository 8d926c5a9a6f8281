import t from 'tap';
import { ADDRESSES, OVERRIDES } from '../../src/http/protected-fields.js';
import { type Ask, identityOf, PROXIES } from '../helpers/checks.js';
import { client, directory, LEGACY_KEY, OPEN_STATUS, startFixture } from '../helpers/fixture.js';
import { type Reply, send, sendRaw } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { startRedis } from '../helpers/redis.js';
import { matchLog, until, untilHourLasts } from '../helpers/until.js';

const ON = {
  decision: { host: '127.0.0.1', port: 0, grpc: { port: 0 } },
  listen: { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] },
};
const ROUTES = [
  { path: '/service/:service_id/purge_all', methods: ['POST'], action: 'purge:all', service: 'service_id' },
  { path: '/service/:service_id', action: 'service', service: 'service_id' },
  { path: '/service/:service_id/*', action: 'service', service: 'service_id' },
  { path: '/by-query/*', action: 'service', service: 'query:svc' },
  { path: '/by-field/*', action: 'service', service: 'header:X-Svc' },
  { path: '/purge/*', methods: ['POST'], action: 'purge:select' },
  { path: '/*', methods: ['PURGE'], action: 'purge:select' },
  { path: '/billing', action: 'billing' },
  { path: '/billing/*', action: 'billing' },
  { path: '/user/:user_id', methods: ['DELETE'], action: 'user', refuse_if_active_tokens: 'user_id' },
  { path: '/status', auth: 'none' },
  { path: '/read', methods: ['GET'], auth: 'none' },
  { path: '/hidden/*', auth: 'deny' },
]; // prettier-ignore
const fixture = await startFixture(t, { ...ON, routes: ROUTES });
const { url, server, upstream, token, login } = fixture;
const { decision } = server;
const forms = Object.entries(PROXIES);
const good = await token('superuser');
const session = await login('superuser');

const CREDENTIALS: Record<string, Record<string, string>> = {
  nobody: {},
  'a bad key': { 'Service-Key': 'bad' },
  'a bad key and a session': { 'Service-Key': 'bad', Cookie: session },
  'superuser token': { 'Service-Key': good },
  'engineer token': { 'Service-Key': await token('engineer') },
  'limited token': { 'Service-Key': await token('superuser', { service_id: 'SVC1' }) },
  'read token': { 'Service-Key': await token('superuser', { scope: 'global:read' }) },
  'purge token': { 'Service-Key': await token('superuser', { scope: 'purge_select' }) },
  'legacy key': { 'Service-Key': LEGACY_KEY },
  session: { Cookie: session },
  'session among cookies': { Cookie: `theme=dark; ${session}; lang=en` },
  'billing session': { Cookie: await login('billing') },
};
const TARGETS: [string, string][] = [
  ['GET', '/service/SVC1'], ['PUT', '/service/SVC1'], ['GET', '/service/SVC2/version?a=1'], ['HEAD', '/service/SVC2'],
  ['POST', '/service/SVC1/purge_all'], ['POST', '/purge/http://www.example.com/a?x=1'], ['PURGE', '/a/b'],
  ['GET', '/by-query/a?svc=SVC1'], ['GET', '/by-query/a?svc=SVC2&svc=SVC1'], ['GET', '/by-field/a'],
  ['GET', '/billing'], ['PATCH', '/billing/x'], ['DELETE', '/user/superuser'], ['DELETE', '/user/nobody'],
  ['GET', '/read'], ['HEAD', '/read'], ['PUT', '/read'], ['GET', '/caf%C3%A9/%E6%97%A5'], ['POST', '/purge/http://a/%EF%BC%9F%EF%BC%8Fa'],
  ['GET', '/status'], ['POST', '/status'], ['GET', '/hidden/x'], ['OPTIONS', '/anything'], ['GET', '/'],
]; // prettier-ignore
/** Targets that can be read in two ways, or not at all. */
const AMBIGUOUS: [string, string][] = [
  ['GET', '//service/SVC1'], ['GET', '/service//SVC1'], ['GET', '/service/%2e%2e/billing'], ['GET', '/service/SVC1/%2e/x'],
  ['GET', '/status;x=/../billing'], ['GET', '/billing;a=b'], ['GET', '/%62illing'], ['GET', '/service/SVC1%2fversion'],
  ['GET', '/a%00b'], ['GET', '/a%zz'], ['GET', '/a\\b'], ['POST', '/service/SVC1/purge_all/'], ['GET', `/a?${'q'.repeat(300)}`],
  ['GET', `/${'a'.repeat(8_200)}`], ['GET', '/x/%c0%ae%c0%ae/billing'], ['GET', '/service/SVC1/%e0%80%af'],
  ['GET', '/%EF%BD%82illing'], ['GET', '/billing%EF%BC%9Fx'], ['GET', '/x/%EF%BC%8E%EF%BC%8E/billing'], ['GET', '/a/%e2%80%a5/b'],
  ['GET', '/service/%EF%BC%B3VC1'], ['POST', '/service/SVC1/purge%EF%BC%BFall'],
]; // prettier-ignore

/** The status on the decision port for a status of the proxy. */
function asDecision(status: number): number {
  if (status < 300) return 200;
  return status === 401 ? 401 : 403;
}

t.test('each protocol decides like the proxy and describes the user alike', async (t) => {
  const seen = new Set<number>();
  const few = Object.entries(CREDENTIALS).filter(([who]) => ['nobody', 'limited token', 'session among cookies'].includes(who));
  for (const [i, [method, target]] of [...TARGETS, ...AMBIGUOUS].entries()) {
    // Of each target, a third of the credentials, and of each credential, a third of the targets.
    const some = Object.entries(CREDENTIALS).filter((_, j) => (i + j) % 3 === 0);
    for (const [who, headers] of TARGETS.some((row) => row[1] === target) ? some : few) {
      upstream.received.length = 0;
      const sent = { ...headers, 'X-Svc': 'SVC1', 'X-Auth-User-Id': 'spoofed', 'X-Auth-Services': 'spoofed' };
      const proxied = await send(url, target, { method, headers: sent });
      const [received] = upstream.received;
      const wanted = asDecision(proxied.status);
      seen.add(proxied.status);
      const identity = wanted === 200 ? identityOf(received?.headers ?? { none: 'received' }) : {};
      // A response to HEAD has no body; Envoy checks with the client's method.
      const text = (reply: Reply, proxy: string) => (method === 'HEAD' || wanted === 200 ? proxy !== 'Envoy' && wanted !== 200 : reply.text);
      const answers = await Promise.all(forms.map(async ([proxy, ask]) => {
        const reply = await ask(decision, { method, target, headers: sent });
        return { proxy, status: reply.status, identity: identityOf(reply.headers), text: text(reply, proxy) };
      }));
      const expected = forms.map(([proxy]) => ({ proxy, status: wanted, identity, text: text(proxied, proxy) }));
      t.same(answers, expected, `${method} ${target.slice(0, 60)} by ${who}`);
    }
  }
  t.same([...seen].toSorted((a, b) => a - b), [200, 400, 401, 403, 404, 414], 'the table covers every kind');
}); // prettier-ignore

t.test('an allowing response has no body, an id, and the fields to remove', async (t) => {
  const headers = { 'Service-Key': good, Cookie: 'theme=dark' };
  for (const [proxy, ask] of forms) {
    const reply = await ask(decision, { method: 'GET', target: '/service/SVC1', headers });
    t.equal(reply.text, '', proxy);
    t.match(reply.headers, { 'content-length': '0', 'cache-control': 'no-store', 'x-request-id': /^.{10,}$/ });
    t.equal(reply.headers['set-cookie'], undefined);
  }
  const removed = async (headers: Record<string, string>, target = '/x') => {
    const reply = await PROXIES.Envoy(decision, { method: 'GET', target, headers });
    t.equal(reply.status, 200);
    return String(reply.headers['x-envoy-auth-headers-to-remove']).split(',').toSorted();
  };
  const unwritten = [...OVERRIDES, ...ADDRESSES].filter((name) => !/^x-envoy-(?:internal|external-address)$/.test(name));
  const always = ['service-key', 'service-otp', 'x-auth-assertion', ...unwritten];
  const all = ['credential', 'customer-id', 'login', 'role', 'scope', 'services', 'token-id', 'user-id'].map((name) => `x-auth-${name}`);
  t.same(await removed(headers), [...always, 'x-auth-services'].toSorted());
  t.same(await removed({ Cookie: session }), [...always, 'cookie', 'x-auth-services', 'x-auth-token-id'].toSorted());
  t.same(await removed(CREDENTIALS['limited token'] ?? {}, '/service/SVC1'), [...always, 'cookie'].toSorted());
  t.same(await removed({ Cookie: session }, '/status'), [...always, ...all, 'cookie'].toSorted());
  for (const ask of [PROXIES.nginx, PROXIES.Traefik, PROXIES.Caddy]) {
    const reply = await ask(decision, { method: 'GET', target: '/x', headers });
    t.equal(reply.headers['x-envoy-auth-headers-to-remove'], undefined);
  }
}); // prettier-ignore

t.test('refuses a field that upstreams may take for an identity field', async (t) => {
  for (const name of ['X_Auth_User_Id', 'x.auth.user.id', 'X-Auth_Services', 'X_AUTH-ROLE']) {
    for (const [proxy, ask] of forms) {
      const reply = await ask(decision, { method: 'GET', target: '/status', headers: { [name]: 'x' } });
      t.equal(reply.status, 403, `${name}, ${proxy}`);
      t.match(reply.json, { msg: 'Bad request', detail: `the header ${name} can be mistaken for ${name.toLowerCase().replaceAll(/[_.]/g, '-')}, which clients may not set` });
    }
  }
  const other = await PROXIES.nginx(decision, { method: 'GET', target: '/status', headers: { x_auth_other: 'x' } });
  t.equal(other.status, 200);
}); // prettier-ignore

t.test('refuses a check that omits what it asks about, with a hint; logs this once', async (t) => {
  const ask = (path: string, headers: Record<string, string | string[]>) =>
    send(decision, path, { headers: { 'Service-Key': good, ...headers } });
  const nginx = ['X-Original-Method', 'X-Original-URI', 'proxy_set_header X-Original-'] as const;
  const traefik = ['X-Forwarded-Method', 'X-Forwarded-Uri', 'Traefik and Caddy set it; configure any other proxy to do so'] as const;
  for (const [path, [method, uri, hint]] of [['/auth-request', nginx], ['/forward-auth', traefik]] as const) {
    t.equal((await ask(path, { [method]: 'GET', [uri]: '/x' })).status, 200);
    const rows: [string, Record<string, string | string[]>][] = [
      [`the header ${method} is missing`, { [uri]: '/x' }],
      [`the header ${uri} is missing`, { [method]: 'GET' }],
      [`the header ${method} is empty`, { [method]: '', [uri]: '/x' }],
      [`the header ${uri} is empty`, { [method]: 'GET', [uri]: '' }],
      [`the header ${method} was sent more than once`, { [method]: ['GET', 'GET'], [uri]: '/x' }],
      [`the header ${uri} was sent more than once`, { [method]: 'GET', [uri]: ['/status', '/x'] }],
    ];
    for (const [fault, headers] of rows) {
      for (let i = 0; i < 3; i++) {
        const reply = await ask(path, headers);
        t.equal(reply.status, 403, fault);
        t.equal(reply.json.msg, 'The check request is incomplete');
        t.equal(reply.json.detail.startsWith(`${fault}; `), true, reply.json.detail);
        t.match(reply.json.detail, hint);
      }
      const lines = server.stdout().split('\n').filter((line) => line.includes(fault) && line.includes('misconfigured forward-auth proxy'));
      t.equal(lines.length, 1, 'one log message');
      t.match(lines[0] ?? '', '"level":40');
    }
  }
  for (const [method, uri] of [['get', '/x'], ['TRACE', '/x'], ['GET ', 'x'], ['GET', 'http://a/x'], ['GET', '/x#y'], ['GET', '/x y'], ['GET', '/\u00e4'], ['GET, GET', '/x']] as const) {
    const reply = await ask('/auth-request', { 'X-Original-Method': method, 'X-Original-URI': uri });
    t.equal(reply.status, 403, `${method} ${uri}`);
  }
}); // prettier-ignore

t.test('reads only the fields of the protocol in use', async (t) => {
  const open = { 'X-Original-Method': 'GET', 'X-Original-URI': '/status' };
  const shut = { 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': '/billing' };
  t.equal((await send(decision, '/forward-auth', { headers: { ...open, ...shut } })).status, 401);
  t.equal((await send(decision, '/auth-request', { headers: { ...open, ...shut } })).status, 200);
  t.equal((await send(decision, '/ext_authz/billing', { headers: { ...open } })).status, 401);
  t.equal((await send(decision, '/forward-auth', { headers: open })).status, 403);
  t.equal((await send(decision, '/forward-auth?X-Forwarded-Uri=/status', { headers: shut })).status, 401);
  t.equal((await send(decision, '/forward-auth?x=%zz//..', { headers: { ...shut, 'X-Forwarded-Uri': '/status' } })).status, 200);
}); // prettier-ignore

t.test('the decision port serves nothing else, and no other port serves checks', async (t) => {
  for (const path of ['/', '/ext_authz', '/ext_authzz/x', '/auth-request/', '/auth-request/x', '/forward%2dauth', '//auth-request', '/Forward-Auth', '/login', '/tokens/self', '/_latchkey/', '/metrics', '/healthz', '/service/SVC1', '*']) {
    const reply = await send(decision, path, { headers: { 'Service-Key': good, 'X-Original-Method': 'GET', 'X-Original-URI': '/x' } });
    t.equal(reply.status, 404, path);
    t.same(reply.json, { msg: 'Record not found', detail: 'the decision port serves /auth-request, /forward-auth, /ext_authz/*' });
  }
  const asked = { 'X-Original-Method': 'GET', 'X-Original-URI': '/status' };
  t.equal((await send(url, '/auth-request', { headers: asked })).status, 401, 'a path of the API on the public port');
  t.equal((await send(server.admin, '/auth-request', { headers: asked })).status, 404);
}); // prettier-ignore

t.test('never allows built-in endpoints, and runs nothing there', async (t) => {
  const victim = await token('superuser');
  const rows: [string, string, Record<string, string>][] = [
    ['POST', '/login', {}], ['POST', '/tokens', {}], ['GET', '/tokens', { Cookie: session }], ['GET', '/tokens/self', { 'Service-Key': victim }],
    ['DELETE', '/tokens/self', { 'Service-Key': victim }], ['POST', '/logout', { Cookie: session }], ['GET', '/customer/C1/tokens', { Cookie: session }],
    ['GET', '/_latchkey/', {}], ['GET', '/_latchkey/session', { Cookie: session }], ['GET', '/tokens', {}],
  ];
  for (const [method, target, headers] of rows) {
    for (const [proxy, ask] of forms) {
      const reply = await ask(decision, { method, target, headers });
      t.equal(reply.status, 403, `${method} ${target}, ${proxy}`);
      t.match(reply.json, { msg: 'This path is not decided here', detail: `Latchkey serves ${target} itself; make the proxy forward it to Latchkey's public listener (listen) without a check` });
    }
  }
  t.equal((await send(url, '/tokens/self', { headers: { 'Service-Key': victim } })).status, 200);
  t.equal((await send(url, '/tokens', { headers: { Cookie: session } })).status, 200);
  await matchLog(t, server, /"detail":"Latchkey serves \/login itself;[^\n]*misconfigured forward-auth proxy/);
}); // prettier-ignore

t.test('a check updates last use, records, audit log and metrics', async (t) => {
  const key = await token('engineer', { name: 'used' });
  const reply = await PROXIES.nginx(decision, { method: 'GET', target: '/service/SVC1?secret=1', headers: { 'Service-Key': key, 'User-Agent': 'curl/9' } });
  t.equal(reply.status, 200);
  const records = () => server.stdout().split('\n').filter((line) => line.includes('"msg":"request"')).map((line) => JSON.parse(line));
  await until(() => records().some((record) => record.request_id === reply.headers['x-request-id']), 'the record');
  t.match(records().find((record) => record.request_id === reply.headers['x-request-id']), {
    method: 'GET', path: '/service/SVC1', status: 200, outcome: 'allowed', route: '/service/:service_id', action: 'service:read',
    client: '203.0.113.9', user_id: 'engineer', credential: 'token', token_id: reply.headers['x-auth-token-id'],
  });
  const self = await send(url, '/tokens', { headers: { Cookie: session } });
  t.equal(self.status, 200);
  const used = async () => {
    const { json } = await send(url, `/tokens/${String(reply.headers['x-auth-token-id'])}`, { headers: { Cookie: session } });
    return json;
  };
  await until(async () => (await used()).ip === '203.0.113.9', 'the last use');
  t.match(await used(), { user_agent: 'curl/9', last_seen_at: /^20/ });

  const denied = await PROXIES.Envoy(decision, { method: 'GET', target: '/billing', headers: { 'Service-Key': key } });
  t.equal(denied.status, 403);
  t.match(denied.json, { detail: 'The role engineer is not allowed to perform billing:read' });
  const id = denied.headers['x-request-id'];
  await until(() => server.stdout().includes(`"request_id":"${String(id)}"`), 'the audit entry');
  const audit = server.stdout().split('\n').filter((line) => line.includes('"access.denied"')).map((line) => JSON.parse(line));
  t.match(audit.find((entry) => entry.request_id === id), { event: 'access.denied', reason: 'role', address: '203.0.113.9', action: 'billing:read', actor: { user_id: 'engineer' } });
  const metrics = (await send(server.admin, '/metrics')).text;
  t.match(metrics, /latchkey_requests_total\{route="[^"]+",outcome="allowed",status_class="2xx"\} \d/);
  t.match(metrics, /latchkey_requests_total\{route="[^"]+",outcome="malformed_check",status_class="4xx"\} \d/);
}); // prettier-ignore

t.test('requests by cookie must be same-origin, including WebSocket handshakes', async (t) => {
  const Host = 'api.example.com';
  const socket = { 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version': '13' };
  const rows: [string, Record<string, string>, number][] = [
    ['POST', {}, 200], ['POST', { Origin: 'https://api.example.com' }, 200], ['POST', { Origin: 'https://evil.example' }, 403],
    ['POST', { 'Sec-Fetch-Site': 'same-origin' }, 200], ['POST', { 'Sec-Fetch-Site': 'cross-site' }, 403], ['GET', { Origin: 'https://evil.example' }, 200],
    ['GET', { ...socket }, 200], ['GET', { ...socket, Origin: 'http://api.example.com' }, 200], ['GET', { ...socket, Origin: 'https://evil.example' }, 403],
    ['GET', { ...socket, 'Sec-Fetch-Site': 'same-site' }, 403],
  ];
  for (const [method, headers, status] of rows) {
    for (const [proxy, ask] of forms) {
      const reply = await ask(decision, { method, target: '/service/SVC1', headers: { Host, Cookie: session, ...headers } });
      t.equal(reply.status, status, `${method} ${JSON.stringify(headers)}, ${proxy}`);
      if (status === 403) t.match(reply.json, { detail: 'The request comes from another origin' });
    }
  }
  const byKey = await PROXIES.nginx(decision, { method: 'GET', target: '/x', headers: { ...socket, Origin: 'https://evil.example', 'Service-Key': good } });
  t.equal(byKey.status, 200, 'browsers never send a key by themselves');
}); // prettier-ignore

const HANDSHAKE = { 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==' };
/**
 * How each protocol learns of a request's Upgrade and framing: nginx under other names, the others
 * in the check's own fields.
 */
const TOLD: Record<string, (name: string) => string> = {
  nginx: (name) => `X-Original-${name}`,
  Traefik: (name) => name,
  Caddy: (name) => name,
  Envoy: (name) => name,
};
/** Checks an open route with exact bytes, because Node's own client does the framing itself. */
async function askTold(
  proxy: string,
  method: string,
  told: readonly (readonly [string, string])[],
  more: Record<string, string> = {},
) {
  const lines = [...told.map(([name, value]) => [TOLD[proxy]?.(name), value]), ...Object.entries(more)]
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('');
  const asks: Record<string, string> = {
    nginx: `GET /auth-request HTTP/1.1\r\nX-Original-Method: ${method}\r\nX-Original-URI: /status\r\n`,
    Envoy: `${method} /ext_authz/status HTTP/1.1\r\n`,
  };
  const about =
    asks[proxy] ??
    `GET /forward-auth HTTP/1.1\r\nX-Forwarded-Method: ${method}\r\nX-Forwarded-Uri: /status\r\n`;
  const body =
    proxy === 'nginx'
      ? ''
      : told.some(([name]) => name === 'Transfer-Encoding')
        ? '1\r\nx\r\n0\r\n\r\n'
        : told.some(([name, value]) => name === 'Content-Length' && value !== '0')
          ? 'x'
          : '';
  return sendRaw(decision, `${about}Host: a\r\nConnection: close, Upgrade\r\n${lines}\r\n${body}`, 2_000);
}

t.test('refuses a check with an Upgrade other than exactly websocket', async (t) => {
  const odd = '!#$%&\'*+-.^_`|~/,;:=()<>"@[]{} \t'.split('').flatMap((c) => [`websocket${c}x`, `x${c}websocket`, ...(/\s/.test(c) ? [] : [`websocket${c}`, `${c}websocket`])]);
  for (const [i, proxy] of Object.keys(TOLD).entries()) {
    const own = odd.filter((_, j) => (i + j) % 4 === 0);
    for (const upgrade of ['h2c', 'H2C', 'foo', 'TLS/1.0', 'HTTP/2.0', 'websocket, h2c', 'h2c, websocket', 'websocke', ...own]) {
      const answer = await askTold(proxy, 'GET', [['Upgrade', upgrade]], HANDSHAKE);
      t.match(answer, /^HTTP\/1\.1 403 [^]*Upgrade/, `${upgrade}, ${proxy}`);
    }
    for (const upgrades of [['websocket', 'h2c'], ['h2c', 'websocket'], ['websocket', 'websocket']])
      t.match(await askTold(proxy, 'GET', upgrades.map((value) => ['Upgrade', value]), HANDSHAKE), /^HTTP\/1\.1 403 /, `${upgrades.join()}, ${proxy}`);
    for (const upgrade of ['websocket', 'WebSocket', 'WEBSOCKET'])
      t.match(await askTold(proxy, 'GET', [['Upgrade', upgrade]], HANDSHAKE), /^HTTP\/1\.1 200 /, `${upgrade}, ${proxy}`);
    for (const more of [{}, { ...HANDSHAKE, 'Sec-WebSocket-Version': '8' }, { ...HANDSHAKE, 'Sec-WebSocket-Key': 'x' }])
      t.match(await askTold(proxy, 'GET', [['Upgrade', 'websocket']], more), /^HTTP\/1\.1 403 /, 'not a handshake');
    t.match(await askTold(proxy, 'POST', [['Upgrade', 'websocket']], HANDSHAKE), /^HTTP\/1\.1 403 /, 'a handshake must be a GET');
  }
}); // prettier-ignore

t.test('applies the body rules to the reported framing, and refuses framing that it cannot read', async (t) => {
  for (const proxy of Object.keys(TOLD)) {
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'DELETE']) {
      const wanted = ['GET', 'HEAD'].includes(method) ? /^HTTP\/1\.1 403 / : /^HTTP\/1\.1 200 /;
      t.match(await askTold(proxy, method, [['Content-Length', '1']]), wanted, `${method} with a length, ${proxy}`);
      t.match(await askTold(proxy, method, [['Transfer-Encoding', 'chunked']]), wanted, `${method} with chunks, ${proxy}`);
      t.match(await askTold(proxy, method, [['Content-Length', '0']]), /^HTTP\/1\.1 200 /, `${method} with no body, ${proxy}`);
      t.match(await askTold(proxy, method, []), /^HTTP\/1\.1 200 /, `${method}, ${proxy}`);
    }
    for (const told of [
      ...['x', '-1', '+1', '1, 1', '0x1', '1.0', '', '١', '1 1', '9'.repeat(30)].map((value) => [['Content-Length', value] as const]),
      ...['gzip', 'gzip, chunked', 'chunked, chunked', 'identity', 'xchunked', ''].map((value) => [['Transfer-Encoding', value] as const]),
      [['Content-Length', '1'], ['Content-Length', '1']], [['Content-Length', '0'], ['Transfer-Encoding', 'chunked']],
      [['Transfer-Encoding', 'chunked'], ['Transfer-Encoding', 'chunked']],
    ] as const) t.notMatch(await askTold(proxy, 'POST', told), /^HTTP\/1\.1 200 /, `${JSON.stringify(told)}, ${proxy}`);
  }
  const both = `GET /auth-request HTTP/1.1\r\nHost: a\r\nX-Original-Method: POST\r\nX-Original-URI: /status\r\nX-Original-Content-Length: 0\r\nContent-Length: 1\r\n\r\nx`;
  t.match(await sendRaw(decision, both), /^HTTP\/1\.1 403 /, 'conflicting framing is ambiguous');
  const client = { 'X-Original-Upgrade': 'h2c', 'X-Original-Content-Length': '0', 'X-Original-Transfer-Encoding': 'x' };
  for (const proxy of ['Traefik', 'Caddy', 'Envoy']) {
    t.match(await askTold(proxy, 'GET', [], client), /^HTTP\/1\.1 200 /, `fields from the client are ignored, ${proxy}`);
    t.match(await askTold(proxy, 'GET', [['Content-Length', '1']], client), /^HTTP\/1\.1 403 /, `fields from the client override nothing, ${proxy}`);
    t.match(await askTold(proxy, 'GET', [['Upgrade', 'h2c']], { ...client, 'X-Original-Upgrade': 'websocket' }), /^HTTP\/1\.1 403 /, proxy);
  }
}); // prettier-ignore

t.test('refuses a field with a protected prefix, unless the response can name it for removal', async (t) => {
  const ask = (proxy: string, name: string) => askTold(proxy, 'GET', [], { [name]: 'x' });
  for (const proxy of ['nginx', 'Traefik', 'Caddy']) {
    t.match(await ask(proxy, 'X-Forwarded-Anything'), /^HTTP\/1\.1 403 [^]*clients may not set the header X-Forwarded-Anything/, proxy);
    for (const name of ['X-Forwarded-Port', 'X-Forwarded-User', 'X-Forwarded-Prefix']) t.match(await ask(proxy, name), /^HTTP\/1\.1 200 /, `${name}, ${proxy}`);
  }
  t.match(await ask('Envoy', 'X-Forwarded-Anything'), /^HTTP\/1\.1 200 [^]*x-envoy-auth-headers-to-remove: [^\r]*x-forwarded-anything/);
}); // prettier-ignore

t.test('which check requests are valid', async (t) => {
  const asked = { 'X-Original-Method': 'POST', 'X-Original-URI': '/service/SVC1', 'Service-Key': good };
  for (const method of ['GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'OPTIONS']) {
    const reply = await send(decision, '/auth-request', { method, headers: asked });
    t.equal(reply.status, 200, method);
    t.equal(reply.headers['x-auth-user-id'], 'superuser');
  }
  t.equal((await send(decision, '/auth-request', { method: 'TRACE', headers: asked })).status, 403);
  t.equal((await send(decision, '/auth-request', { headers: asked, body: 'x'.repeat(300_000) })).status, 200, 'a body is not needed');
  const fields = Object.entries(asked).map(([name, value]) => `${name}: ${value}\r\n`).join('');
  const first = `POST /auth-request HTTP/1.1\r\nHost: a\r\n${fields}`;
  const smuggled = `GET /ext_authz/status HTTP/1.1\r\nHost: a\r\n\r\n`;
  const inBody = await sendRaw(decision, `${first}Content-Length: ${smuggled.length}\r\n\r\n${smuggled}`);
  t.equal(inBody.match(/HTTP\/1\.1 \d+/g)?.join(), 'HTTP/1.1 200', 'a body never becomes a request');
  for (const [what, bytes] of [
    ['two lengths', `${first}Content-Length: 1\r\nContent-Length: 2\r\n\r\nx`],
    ['length and chunks', `${first}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['another coding', `${first}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
    ['two hosts', `${first}Host: b\r\n\r\n`],
    ['two keys', `${first}Service-Key: ${good}\r\n\r\n`],
    ['not HTTP', 'what is this\r\n\r\n'],
    ['a bare line end', `${first}X: a\nY: b\r\n\r\n`],
    ['a head that is too large', `${first}X: ${'x'.repeat(20_000)}\r\n\r\n`],
    ['too many fields', `${first}${'X: x\r\n'.repeat(120)}\r\n`],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ] as const) {
    const answer = await sendRaw(decision, bytes);
    t.match(answer, /^HTTP\/1\.1 (?:403|404) /, what);
    t.notMatch(answer, /HTTP\/1\.1 200|X-Auth/i, what);
  }
  const old = await sendRaw(decision, `GET /auth-request HTTP/1.0\r\n${fields}\r\n`);
  t.match(old, /^HTTP\/1\.1 200 [\s\S]*X-Auth-User-Id: superuser/, 'nginx uses HTTP/1.0 by default');
  // Caddy passes a WebSocket upgrade on to the server that it asks.
  const upgrade = `GET /forward-auth HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n`;
  const about = (more: string) => `${upgrade}X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /x\r\n${more}\r\n`;
  const byKey = about(`Service-Key: ${good}\r\n`);
  const answers = await sendRaw(decision, byKey + byKey);
  t.equal(answers.match(/HTTP\/1\.1 200 OK/g)?.length, 2, 'both are answered');
  t.match(await sendRaw(decision, about(`Cookie: ${session}\r\nOrigin: http://evil.example\r\n`)), /^HTTP\/1\.1 403 /);
  t.match(await sendRaw(decision, about(`Cookie: ${session}\r\nOrigin: http://a\r\n`)), /^HTTP\/1\.1 200 /);
}); // prettier-ignore

t.test('counts writes across all ports, and denies while the store is unavailable', async (t) => {
  await untilHourLasts(60_000);
  const redis = await startRedis(t);
  const store = { store: { type: 'redis', url: redis.url, sealing_key: 'a1'.repeat(32) } };
  const { url, server, token } = await startFixture(t, { ...ON, ...store, routes: OPEN_STATUS, rate_limit: { writes_per_hour: 4 } });
  const headers = { 'Service-Key': await token('engineer') };
  const ask = (ask: Ask, method = 'PUT') => ask(server.decision, { method, target: '/service/SVC1', headers });
  const left = ({ headers }: Reply) => headers['service-ratelimit-remaining'];
  t.equal(left(await ask(PROXIES.nginx)), '3');
  t.equal(left(await send(url, '/service/SVC1', { method: 'PUT', headers })), '2');
  t.equal(left(await ask(PROXIES.Envoy)), '1');
  t.equal(left(await ask(PROXIES.Traefik)), '0');
  const over = await ask(PROXIES.Caddy);
  t.equal(over.status, 403, 'nginx would turn a 429 into an error');
  t.match(over.json, { msg: 'Too many requests', detail: 'The hourly limit of writes is reached' });
  t.match(over.headers, { 'retry-after': /^\d+$/, 'service-ratelimit-remaining': '0' });
  t.equal((await ask(PROXIES.nginx, 'GET')).status, 200);

  const all = () => Promise.all(forms.map(([, ask]) => ask(server.decision, { method: 'GET', target: '/x', headers })));
  t.same((await all()).map(({ status }) => status), [200, 200, 200, 200]);
  await redis.kill();
  await until(async () => (await all()).every(({ status }) => status === 503), 'refused');
  for (const reply of await all()) {
    t.match(reply.json, { msg: 'Service unavailable' });
    t.same(identityOf(reply.headers), {});
  }
  const open = await PROXIES.nginx(server.decision, { method: 'GET', target: '/status', headers: {} });
  t.equal(open.status, 200, 'a route without authentication needs no store');
  await redis.restart();
}); // prettier-ignore

t.test('workers share the port; a reload changes decisions; a drain closes the port', async (t) => {
  const folder = temporaryFolder(t);
  const base = { upstream: 'http://127.0.0.1:9', workers: 2, decision: ON.decision };
  const users = await directory();
  const server = await start(t, writeConfig(folder, base, users));
  const { token, login } = client(server.url);
  const headers = { 'Service-Key': await token('engineer') };
  const statuses = async () => {
    const replies = [];
    for (let i = 0; i < 8; i++) replies.push((await PROXIES.nginx(server.decision, { method: 'GET', target: '/new', headers })).status);
    return replies.join();
  };
  t.not(server.decision, server.url);
  t.equal(await statuses(), Array(8).fill(200).join());
  const answered = () => new Set(server.stdout().match(/"pid":\d+[^\n]*"outcome":"allowed"/g)?.map((line) => /\d+/.exec(line)?.[0]));
  await until(() => answered().size === 2, 'both workers answer');

  const bySession = { Cookie: await login('engineer'), Origin: 'http://api.example.com', Host: 'api.example.com' };
  const request = { method: 'POST', target: '/service/SVC1', headers: bySession };
  t.equal((await PROXIES.nginx(server.decision, request)).status, 200, "Host is the client's");
  t.equal((await PROXIES.Traefik(server.decision, request)).status, 403, "an untrusted peer's X-Forwarded-Host is ignored");
  t.notMatch(server.stdout(), '203.0.113.9', 'and its X-Forwarded-For');

  writeConfig(folder, { ...base, decision: { host: '127.0.0.1', port: 9 }, routes: [{ path: '/new', auth: 'deny' }] }, users);
  const reloaded = await send(server.admin, '/-/reload', { method: 'POST' });
  t.same(reloaded.json, { reloaded: true, needs_restart: ['decision'] });
  t.equal(await statuses(), Array(8).fill(403).join());

  const pid = Number(/"pid":(\d+)[^\n]*"outcome":"allowed"/.exec(server.stdout())?.[1]);
  process.kill(pid, 'SIGKILL');
  await until(() => /worker died/.test(server.stdout()), 'the worker exited');
  await until(async () => /latchkey_workers 2/.test((await send(server.admin, '/metrics')).text), 'another one serves');
  t.equal(await statuses(), Array(8).fill(403).join(), 'on the same port');
  t.same(await server.stop(), { code: 0, signal: null });
  await t.rejects(send(server.decision, '/auth-request'));
}); // prettier-ignore
