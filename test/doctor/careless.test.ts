import { createServer, type IncomingMessage } from 'node:http';
import { createServer as createHttp2 } from 'node:http2';
import t from 'tap';
import type { DoctorOptions } from '../../src/doctor/check.js';
import { deployment, diagnose, type Fault, found, KEY, listenOn, startFaulty } from './deployments.js';

const path = (req: IncomingMessage) => req.url ?? '';
const field = (req: IncomingMessage, name: string) => String(req.headers[name] ?? '');
const reads = (to: RegExp) => (req: IncomingMessage) => to.test(path(req));
const isKnown = (req: IncomingMessage) => req.headers['service-key'] === KEY;
const normalized = (req: IncomingMessage) => new URL(path(req).replace(/^\/+/, '/'), 'http://x').pathname;

/** An API that echoes some header fields. */
const shows = (...names: string[]): NonNullable<Fault['api']> => (req, res) =>
  res.end(JSON.stringify(Object.fromEntries(names.map((name) => [name, req.headers[name]])))); // prettier-ignore

/** A cache with a key computed from the request. */
function cached(keyOf: (req: IncomingMessage) => string): Fault {
  const open = new Set<string>();
  return {
    lets: (req) => {
      if (isKnown(req)) open.add(keyOf(req));
      return open.has(keyOf(req));
    },
  };
}

const STACK = 'Error: x\n    at handle (/app/src/index.js:12:5)';
const withKey = { key: KEY };

/**
 * Deployments that are broken on purpose: the check that detects it, the fault, and the expected
 * result.
 */
