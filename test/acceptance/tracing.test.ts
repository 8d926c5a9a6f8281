import { once } from 'node:events';
import t, { type Test } from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import { selfSigned } from '../helpers/certificates.js';
import { PROXIES } from '../helpers/checks.js';
import { startCollector } from '../helpers/collector.js';
import { directory, OPEN_STATUS, PASSWORD, startFixture } from '../helpers/fixture.js';
import { send, sendRaw, serveHttp, startUpstream } from '../helpers/http.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { INSTALLED, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';
import { refuseSecretsIn } from '../helpers/secrets.js';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const parent = (trace: string, flags: string) => `00-${trace}-${SPAN}-${flags}`;
const [SERVER, CLIENT] = [2, 3];
/** The requests of the test come from a trusted proxy. */
const BY_PROXY = { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] };

/** The latest request record in the log. */
function lastRecord(stdout: string): Record<string, unknown> {
  const lines = stdout.split('\n').filter((line) => line.includes('"msg":"request"'));
  return JSON.parse(lines.at(-1) ?? '{}') as Record<string, unknown>;
}

t.test('the spans of requests', async (t) => {
  const collector = await startCollector(t);
  const { url, server, token, upstream } = await startFixture(t, {
    tracing: { otlp: collector.url, service_name: 'gateway' },
    listen: BY_PROXY,
    routes: [{ path: '/service/:id', action: 'service', service: 'id' }, { path: '/open', auth: 'none' }],
  });
  const key = await token('engineer');

  await t.test('a forwarded request: server span, gate span, and a client span that the upstream continues', async (t) => {
    const headers = { 'Service-Key': key, traceparent: parent(TRACE, '01'), tracestate: 'a=1,b=2', 'User-Agent': 'probe' };
    const reply = await send(url, '/service/SVC1?token=of-another-system', { headers });
    t.equal(reply.status, 200);
    await until(() => collector.ofTrace(TRACE).length === 3, 'three spans arrive');
    const spans = collector.ofTrace(TRACE);
    const own = spans.find(({ kind }) => kind === SERVER);
    const gate = spans.find(({ name }) => name === 'gate');
    const call = spans.find(({ kind }) => kind === CLIENT);
    t.match(own, { name: 'GET /service/:id', parentSpanId: SPAN, failed: false });
    t.match(own?.attributes, {
      'http.request.method': 'GET',
      'url.path': '/service/SVC1',
      'url.scheme': 'http',
      'server.address': '127.0.0.1',
      'client.address': '127.0.0.1',
      'user_agent.original': 'probe',
      'http.route': '/service/:id',
      'http.response.status_code': 200,
      'latchkey.outcome': 'forwarded',
      'latchkey.credential': 'token',
      'latchkey.request_id': reply.headers['x-request-id'] ?? '',
      'user.id': 'engineer',
    });
    t.match(gate, { parentSpanId: own?.spanId, attributes: { 'latchkey.action': 'service:read', 'latchkey.decision': 'allowed' } });
    t.ok(Number(gate?.attributes['latchkey.store.reads']) >= 1, 'the gate reads the embedded store');
    t.match(call, { name: 'GET', parentSpanId: own?.spanId, attributes: { 'http.response.status_code': 200, 'latchkey.upstream': 'api', 'url.full': `${upstream.url}/service/SVC1` } });
    t.ok(own && gate && call && own.start <= gate.start && gate.end <= call.start && call.end <= own.end, 'in this order');
    const got = upstream.received.at(-1)?.headers;
    t.equal(got?.['traceparent'], `00-${TRACE}-${call?.spanId}-01`);
    t.equal(got?.['tracestate'], 'a=1,b=2', 'tracestate is forwarded');
    t.match(collector.resources[0], { 'service.name': 'gateway', 'service.version': /^\d+\./ });
    await until(() => lastRecord(server.stdout())['trace_id'] === TRACE, 'the log record');
    t.notMatch(collector.bodies.join(), 'of-another-system');
  });

  await t.test('a request without a trace starts one; a refused one ends at the gate', async (t) => {
    const reply = await send(url, '/service/SVC1');
    t.equal(reply.status, 401);
    await until(() => lastRecord(server.stdout())['request_id'] === reply.headers['x-request-id'], 'the log record');
    const trace = String(lastRecord(server.stdout())['trace_id']);
    t.match(trace, /^[0-9a-f]{32}$/);
    await until(() => collector.ofTrace(trace).length === 2, 'two spans arrive');
    const own = collector.ofTrace(trace).find(({ kind }) => kind === SERVER);
    t.match(own, { parentSpanId: undefined, failed: false, attributes: { 'http.response.status_code': 401, 'latchkey.outcome': 'unauthenticated' } });
    t.match(collector.ofTrace(trace).find(({ name }) => name === 'gate')?.attributes, { 'latchkey.decision': 'refused', 'latchkey.reason': 'unauthenticated' });
  });

  await t.test('a trace that its caller does not sample is not exported', async (t) => {
    const trace = TRACE.replace('4', '5');
    t.equal((await send(url, '/open', { headers: { traceparent: parent(trace, '00') } })).status, 200);
    const got = upstream.received.at(-1)?.headers['traceparent'];
    t.match(got, new RegExp(`^00-${trace}-[0-9a-f]{16}-00$`));
    t.notMatch(got, SPAN, 'the upstream gets a new span id');
    const later = TRACE.replace('4', '6');
    await send(url, '/open', { headers: { traceparent: parent(later, '01') } });
    await until(() => collector.ofTrace(later).length === 3, 'a later trace arrives');
    t.equal(collector.ofTrace(trace).length, 0);
  });

  await t.test('a built-in endpoint: its store writes are child spans', async (t) => {
    const trace = TRACE.replace('4', '7');
    const body = new URLSearchParams({ username: 'superuser@example.com', password: PASSWORD });
    t.equal((await send(url, '/tokens', { body, headers: { traceparent: parent(trace, '01') } })).status, 200);
    await until(() => collector.ofTrace(trace).some(({ kind }) => kind === SERVER), 'it arrives');
    const spans = collector.ofTrace(trace);
    const own = spans.find(({ kind }) => kind === SERVER);
    t.match(own, { name: 'POST /tokens', attributes: { 'latchkey.outcome': 'answered' } });
    t.ok(spans.some(({ name, parentSpanId }) => name === 'store write' && parentSpanId === own?.spanId));
  });

  await t.test('a malformed head', async (t) => {
    const before = collector.spans.length;
    t.match(await sendRaw(url, `GET /%zz HTTP/1.1\r\nHost: a\r\ntraceparent: ${parent(TRACE, '01')}\r\n\r\n`), /^HTTP\/1.1 400/);
    await until(() => collector.spans.length > before, 'it arrives');
    t.match(collector.spans.at(-1), { name: 'HTTP', parentSpanId: undefined, attributes: { 'http.response.status_code': 400, 'latchkey.outcome': 'malformed' } });
  });

  await t.test('a drain exports the remaining spans, and no span holds a secret', async (t) => {
    const trace = TRACE.replace('4', '8');
    await send(url, '/open', { headers: { traceparent: parent(trace, '01') } });
    t.same(await server.stop(), { code: 0, signal: null });
    t.equal(collector.ofTrace(trace).length, 3);
    refuseSecretsIn(collector.bodies.join('\n'), 'the exported spans');
  });
}); // prettier-ignore

