import { createServer, type IncomingMessage } from 'node:http';
import { createServer as createHttp2 } from 'node:http2';
import t from 'tap';
import type { DoctorOptions } from '../../src/doctor/check.js';
import { foldName } from '../../src/http/protected-fields.js';
import { deployment, diagnose, type Fault, found, KEY, listenOn, startFaulty } from './deployments.js';
import { EVERY_CASE, nightly } from '../helpers/nightly.js';

/** Header fields by the name that a gateway folds all spellings to. */
function folded(req: IncomingMessage): Map<string, string> {
  const fields = new Map<string, string>();
  for (let i = 0; i < req.rawHeaders.length; i += 2)
    fields.set(foldName(req.rawHeaders[i] ?? ''), req.rawHeaders[i + 1] ?? '');
  return fields;
}

/** An API that echoes the fields it receives, except those a careless proxy in front removes. */
const showing = (leaves: (name: string) => boolean): NonNullable<Fault['api']> => (req, res) => {
  const names = Object.keys(req.headers).filter((name) => leaves(name));
  res.end(JSON.stringify(Object.fromEntries(names.map((name) => [name, req.headers[name]]))));
}; // prettier-ignore

const path = (req: IncomingMessage) => req.url ?? '';
const field = (req: IncomingMessage, name: string) => String(req.headers[name] ?? '');
const reads = (to: RegExp) => (req: IncomingMessage) => to.test(path(req));
const isKnown = (req: IncomingMessage) => req.headers['service-key'] === KEY;
const normalized = (req: IncomingMessage) => new URL(path(req).replace(/^\/+/, '/'), 'http://x').pathname;
const spellings = (req: IncomingMessage, name: string) =>
  req.rawHeaders.filter((each, i) => i % 2 === 0 && foldName(each) === name);

/** An API that echoes some header fields. */
const shows = (...names: string[]): NonNullable<Fault['api']> => (req, res) =>
  res.end(JSON.stringify(Object.fromEntries(names.map((name) => [name, req.headers[name]])))); // prettier-ignore