const CASES: Record<string, readonly [check: string, fault: Fault, expected: string, more?: Partial<DoctorOptions>]> = {
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
  'files by a query': ['paths', { lets: reads(/\?.*\.png$/) }, 'serious'],
  'the name of an open path anywhere in the path': ['paths', { lets: reads(/\/health/) }, 'serious'],
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
  'a check whose fields Connection removes': ['exemptions', { lets: (req) => /x-forwarded-uri/i.test(field(req, 'connection')) }, 'serious'],
  "the API receives the client's host": ['addresses', { api: shows('x-forwarded-host') }, 'serious'],
  "the API receives the client's address": ['addresses', { api: shows('forwarded') }, 'serious'],
  "the client's address comes first": [
    'addresses',
    { api: (req, res) => res.end(`{"X-Forwarded-For":"${[field(req, 'x-forwarded-for'), '127.0.0.1'].join(', ')}"}`) },
    'warning',
  ],
  'Latchkey trusts X-Forwarded-For from any client': [
    'addresses',
    { api: (req, res) => res.end(path(req) === '/tokens/self' ? JSON.stringify({ ip: field(req, 'x-forwarded-for') || '127.0.0.1' }) : 'hello') },
    'serious',
    withKey,
  ],
  'a virtual host named by an option': ['addresses', { lets: (req) => field(req, 'host') === 'old.example' }, 'serious', { hosts: ['old.example'] }],
  'another site on other hosts': [
    'addresses',
    { lets: (req) => !field(req, 'host').startsWith('127.0.0.1:'), api: (req, res) => res.end(field(req, 'host').startsWith('127.0.0.1:') ? 'hello' : 'Welcome') },
    'ok',
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
  'the API receives the token': ['identity-headers', { api: shows('service-key') }, 'warning', withKey],
  'clients receive the assertion': [
    'identity-headers',
    { api: (req, res) => res.writeHead(200, isKnown(req) ? { 'X-Auth-Assertion': 'x.y.z' } : {}).end('hello') },
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
  "Caddy's configuration": [
    'proxy-admin',
    { before: (req, res) => path(req) === '/config/' && res.end('{"apps":{"http":{}}}') !== undefined },
    'serious',
  ],
  "HAProxy's statistics page": [
    'proxy-admin',
    { before: (req, res) => path(req) === '/haproxy?stats' && res.end('<title>Statistics Report for HAProxy</title>') !== undefined },
    'warning',
  ],
  'a cache by target': ['caches', cached((req) => path(req)), 'serious', withKey],
  'a cache of decisions by path': ['caches', cached((req) => path(req).split('?', 1)[0] ?? ''), 'serious', withKey],
  'a cache for paths that look like files': ['caches', { ...cached((req) => (path(req).endsWith('.css') ? path(req) : '')), }, 'serious', withKey],
  'responses that shared caches may store': ['caches', { fields: { 'Cache-Control': 'public, max-age=60' } }, 'warning', withKey],
  'no cache': ['caches', {}, 'ok', withKey],
  'no cache, but any token is accepted': ['caches', { lets: (req) => field(req, 'service-key') !== '' }, 'ok', withKey],
  'an origin matched by prefix': [
    'cors',
    {
      before: (req, res) => {
        if (field(req, 'origin').startsWith('https://127.0.0.1')) res.setHeader('Access-Control-Allow-Origin', field(req, 'origin'));
        return false;
      },
    },
    'warning',
  ],
  'every origin, with credentials': ['cors', { fields: { 'Access-Control-Allow-Origin': '*', 'Access-Control-Allow-Credentials': 'true' } }, 'serious'],
  'every origin, without credentials': ['cors', { fields: { 'Access-Control-Allow-Origin': '*' } }, 'ok'],
  'an open redirect after login': [
    'redirects',
    {
      before: (req, res) => {
        const to = new URL(path(req), 'http://x').searchParams.get('return_to');
        if (!path(req).startsWith('/login') || to === null) return false;
        res.writeHead(302, { Location: to.replace(/[\r\n]/g, '') }).end();
        return true;
      },
    },
    'warning',
  ],
  'a redirect that writes the decoded path': [
    'redirects',
    {
      before: (req, res) => {
        if (!/%0d%0a/i.test(path(req))) return false;
        res.socket?.end(`HTTP/1.1 301 Moved\r\nLocation: https://x${decodeURIComponent(path(req))}\r\nContent-Length: 0\r\n\r\n`);
        return true;
      },
    },
    'serious',
  ],
  'errors with a stack trace': ['disclosure', { lets: reads(/\/%/), api: (req, res) => res.writeHead(path(req).includes('%') ? 500 : 200).end(STACK) }, 'warning'],
  'a page without a Content-Security-Policy': [
    'disclosure',
    { before: (req, res) => path(req) === '/_latchkey/' && res.setHeader('Content-Type', 'text/html').end('<title>Latchkey</title>') !== undefined },
    'warning',
  ],
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
}; // prettier-ignore

t.test('detects careless deployments', async (t) => {
  for (const [name, [check, fault, expected, more]] of Object.entries(CASES)) {
    const report = await diagnose(await startFaulty(t, fault), { ...more, checks: [check] });
    t.equal(report.checks[0]?.result, expected, name, { findings: report.findings });
  }
});

t.test('advice does not change the result', async (t) => {
  const url = await startFaulty(t, { fields: { Server: 'nginx/1.22.1', 'X-Powered-By': 'Express' } });
  const { advice, result, findings } = await diagnose(url, { checks: ['disclosure', 'rate'] });
  t.same([result, findings], ['ok', []]);
  t.match(advice, [
    { check: 'rate', summary: /None of 30/ },
    { check: 'disclosure', summary: /nginx\/1\.22\.1, Express/ },
  ]);
});

t.test('detects a public decision port that speaks gRPC', async (t) => {
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

t.test('detects an API on a common port that was not named', async (t) => {
  const api = createServer((req, res) => res.end(req.url === '/status' ? 'up' : 'secret'));
  const ports = [8888, 9000, 4000, 5000, 8000];
  const isListening = (port: number) =>
    new Promise<boolean>((done) => {
      api.once('error', () => done(false));
      api.listen(port, '127.0.0.1', () => done(true));
    });
  let free = false;
  for (const port of ports) free ||= await isListening(port);
  t.ok(free, `one of ${ports.join(', ')} is free`);
  t.teardown(() => api.close());
  const more = { checks: ['upstream'] };
  const url = await startFaulty(t, { api: (_req, res) => res.end('up') });
  t.same(found(await diagnose(url, more)), ['upstream warning']);
  const other = await startFaulty(t, { api: (_req, res) => res.end('something else') });
  t.same(found(await diagnose(other, more)), [], 'a port of another program');
});

t.test('runs only the named checks', async (t) => {
  const server = createServer(deployment({}));
  const { checks } = await diagnose(await listenOn(t, server), { checks: ['clock', 'tls'] });
  t.same(
    checks.map(({ check }) => check),
    ['tls', 'clock'],
  );
});
