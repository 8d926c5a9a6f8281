import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import t from 'tap';
import { fetchLimited, openAgent } from '../../src/net/fetch-limited.js';
import { systemResolve } from '../../src/net/pinned-lookup.js';
import { createTracing } from '../../src/observe/tracing/spans.js';
import { configSchema } from '../../src/config/schema/config.js';
import { onlineChecks } from '../../src/server/online-checks.js';
import { selfSigned } from '../helpers/certificates.js';
import { serveHttp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

/* Proxies of the environment, for Latchkey's own requests. Only the proxy can resolve `*.test`. */

const { cert, key } = selfSigned(temporaryFolder(t), 'idp.test');
const target = await serveHttp(t, (_req, res) => res.end('the target'), {
  cert: readFileSync(cert),
  key: readFileSync(key),
});
const seen: string[] = [];
const proxy = await serveHttp(t, (req, res) => {
  seen.push(`${req.method} ${req.url} ${String(req.headers['api-key'] ?? '')}`.trimEnd());
  // A collector that is busy at first.
  if (seen.length === 1 && req.method === 'POST') res.statusCode = 503;
  res.end(req.url?.endsWith('/long') ? 'x'.repeat(2_000) : 'by proxy');
});
proxy.server.on('connect', (req, socket) => {
  seen.push(`CONNECT ${req.url} ${req.headers['proxy-authorization'] ?? ''}`.trimEnd());
  const tunnel = connect(Number(new URL(target.url).port), '127.0.0.1', () => {
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    tunnel.pipe(socket).pipe(tunnel);
  });
  for (const each of [tunnel, socket]) each.on('error', () => undefined);
});

const limits = { timeout: 5_000, maxBody: 1_000, ca: readFileSync(cert, 'utf8') };
const local = target.url.replace('http:', 'https:');

t.beforeEach((t) => {
  seen.length = 0;
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy']) {
    const before = process.env[name];
    delete process.env[name];
    t.teardown(() => {
      if (before === undefined) delete process.env[name];
      else process.env[name] = before;
    });
  }
});

t.test('requests go through the proxies of the environment', async (t) => {
  await t.rejects(fetchLimited('https://idp.test/a', limits), /idp\.test/, 'without one, the name is unknown');
  process.env['HTTPS_PROXY'] = proxy.url.replace('//', '//user:p%40ss@');
  t.match(await fetchLimited('https://idp.test/a', limits), { status: 200, text: 'the target' });
  t.same(seen, [`CONNECT idp.test:443 Basic ${Buffer.from('user:p@ss').toString('base64')}`]);
  const agent = await openAgent(limits, 2);
  t.teardown(() => agent.destroy());
  t.match(await fetchLimited('https://idp.test/a', { ...limits, agent }), { text: 'the target' }, 'with kept connections');
  process.env['HTTP_PROXY'] = proxy.url;
  t.match(await fetchLimited('http://collector.test/b?c', limits), { text: 'by proxy' });
  t.equal(seen.at(-1), 'GET http://collector.test/b?c', 'without a tunnel');
  await t.rejects(fetchLimited('http://collector.test/long', limits), /collector\.test/, 'the limits hold');
  const { ca: _, ...untrusting } = limits;
  await t.rejects(fetchLimited('https://idp.test/a', untrusting), /certificate/, 'the certificate of the target is verified');
}); // prettier-ignore

t.test('hosts in NO_PROXY, loopback and direct requests go around them', async (t) => {
  Object.assign(process.env, { HTTPS_PROXY: proxy.url, HTTP_PROXY: proxy.url, NO_PROXY: '.internal.test' });
  t.match(await fetchLimited(local, limits), { text: 'the target' }, 'loopback');
  await t.rejects(fetchLimited('https://a.internal.test', limits), /internal\.test/);
  await t.rejects(fetchLimited('https://idp.test', { ...limits, direct: true }), /idp\.test/);
  process.env['NO_PROXY'] = '*';
  await t.rejects(fetchLimited('https://idp.test', limits), /idp\.test/);
  t.same(seen, []);
});

t.test('a literal address stays refused, and a wrong proxy is named', async (t) => {
  process.env['https_proxy'] = proxy.url;
  const addresses = { resolve: systemResolve, allowPrivate: false };
  await t.rejects(fetchLimited('https://10.0.0.1', { ...limits, addresses }), /private/);
  t.same(seen, []);
  t.match(await fetchLimited('https://idp.test', { ...limits, addresses }), { text: 'the target' }, 'the proxy resolves names');
  process.env['https_proxy'] = 'proxy:3128';
  await t.rejects(fetchLimited('https://idp.test', limits), { message: /https_proxy is not a URL/ });
}); // prettier-ignore

t.test('spans go to the collector through a proxy, again if it is busy', async (t) => {
  Object.assign(process.env, { HTTP_PROXY: proxy.url, OTEL_EXPORTER_OTLP_HEADERS: 'a=b, api-key=x%20y' });
  t.teardown(() => delete process.env['OTEL_EXPORTER_OTLP_HEADERS']);
  const dropped: unknown[] = [];
  const settings = { otlp: 'http://collector.test', service_name: 'a', sample_ratio: 1 };
  const tracing = createTracing(settings, (...each) => void dropped.push(each));
  tracing.begin(performance.now(), null).end({ route: null, status: 200, outcome: 'forwarded', values: {} }, null);
  await until(() => seen.length === 2, 'the second attempt');
  await tracing.close();
  t.same([seen, dropped], [Array(2).fill('POST http://collector.test/v1/traces x y'), []]);
}); // prettier-ignore

t.test('check --online reaches webhooks and issuers through a proxy', async (t) => {
  Object.assign(process.env, { HTTPS_PROXY: proxy.url, HTTP_PROXY: proxy.url });
  const checks = onlineChecks(
    configSchema.parse({
      webhooks: [{ url: 'http://hooks.test/secret', secret: `whsec_${Buffer.alloc(32).toString('base64')}`, allow_private: true }],
      jwt_issuers: [{ name: 'ci', issuer: 'https://idp.test', audience: 'a', tls: { ca: cert }, subjects: [{ claims: { a: 'b' }, customer_id: 'C1', role: 'user' }] }],
    }),
  );
  const outcomes = checks.map(async ({ name, run }) => run().then(() => `${name.split(' ')[0]}: ok`, (error: Error) => error.message));
  t.match((await Promise.all(outcomes)).toSorted(), ['it is not a JSON object', 'webhooks: ok'], 'the target is no issuer');
  t.same(seen.toSorted(), ['CONNECT idp.test:443', 'GET http://hooks.test/']);
}); // prettier-ignore