/** Deployments that are broken on purpose, each with the expected findings. */
const CASES: Record<string, readonly [fault: Fault, expected: readonly string[]]> = {
  'no credential is required': [{ lets: () => true }, ['authentication serious']],
  'one path is open': [{ lets: reads(/^\/service\/S1$/) }, ['authentication serious']],
  'unknown paths are open': [{ lets: reads(/^\/latchkey-doctor/) }, ['authentication warning']],
  'a role from the client is trusted': [{ lets: (req) => req.headers['x-auth-role'] === 'superuser' }, ['identity-headers serious']],
  'a role is trusted in every spelling but its own': [
    { lets: (req) => req.headers['x-auth-role'] === undefined && folded(req).has('x-auth-role') },
    ['identity-headers serious'],
  ],
  'an API on a public path echoes one forged field with _': [{ api: showing((name) => name === 'x_auth_login') }, ['identity-headers serious']],
  'an API on a public path greets a superuser': [
    { api: (req, res) => res.end(folded(req).get('x-auth-role') === 'superuser' ? 'hello, superuser' : 'hello') },
    ['identity-headers serious'],
  ],
  'an API echoes a forged trailer': [
    { api: (req, res) => req.resume().on('end', () => res.end(JSON.stringify(req.trailers))) },
    ['identity-headers serious'],
  ],
  'X-Original-URL decides': [{ lets: (req) => req.headers['x-original-url'] === '/status' }, ['overrides serious']],
  'X_Rewrite_URL reaches the API': [{ api: showing((name) => name === 'x_rewrite_url') }, ['overrides serious']],
  'the API obeys X-HTTP-Method-Override': [
    {
      api: (req, res) => {
        const method = req.headers['x-http-method-override'] ?? req.method;
        res.writeHead(method === 'GET' ? 200 : 405).end(method === 'GET' ? 'hello' : 'not allowed');
      },
    },
    ['overrides serious'],
  ],
  'an overridden OPTIONS needs no credential': [{ lets: (req) => req.headers['x-method-override'] === 'OPTIONS' }, ['overrides serious']],
  'dot segments are resolved after the decision': [{ lets: reads(/^\/status\/\.\.\//) }, ['paths serious']],
  'a path parameter hides dot segments': [{ lets: reads(/\.\.;/) }, ['paths serious']],
  'an encoded slash': [{ lets: reads(/%2f/i) }, ['paths serious']],
  'a double slash': [{ lets: reads(/^\/\//) }, ['paths serious']],
  'a backslash': [{ lets: reads(/\\/) }, ['paths serious']],
  'upper case': [{ lets: reads(/^\/SERVICE/) }, ['paths serious']],
  'files need no credential': [{ lets: reads(/\.css$/) }, ['paths serious']],
  'the absolute form': [{ lets: reads(/^http:/) }, ['paths serious']],
  'a trailing dot': [{ lets: reads(/S1\.$/) }, ['paths serious']],
  'OPTIONS reaches the API': [{ lets: (req) => req.method === 'OPTIONS' }, ['options serious']],
  'metrics are public': [
    { before: (req, res) => path(req) === '/metrics' && res.end('latchkey_up 1\n') !== undefined },
    ['admin-port serious'],
  ],
  'decisions are public': [
    {
      before: (req, res) => {
        if (path(req) !== '/auth-request') return false;
        res.writeHead(403, { 'Content-Type': 'application/json', 'X-Request-Id': 'r1' });
        res.end('{"msg":"The check request is incomplete"}');
        return true;
      },
    },
    ['decision-port serious'],
  ],
  'a cookie without SameSite and a slightly slow clock': [
    {
      before: (_req, res) => {
        res.setHeader('Date', new Date(Date.now() - 30_000).toUTCString());
        res.setHeader('Set-Cookie', 'service.session=x; Secure; HttpOnly');
        return false;
      },
    },
    ['cookies serious', 'clock warning'],
  ],
}; // prettier-ignore

/** What the suite tries, one in so many; `npm run nightly` tries all. */
const oneIn = <Case>(count: number, cases: Record<string, Case>) =>
  Object.entries(cases).filter((_, i) => EVERY_CASE || i % count === 0);

for (const [name, [fault, expected]] of oneIn(4, CASES)) {
  t.test(name, async (t) => {
    const checks = expected.map((each) => each.split(' ', 1)[0] ?? '');
    const report = await diagnose(await startFaulty(t, fault), { checks });
    t.same(found(report), expected, { findings: report.findings });
  });
}

const withKey = { key: KEY };

/** Deployments with a fault that few probes reveal: the check that detects it, and the result. */
const OF_ONE_CHECK: Record<string, readonly [check: string, fault: Fault, expected: string, more?: Partial<DoctorOptions>]> = {
  'a login redirect hides an open file suffix': [
    'paths',
    {
      before: (req, res) => {
        if (path(req) === '/status' || path(req).endsWith('.css')) return false;
        res.writeHead(302, { Location: `/login?rd=${encodeURIComponent(path(req))}` }).end();
        return true;
      },
      lets: reads(/\.css$/),
    },
    'serious',
  ],
  "an open suffix that only the API's 404 reveals": [
    'paths',
    { lets: reads(/\.png$/), api: (req, res) => res.writeHead(path(req) === '/status' ? 200 : 404, { 'Content-Type': 'application/json' }).end('{}') },
    'warning',
  ],
  'a prefix that is exempt before dot segments are resolved': [
    'paths',
    { lets: (req) => path(req).startsWith('/static/') && normalized(req) === '/service/S1' },
    'serious',
  ],
  'decides on the normalized path and forwards the original': [
    'paths',
    { lets: (req) => normalized(req) === '/status', api: (req, res) => res.end(path(req).startsWith('/service') ? 'secret' : 'hello') },
    'serious',
  ],
  'a proxy that normalizes for everyone': ['paths', { lets: (req) => normalized(req) === '/status' }, 'ok'],
  'a separate site below /docs/': [
    'paths',
    { lets: reads(/^\/docs/), api: (req, res) => res.end(path(req).startsWith('/docs') ? 'the docs' : 'hello') },
    'ok',
  ],
  'a method in the query': [
    'overrides',
    { lets: reads(/^\/status\?/), api: (req, res) => res.writeHead(/[?&]_method=[A-Z]/.test(path(req)) ? 405 : 200).end('hello') },
    'serious',
  ],
  'a client chooses the checked request': [
    'overrides',
    { lets: (req) => field(req, 'x-original-uri') === '/status' && field(req, 'x-original-method') === 'GET' },
    'serious',
  ],
  'one identity header is refused, the others are trusted': [
    'identity-headers',
    {
      before: (req, res) => {
        if (req.headers['x-auth-role'] === undefined) return false;
        res.writeHead(400).end();
        return true;
      },
      api: shows('x-auth-customer-id'),
    },
    'serious',
  ],
  'an API that refuses without the identity that Connection removed': [
    'identity-headers',
    { api: (req, res) => res.writeHead(isKnown(req) && /x-auth-user-id/i.test(field(req, 'connection')) ? 401 : 200).end('hello') },
    'serious',
    withKey,
  ],
  'a decision that only a token reveals': [
    'decision-port',
    { api: (req, res) => res.writeHead(200, path(req) === '/_auth' ? { 'X-Auth-User-Id': 'U1' } : {}).end(path(req) === '/_auth' ? '' : 'hello') },
    'serious',
    withKey,
  ],
  'decisions below a prefix': [
    'decision-port',
    {
      before: (req, res) => {
        if (path(req) !== '/auth/auth-request') return false;
        res.writeHead(field(req, 'x-original-uri') === '/status' ? 200 : 403).end();
        return true;
      },
    },
    'serious',
  ],
  'the admin port behind a path, protected only by its host check': [
    'admin-port',
    {
      before: (req, res) => {
        if (path(req) !== '/internal/metrics') return false;
        res.writeHead(403).end('{"msg":"the admin port does not accept this host name"}');
        return true;
      },
    },
    'serious',
  ],
  'metrics for every token': ['admin-port', { api: (req, res) => res.end(path(req) === '/metrics' ? '# TYPE latchkey_up gauge\n' : 'hello') }, 'serious', withKey],
  'any Upgrade reaches the API': ['framing', { api: shows('upgrade') }, 'serious'],
  'a clock that is 45 seconds behind': ['clock', { before: (_req, res) => res.setHeader('Date', new Date(Date.now() - 45_000).toUTCString()) === undefined }, 'serious'],
  'a session cookie for all hosts of the domain': [
    'cookies',
    { fields: { 'Set-Cookie': 'service.session=x; Path=/; Secure; HttpOnly; SameSite=Lax; Domain=.example' } },
    'serious',
  ],
  'a cookie that one of two servers sets insecurely': [
    'cookies',
    {
      before: (req, res) => {
        const flags = 'Path=/; Secure; SameSite=Lax';
        res.setHeader('Set-Cookie', `service.session=x; ${flags}${path(req) === '/login' ? '' : '; HttpOnly'}`);
        return false;
      },
    },
    'serious',
  ],
  'removes names in capitals, in lower case and as documented, but no others': [
    'identity-headers',
    { lets: (req) => spellings(req, 'x-auth-role').some((name) => !['X-Auth-Role', 'x-auth-role', 'X-AUTH-ROLE'].includes(name) && /^x-auth-role$/i.test(name)) },
    'serious',
  ],
  'removes only the first of several spellings': [
    'identity-headers',
    { lets: (req) => new Set(spellings(req, 'x-auth-role')).size > 1 },
    'serious',
  ],
  'dots encoded in upper case': ['paths', { lets: reads(/%2E/) }, 'serious'],
  'a detour within the path': ['paths', { lets: reads(/^\/service\/[^/]+\/\.\.\/S1$/) }, 'serious'],
  'a fullwidth letter': ['paths', { lets: reads(/%ef%bd/i) }, 'serious'],
  'an escape with %u': ['paths', { lets: reads(/%u00/i) }, 'serious'],
  'two slashes at the end': ['paths', { lets: reads(/\/\/$/) }, 'serious'],
  'an open path leads to a known one': [
    'overrides',
    { api: (req, res) => res.end((field(req, 'x-rewrite-url') || path(req)) === '/service/S1' ? 'orders' : 'hello') },
    'serious',
  ],
  'the API obeys methods that it knows': [
    'overrides',
    { api: (req, res) => res.end(field(req, 'x-http-method-override') === 'OPTIONS' ? 'GET, POST, DELETE' : 'hello') },
    'serious',
  ],
  'the API obeys a method in the query that it knows': [
    'overrides',
    { lets: reads(/^\/status\?/), api: (req, res) => res.end(/[?&]_method=OPTIONS/.test(path(req)) ? 'GET, POST, DELETE' : 'hello') },
    'serious',
  ],
  'an overridden HEAD needs no credential': ['overrides', { lets: (req) => field(req, 'x-http-method') === 'HEAD' }, 'serious'],
  'an override with ~': ['overrides', { lets: (req) => field(req, 'x~original~url') === '/status' }, 'serious'],
  'a cookie that only browsers get': [
    'cookies',
    {
      before: (req, res) => {
        if (!field(req, 'accept').includes('text/html')) return false;
        if (path(req) === '/start') res.setHeader('Set-Cookie', 'sid=1; Path=/; Secure; SameSite=Lax');
        res.writeHead(302, { Location: path(req) === '/start' ? 'https://idp.example/' : '/start' }).end();
        return true;
      },
    },
    'serious',
  ],
  'the role admin': ['identity-headers', { lets: (req) => field(req, 'x-auth-role') === 'admin' }, 'serious'],
  'any GET by an override': ['overrides', { lets: (req) => field(req, 'x-http-method-override') === 'GET' }, 'serious'],
  'the start page by an override': ['overrides', { lets: (req) => field(req, 'x-original-url') === '/' }, 'serious'],
  'triple encoding': ['paths', { lets: reads(/%25252f/) }, 'serious'],
  'the last segment in another case': ['paths', { lets: reads(/^\/service\/s1$/) }, 'serious'],
  'metrics below a prefix': [
    'admin-port',
    { before: (req, res) => path(req) === '/prometheus/metrics' && res.end('latchkey_up 1\n') !== undefined },
    'serious',
  ],
  'reload only': [
    'admin-port',
    { before: (req, res) => path(req) === '/-/reload' && res.writeHead(405).end('{"detail":"the admin port accepts GET"}') !== undefined },
    'serious',
  ],
}; // prettier-ignore

t.test('detects faults that few probes reveal', async (t) => {
  for (const [name, [check, fault, expected, more]] of oneIn(6, OF_ONE_CHECK)) {
    const report = await diagnose(await startFaulty(t, fault), { ...more, checks: [check] });
    t.equal(report.checks[0]?.result, expected, name, { findings: report.findings });
  }
});

t.test('detects ambiguous framing and an upgrade to h2c', async (t) => {
  const server = createServer({ insecureHTTPParser: true }, deployment({}));
  server.on('upgrade', (req, socket) => {
    const isH2c = req.headers.upgrade === 'h2c';
    socket.end(
      `HTTP/1.1 ${isH2c ? '101 Switching Protocols' : '400 Bad Request'}\r\nConnection: close\r\n\r\n`,
    );
  });
  const report = await diagnose(await listenOn(t, server));
  t.match(found(report), ['framing serious']);
  t.match(
    report.findings.map(({ summary }) => summary).join(),
    /differently.*switch to HTTP\/2|switch to HTTP\/2.*differently/,
  );
});

t.test('only a token reveals what the API receives', async (t) => {
  const echo = showing((name) => name === 'x-auth-role');
  const api: Fault['api'] = (req, res) => (req.url === '/status' ? res.end('hello') : echo(req, res));
  const url = await startFaulty(t, { api });
  t.same(found(await diagnose(url)), []);
  t.same(found(await diagnose(url, { key: KEY })), ['identity-headers serious']);
});

t.test('detects an identity that Connection removes', async (t) => {
  const api: Fault['api'] = (req, res) =>
    res.end(/x-auth-user-id/i.test(req.headers.connection ?? '') ? '{}' : '{"X-Auth-User-Id":"U1"}');
  const report = await diagnose(await startFaulty(t, { api }));
  t.same(found(report), ['identity-headers serious']);
});

t.test('detects a reachable API, admin port and decision port', nightly, async (t) => {
  const open = new URL(
    await listenOn(
      t,
      createServer((_req, res) => res.end('hello')),
    ),
  );
  const believing = createServer((req, res) =>
    res.writeHead(req.headers['x-auth-role'] === undefined ? 401 : 200).end(),
  );
  const url = await startFaulty(t, {});
  const report = await diagnose(url, { upstream: open, admin: open, decision: open });
  t.same(found(report), ['upstream serious', 'admin-port serious', 'decision-port serious']);
  const other = await diagnose(url, { upstream: new URL(await listenOn(t, believing)) });
  t.match(other.findings.map(({ summary }) => summary).join(), /trusts forged identity/);
  t.same(found(await diagnose(url, { upstream: new URL(url) })), [], 'Latchkey itself is not a bypass');
});

t.test('detects a public decision port that speaks gRPC', nightly, async (t) => {
  const server = createHttp2((_req, res) => {
    res.writeHead(200, { 'Content-Type': 'application/grpc', 'Grpc-Status': '12' });
    res.end();
  });
  const decision = new URL(await listenOn(t, server));
  const url = await startFaulty(t, {});
  const report = await diagnose(url, { decision, checks: ['decision-port'] });
  t.same(found(report), ['decision-port serious']);
  t.match(report.findings[0]?.summary, /gRPC/);
});

t.test('runs only the named checks', async (t) => {
  const server = createServer(deployment({}));
  const { checks } = await diagnose(await listenOn(t, server), { checks: ['clock', 'tls'] });
  t.same(
    checks.map(({ check }) => check),
    ['tls', 'clock'],
  );
});

t.test('detects an admin port that answers to its own name', nightly, async (t) => {
  const url = await startFaulty(t, {});
  const byName = createServer((req, res) => {
    const isOwn = req.headers.host === new URL(admin).host && path(req) === '/metrics';
    res.writeHead(isOwn ? 200 : 404).end(isOwn ? 'latchkey_up 1\n' : '');
  });
  const admin = await listenOn(t, byName);
  const named = await diagnose(url, { checks: ['admin-port'], admin: new URL(admin) });
  t.same(found(named), ['admin-port serious']);
});

t.test('detects an API below a path', nightly, async (t) => {
  const api = createServer((req, res) =>
    res.writeHead(path(req).startsWith('/v7/service') ? 200 : 401).end(),
  );
  const upstream = new URL('/v7/', await listenOn(t, api));
  const report = await diagnose(await startFaulty(t, {}), { checks: ['upstream'], upstream });
  t.same(found(report), ['upstream serious']);
  t.match(report.findings[0]?.evidence[0], /\/v7\/service\/S1: 200/);
});

t.test('detects redirects that lead past Latchkey', async (t) => {
  const api = await listenOn(t, createServer((_req, res) => res.end('orders')));
  const closed = 'http://127.0.0.1:1';
  const redirecting = (to: string): Fault => ({
    api: (req, res) => (path(req) === '/status/' ? res.writeHead(301, { Location: to }).end() : res.end('hello')),
    lets: reads(/^\/status\/$/),
  });
  for (const [name, to, expected, more] of [
    ['the API, which answers', `${api}/status`, ['redirects serious'], {}],
    ['the named API, which does not answer here', `${closed}/status`, ['redirects serious'], { upstream: new URL(closed) }],
    ['an internal name', 'http://api.internal/status', ['redirects warning'], {}],
    ['a path', '/status', [], {}],
    ['another site, as of an identity provider', 'https://idp.example/login', [], {}],
  ] as const) {
    const report = await diagnose(await startFaulty(t, redirecting(to)), { ...more, checks: ['redirects'] });
    t.same(found(report), expected, name, { findings: report.findings });
  }
}); // prettier-ignore