t.test('a WebSocket: its handshake has the same spans, and a refusal by the upstream is an error', async (t) => {
  const collector = await startCollector(t);
  const { url: upstream, server: http } = await serveHttp(t, (_req, res) => void res.writeHead(500).end());
  const sockets = new WebSocketServer({ server: http, path: '/ws' });
  const got: (string | undefined)[] = [];
  sockets.on('connection', (_socket, req) => got.push(req.headers['traceparent'] as string));
  const { url, server, token } = await startFixture(t, { upstream, tracing: { otlp: `${collector.url}/v1/traces` } });
  const headers = { 'Service-Key': await token('engineer'), traceparent: parent(TRACE, '01') };
  const socket = new WebSocket(`${url.replace('http', 'ws')}/ws`, { headers });
  await once(socket, 'open');
  await until(() => collector.ofTrace(TRACE).length === 3, 'three spans arrive');
  const call = collector.ofTrace(TRACE).find(({ kind }) => kind === CLIENT);
  t.equal(got[0], `00-${TRACE}-${call?.spanId}-01`);
  t.match(collector.ofTrace(TRACE).find(({ kind }) => kind === SERVER)?.attributes, { 'http.response.status_code': 101 });
  await until(async () => /^latchkey_websockets 1$/m.test((await send(server.admin, '/metrics')).text), 'open');
  socket.close();
  await until(async () => /^latchkey_websockets 0$/m.test((await send(server.admin, '/metrics')).text), 'closed');

  const trace = TRACE.replace('4', '5');
  t.equal((await send(url, '/x', { headers: { ...headers, traceparent: parent(trace, '01') } })).status, 500);
  await until(() => collector.ofTrace(trace).length === 3, 'they arrive');
  for (const span of collector.ofTrace(trace).filter(({ name }) => name !== 'gate')) {
    t.match(span, { failed: true, attributes: { 'http.response.status_code': 500 } });
  }
}); // prettier-ignore

