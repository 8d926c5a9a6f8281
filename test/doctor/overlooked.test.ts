import { createServer, type IncomingMessage } from 'node:http';
import { createSecureServer, type Http2ServerRequest } from 'node:http2';
import { createServer as createTls } from 'node:https';
import { readFileSync } from 'node:fs';
import t from 'tap';
import type { DoctorOptions } from '../../src/doctor/check.js';
import { foldName } from '../../src/http/protected-fields.js';
import { selfSigned } from '../helpers/certificates.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { deployment, diagnose, type Fault, found, KEY, listenOn, startFaulty } from './deployments.js';

const path = (req: IncomingMessage) => req.url ?? '';
const field = (req: IncomingMessage, name: string) => String(req.headers[name] ?? '');
const reads = (to: RegExp) => (req: IncomingMessage) => to.test(path(req));
const namesOf = (req: IncomingMessage) => req.rawHeaders.filter((_, i) => i % 2 === 0);
const spellings = (req: IncomingMessage, name: string) =>
  namesOf(req).filter((each) => foldName(each) === name);

let asked = 0;

/** Deployments with a fault that only one of many probes reveals. */
const CASES: Record<string, readonly [check: string, fault: Fault, expected: string, more?: Partial<DoctorOptions>]> = {
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
  'a slash encoded in upper case': ['paths', { lets: reads(/%2F/) }, 'serious'],
  'dots encoded in upper case': ['paths', { lets: reads(/%2E/) }, 'serious'],
  'a detour within the path': ['paths', { lets: reads(/^\/service\/[^/]+\/\.\.\/S1$/) }, 'serious'],
  'a fullwidth letter': ['paths', { lets: reads(/%ef%bd/i) }, 'serious'],
  'an escape with %u': ['paths', { lets: reads(/%u00/i) }, 'serious'],
  'two slashes at the end': ['paths', { lets: reads(/\/\/$/) }, 'serious'],
  'an API below a stripped prefix': [
    'paths',
    { lets: reads(/^\/backend\//), api: (req, res) => res.writeHead(path(req).endsWith('/service/S1') || path(req) === '/status' ? 200 : 404).end(path(req) === '/status' ? 'up' : 'orders') },
    'serious',
  ],
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
  'a forged address with _': ['addresses', { lets: (req) => field(req, 'x_forwarded_for') === '127.0.0.1' }, 'serious'],
  'another virtual host with a common name': ['addresses', { lets: (req) => field(req, 'host') === 'backend' }, 'serious'],
  'any token in the query': ['credentials', { lets: reads(/[?&]access_token=./) }, 'serious'],
  'one of several instances requires no credential': [
    'rate',
    { lets: (req) => path(req).startsWith('/service') && ++asked % 7 === 0 },
    'serious',
  ],
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
  'a check that loses the credential to Connection': ['exemptions', { lets: (req) => /service-key/i.test(field(req, 'connection')) }, 'serious'],
  'any GET by an override': ['overrides', { lets: (req) => field(req, 'x-http-method-override') === 'GET' }, 'serious'],
  'the start page by an override': ['overrides', { lets: (req) => field(req, 'x-original-url') === '/' }, 'serious'],
  'triple encoding': ['paths', { lets: reads(/%25252f/) }, 'serious'],
  'the last segment in another case': ['paths', { lets: reads(/^\/service\/s1$/) }, 'serious'],
  'a health check below any path': ['paths', { lets: reads(/\/healthz$/) }, 'serious'],
  'a test mode': ['paths', { lets: reads(/[?&]debug=/) }, 'serious'],
  'metrics on a virtual host': [
    'admin-port',
    { before: (req, res) => path(req) === '/metrics' && field(req, 'host') === 'admin' && res.end('latchkey_up 1\n') !== undefined },
    'serious',
  ],
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
  'a private address': ['addresses', { lets: (req) => field(req, 'x-forwarded-for').startsWith('192.168.') }, 'serious'],
  'any token in another header': ['credentials', { lets: (req) => field(req, 'x-api-key') !== '' }, 'serious'],
  'the own page as Referer': ['exemptions', { lets: (req) => field(req, 'referer').startsWith('http://127.0.0.1') }, 'serious'],
  'its own Origin': ['exemptions', { lets: (req) => field(req, 'origin').startsWith('http://127.0.0.1') }, 'serious'],
  'requests of browsers for pages': ['exemptions', { lets: (req) => field(req, 'accept') === 'text/html' }, 'serious'],
  'a JSON content type': ['exemptions', { lets: (req) => field(req, 'content-type') === 'application/json' }, 'serious'],
  'gRPC calls': ['exemptions', { lets: (req) => field(req, 'content-type') === 'application/grpc' }, 'serious'],
  Prometheus: ['exemptions', { lets: (req) => field(req, 'user-agent').startsWith('Prometheus/') }, 'serious'],
}; // prettier-ignore

t.test('detects faults that few probes reveal', async (t) => {
  for (const [name, [check, fault, expected, more]] of Object.entries(CASES)) {
    const report = await diagnose(await startFaulty(t, fault), { ...more, checks: [check] });
    t.equal(report.checks[0]?.result, expected, name, { findings: report.findings });
  }
});

t.test('an API that echoes the requested path, below a fully open path', async (t) => {
  const isOpen = reads(/^\/docs(?!.*(?:\/\.\.(?:\/|;|$)|%2e|%2f|%5c|\\|;|\/\/|#))\//i);
  const shows = (to: (target: string) => string): Fault => ({
    lets: isOpen,
    api: (req, res) => res.end(JSON.stringify({ path: to(path(req)), agent: field(req, 'user-agent') })),
  });
  const more = { publicPaths: ['/docs/a'], checks: ['paths'] };
  t.same(
    (
      await diagnose(
        await startFaulty(
          t,
          shows((target) => target),
        ),
        more,
      )
    ).findings,
    [],
  );
  const strips = shows((target) => target.replace(/^\/docs\/a\.\./, ''));
  t.same(
    found(await diagnose(await startFaulty(t, strips), more)),
    ['paths serious'],
    'a prefix that is stripped',
  );
});

t.test("detects the API on the host's other address", async (t) => {
  const url = await startFaulty(t, {});
  const api = createServer((_req, res) => res.end('orders'));
  t.equal((await diagnose(url, { checks: ['upstream'] })).result, 'unknown');
  await new Promise<void>((done) => api.listen(Number(new URL(url).port), '::1', done));
  t.teardown(() => api.close());
  for (const each of [url, url.replace('127.0.0.1', 'localhost')]) {
    const report = await diagnose(each, { checks: ['upstream', 'authentication'] });
    t.same(found(report), ['upstream warning'], each);
    t.match(report.findings[0]?.summary, /address, which is loopback: .* Run doctor from where clients are$/);
  }
  const named = await diagnose(url, { checks: ['upstream'], upstream: new URL('http://127.0.0.1:1') });
  t.same(found(named), ['upstream warning'], 'in addition to an unreachable name');
});

t.test('detects an admin port that answers to its own name', async (t) => {
  const url = await startFaulty(t, {});
  const byName = createServer((req, res) => {
    const isOwn = req.headers.host === new URL(admin).host && path(req) === '/metrics';
    res.writeHead(isOwn ? 200 : 404).end(isOwn ? 'latchkey_up 1\n' : '');
  });
  const admin = await listenOn(t, byName);
  const named = await diagnose(url, { checks: ['admin-port'], admin: new URL(admin) });
  t.same(found(named), ['admin-port serious']);
});

t.test('detects an API below a path', async (t) => {
  const api = createServer((req, res) =>
    res.writeHead(path(req).startsWith('/v7/service') ? 200 : 401).end(),
  );
  const upstream = new URL('/v7/', await listenOn(t, api));
  const report = await diagnose(await startFaulty(t, {}), { checks: ['upstream'], upstream });
  t.same(found(report), ['upstream serious']);
  t.match(report.findings[0]?.evidence[0], /\/v7\/service\/S1: 200/);
});

t.test('TLS', async (t) => {
  const folder = temporaryFolder(t);
  const certificate = selfSigned(folder, 'old');
  const [cert, key, ca] = [readFileSync(certificate.cert), readFileSync(certificate.key), readFileSync(certificate.cert, 'utf8')];

  await t.test('a server with old versions only', async (t) => {
    let sent = 0;
    const options = { cert, key, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' } as const;
    const server = createTls(options, (req, res) => {
      if (req.headers['service-key'] !== undefined) sent += 1;
      deployment({})(req, res);
    });
    const report = await diagnose(await listenOn(t, server, 'https'), { ca, key: KEY, checks: ['tls'] });
    t.match(report.findings.map(({ summary }) => summary), ['TLSv1.0 is accepted', 'TLSv1.1 is accepted']);
    t.match([report.notes, sent], [[/TLS 1\.2/], 0], 'no token is sent');
  });

  const judge = deployment({});
  for (const [name, lets] of Object.entries<(req: Http2ServerRequest) => boolean>({
    'HTTP/2 trailers': ({ trailers }) => trailers['x-auth-role'] !== undefined,
    'a name with ~ over HTTP/2': ({ headers }) => headers['x~auth~role'] !== undefined,
    'an override over HTTP/2': ({ headers }) => headers['x-original-url'] === '/status',
  }))
    await t.test(name, async (t) => {
      const server = createSecureServer({ cert, key, allowHTTP1: true }, (req, res) => {
        if (req.httpVersion !== '2.0') return judge(req as never, res as never);
        req.resume().on('end', () => (lets(req) ? res.end('orders') : judge(req as never, res as never)));
      });
      t.same(found(await diagnose(await listenOn(t, server, 'https'), { ca, checks: ['http2'] })), ['http2 serious']);
    });
}); // prettier-ignore