t.test('a look-up in Redis is a span within the gate', async (t) => {
  const collector = await startCollector(t);
  const redis = await startRedis(t);
  const { url, token } = await startFixture(t, {
    store: { type: 'redis', url: redis.url, sealing_key: '0'.repeat(64) },
    cache: { size: 0 },
    tracing: { otlp: collector.url },
  });
  const headers = { 'Service-Key': await token('engineer'), traceparent: parent(TRACE, '01') };
  t.equal((await send(url, '/x', { headers })).status, 200);
  await until(() => collector.ofTrace(TRACE).length >= 4, 'four spans arrive');
  const gate = collector.ofTrace(TRACE).find(({ name }) => name === 'gate');
  t.match(
    collector.ofTrace(TRACE).find(({ name }) => name === 'store find_token'),
    {
      kind: CLIENT,
      parentSpanId: gate?.spanId,
      failed: false,
    },
  );
});

t.test('a collector that is down, or never responds, delays nothing', async (t) => {
  const deaf = await startCollector(t, false);
  // Both wait for the same timeout, so they run in parallel.
  t.jobs = 2;
  for (const [name, otlp] of [['down', 'http://127.0.0.1:1'], ['deaf', deaf.url]] as const) {
    t.test(name, async (t) => {
      const { url, server } = await startFixture(t, { routes: OPEN_STATUS, tracing: { otlp } });
      const dropped = async () => Number(/^latchkey_spans_dropped_total (\d+)/m.exec((await send(server.admin, '/metrics')).text)?.[1]);
      await until(async () => (await send(url, '/status')).status === 200 && (await dropped()) > 0, 'spans are dropped and counted', 30_000);
      const told = server.stdout().match(/trace export failed/g)?.length;
      t.equal(told, 1, 'logged once');
      t.same(await server.stop(), { code: 0, signal: null }, 'the process exits');
    });
  }
}); // prettier-ignore

t.test(
  'sample_ratio 0 exports no trace that starts here, but those sampled by a trusted proxy',
  async (t) => {
    const collector = await startCollector(t);
    const { url, server } = await startFixture(t, {
      listen: BY_PROXY,
      routes: OPEN_STATUS,
      tracing: { otlp: collector.url, sample_ratio: 0 },
    });
    for (let i = 0; i < 5; i++) await send(url, '/status');
    await send(url, '/status', { headers: { traceparent: parent(TRACE, '01') } });
    await server.stop();
    t.equal(collector.spans.length, 3);
    t.equal(collector.ofTrace(TRACE).length, 3);
  },
);

t.test('when off, a trace is forwarded unchanged and the SDK is not loaded', nightly, async (t) => {
  const upstream = await startUpstream(t);
  const folder = temporaryFolder(t);
  const preload = `import fs from 'node:fs';
  import { syncBuiltinESMExports } from 'node:module';
  const { readFileSync } = fs;
  fs.readFileSync = (path, ...rest) => {
    if (String(path).includes('opentelemetry-sdk')) throw new Error('refused: ' + path);
    return readFileSync(path, ...rest);
  };
  syncBuiltinESMExports();`;
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}` };
  const config = { upstream: upstream.url, routes: OPEN_STATUS };
  const server = await start(t, writeConfig(folder, config, await directory()), { env, program: INSTALLED });
  const got = async (...fields: string[]) => {
    const lines = fields.map((field) => `${field}\r\n`).join('');
    t.match(await sendRaw(server.url, `GET /status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${lines}\r\n`, 3_000), /^HTTP\/1.1 200/);
    const { headers } = upstream.received.at(-1) ?? {};
    return [headers?.['traceparent'], headers?.['tracestate']];
  };
  const good = parent(TRACE, '01');
  t.same(await got(`traceparent: ${good}`, 'tracestate: a=1', 'tracestate: b=2'), [good, 'a=1, b=2']);
  await until(() => lastRecord(server.stdout())['trace_id'] === TRACE, 'the log record');
  const later = `cc-${TRACE}-${SPAN}-01-what-the-future-says`;
  t.same(await got(`Traceparent: ${later}`), [later, undefined]);
  for (const bad of ['', 'x', `${good}-x`, good.toUpperCase(), good.replace('00-', 'ff-'), parent('0'.repeat(32), '01'), good.replace(SPAN, '0'.repeat(16))])
    t.same(await got(`traceparent: ${bad}`, 'tracestate: a=1'), [undefined, undefined], bad);
  t.same(await got(`traceparent: ${good}`, `TraceParent: ${good}`, 'tracestate: a=1'), [undefined, undefined], 'repeated');
  t.notOk('trace_id' in lastRecord(server.stdout()));

  const on = writeConfig(folder, { ...config, tracing: { otlp: 'http://127.0.0.1:1' } }, await directory());
  await t.rejects(start(t, on, { env, program: INSTALLED }), /refused: .*opentelemetry-sdk/, 'the hook detects it when tracing is on');
}); // prettier-ignore

/**
 * Every entrance: a function that sends a `traceparent` through it and waits until the request
 * ends.
 */
async function entrances(t: Test, collector: string, sample_ratio: number, trusted_proxies: string[]) {
  const sockets = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  const upstream = await startUpstream(t);
  upstream.server.on('upgrade', (req, socket, head) => sockets.handleUpgrade(req, socket, head, (ws) => ws.close()));
  t.teardown(() => sockets.close());
  const listen = { host: '127.0.0.1', port: 0, trusted_proxies };
  const settings = {
    upstream: upstream.url,
    decision: { host: '127.0.0.1', port: 0 },
    tracing: { otlp: collector, sample_ratio },
    routes: [{ path: '/*', auth: 'none' }],
  };
  const plain = await startFixture(t, { ...settings, listen });
  const secure = await startFixture(t, { ...settings, listen: { ...listen, tls: selfSigned(temporaryFolder(t), 'one') } });
  const session = await openHttp2(t, secure.url);
  const ways: Record<string, (headers: Record<string, string>) => Promise<unknown>> = {
    'HTTP/1.1': (headers) => send(plain.url, '/x', { headers }),
    'HTTP/2': (headers) => sendHttp2(session, '/x', { headers }),
    WebSocket: (headers) => once(new WebSocket(`${plain.url.replace('http', 'ws')}/x`, { headers }), 'close'),
    ...Object.fromEntries(
      Object.entries(PROXIES).map(([proxy, ask]) => [`decision by ${proxy}`, (headers) => ask(plain.server.decision, { method: 'GET', target: '/x', headers })]),
    ),
  };
  const stop = async () => {
    session.close();
    await Promise.all([plain.server.stop(), secure.server.stop()]);
  };
  return { ways, stop };
} // prettier-ignore

/** A trace id that an id-based sampler selects at every ratio above 0. */
const chosen = (i: number) => `${'0'.repeat(24)}${(i + 1).toString(16).padStart(8, '0')}`;

t.test('ignores the sampled flag of an untrusted client, at every entrance', async (t) => {
  const collector = await startCollector(t);
  const { ways, stop } = await entrances(t, collector.url, 0, []);
  for (const [i, [name, ask]] of Object.entries(ways).entries()) {
    for (let n = 0; n < 5; n++) await ask({ traceparent: parent(chosen(i), '01') });
    t.pass(name);
  }
  await stop();
  t.same(collector.spans, []);
});

t.test(
  'samples requests of untrusted clients by ratio, whatever ids and flags they choose',
  nightly,
  async (t) => {
    const collector = await startCollector(t);
    const { ways, stop } = await entrances(t, collector.url, 0.5, []);
    const names = Object.keys(ways);
    for (const [i, ask] of Object.values(ways).entries())
      for (let n = 0; n < 40; n++) await ask({ traceparent: parent(chosen(i), n % 2 === 0 ? '00' : '01') });
    await stop();
    for (const [i, name] of names.entries()) {
      const kept = collector.ofTrace(chosen(i)).filter(({ kind }) => kind === SERVER).length;
      t.ok(kept > 3 && kept < 37, `${kept} of 40 sampled, ${name}`);
    }
  },
);

t.test('follows the sampled flag of a trusted proxy, at every entrance', nightly, async (t) => {
  const collector = await startCollector(t);
  const { ways, stop } = await entrances(t, collector.url, 0, ['127.0.0.1']);
  const names = Object.keys(ways);
  for (const [i, ask] of Object.values(ways).entries()) {
    await ask({ traceparent: parent(chosen(i), '01') });
    await ask({ traceparent: parent(chosen(i + 100), '00') });
  }
  await stop();
  for (const [i, name] of names.entries()) {
    t.equal(collector.ofTrace(chosen(i)).filter(({ kind }) => kind === SERVER).length, 1, name);
    t.same(collector.ofTrace(chosen(i + 100)), [], name);
  }
});
