import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import t from 'tap';
import { reportEvictionsTo } from '../../src/observe/evictions.js';
import type { Log } from '../../src/observe/log.js';
import { metrics as counters, readMetrics } from '../../src/observe/metrics.js';
import type { Services } from '../../src/pipeline/services.js';
import { createForward } from '../../src/upstream/forward.js';
import { createUpgrade } from '../../src/upstream/upgrade.js';
import { HANDSHAKE } from '../helpers/entrances.js';
import { serveHttp } from '../helpers/http.js';
import { startInProcess } from '../helpers/in-process.js';
import { until } from '../helpers/until.js';
import { acceptOf } from '../helpers/wire.mjs';

const SIZE = 4;
const MAX_WAITING = 9 * SIZE;
const OTHERS = 20;

/** Accepts WebSockets, and holds all else: `/quick` until it is released. */
async function serveHolding(t: Parameters<typeof serveHttp>[0]) {
  const received: string[] = [];
  const held: (ServerResponse | Duplex)[] = [];
  const quick: ServerResponse[] = [];
  let isReleased = false;
  /** Responds to what asks for `/quick`, from now on at once. */
  const release = () => {
    isReleased = true;
    for (const each of quick) each.end();
  };
  const { url, server } = await serveHttp(t, (req, res) => {
    received.push(`${req.method} ${req.url}`);
    if (req.url?.startsWith('/quick') !== true) held.push(res);
    else if (isReleased) res.end();
    else quick.push(res);
    if (req.url?.startsWith('/begun') === true) res.write('x');
  });
  server.on('upgrade', (req, socket) => {
    received.push(`WebSocket ${req.url}`);
    const accept = acceptOf(String(req.headers['sec-websocket-key']));
    socket.on('error', () => undefined).resume();
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    held.push(socket);
  });
  return { url, received, held, quick, release };
} // prettier-ignore

async function startHolding(t: Parameters<typeof startInProcess>[0] & Parameters<typeof serveHttp>[0]) {
  const upstream = await serveHolding(t);
  const [forward, upgrade] = [createForward([]), createUpgrade([])];
  const settings = { url: upstream.url, max_connections: SIZE, max_waiting: MAX_WAITING, wait_timeout: '60s', response_timeout: '60s' };
  const config = {
    listen: { trusted_proxies: ['127.0.0.1'] },
    upstreams: { api: settings },
    upstream: undefined,
    default_route: { action: 'api', upstream: 'api' },
  };
  let waiting = () => 0;
  const services = ({ upstreams }: Services) => {
    waiting = () => upstreams.named('api').limiter.waiting;
    return { forward, upgrade };
  };
  const inProcess = await startInProcess(t, config, { services });
  return { ...upstream, ...inProcess, waiting: () => waiting() };
} // prettier-ignore

type Started = Awaited<ReturnType<typeof startHolding>>;
type Headers = Record<string, string>;

const WAYS: Record<
  string,
  (started: Started, path: string, headers: Headers) => Promise<{ status: number }>
> = {
  'slow uploads': ({ request }, path, headers) =>
    request(path, { method: 'PUT', headers: { ...headers, 'Content-Length': '9' } }),
  'POSTs without a body over HTTP/2': ({ requestByHttp2 }, path, headers) =>
    requestByHttp2(path, { method: 'POST', headers }),
  'idle WebSockets': ({ handshake }, path, headers) =>
    handshake(path, { headers: { ...headers, ...HANDSHAKE } }),
};

for (const [way, hold] of Object.entries(WAYS))
  for (const [whose, network, isOneToken] of [
    ['network', () => '198.51.100.1', false],
    ['IPv6 network', (i: number) => `2001:db8::${i + 1}`, false],
    ['token on several networks', (i: number) => `198.51.100.${i + 1}`, true],
  ] as const)
    t.test(`others are served while one holds ten times the connections: ${way}, one ${whose}`, async (t) => {
      const started = await startHolding(t);
      const { received, held, request, token, waiting, release } = started;
      const first = await token('superuser');
      const as = (address: string, secret: string) => ({ 'Service-Key': secret, 'X-Forwarded-For': address });
      const outcomes: number[] = [];
      const many: Promise<unknown>[] = [];
      const more = () => {
        const asked = hold(started, `/held/${many.length}`, as(network(many.length), first));
        many.push(asked.then(({ status }) => outcomes.push(status), () => outcomes.push(0)));
      };
      while (many.length < SIZE) {
        more();
        await until(() => held.length === many.length, 'the request at the upstream');
      }
      while (many.length < SIZE + MAX_WAITING) more();
      await until(() => waiting() === MAX_WAITING, 'a full queue');
      t.equal((await request('/quick/same', { headers: as(network(0), first) })).status, 503, 'the queue is full');
      const secrets = await Promise.all(Array.from({ length: OTHERS }, async () => (isOneToken ? token('superuser') : first)));
      const asked = secrets.map(async (secret, i) => request(`/quick/${i}`, { headers: as(`203.0.113.${i}`, secret) }));
      await until(() => outcomes.filter((status) => status === 503).length >= OTHERS - SIZE, 'the last of the queue gives way');
      release();
      const others = await Promise.all(asked);
      t.same(others.map(({ status }) => status), others.map(() => 200));
      t.equal(new Set(received).size, received.length, 'no request is resent');
    }); // prettier-ignore

t.test('what gives way is told so, or broken off if its response has begun', async (t) => {
  const logged: unknown[] = [];
  reportEvictionsTo({ warn: (entry: unknown) => void logged.push(entry) } as unknown as Log, counters.evictions);
  const { request, held, quick, token, release } = await startHolding(t);
  const secret = await token('superuser');
  const ask = (method: string, path: string, address = '198.51.100.1') =>
    request(path, { method, headers: { 'Service-Key': secret, 'X-Forwarded-For': address } });
  const many: Promise<unknown>[] = [];
  for (const [method, path] of [['GET', '/begun'], ['POST', '/held'], ['GET', '/held'], ['GET', '/held']] as const) {
    many.push(ask(method, path).catch(() => 'broken off'));
    await until(() => held.length === many.length, 'the request at the upstream');
  }
  const asked = ['203.0.113.1', '203.0.113.2'].map(async (address) => ask('GET', '/quick', address));
  await until(() => quick.length === asked.length, 'the others at the upstream');
  release();
  const others = await Promise.all(asked);
  t.same(others.map(({ status }) => status), [200, 200]);
  t.match(await Promise.all(many.slice(0, 2)), ['broken off', { status: 503, headers: { 'retry-after': String } }]);
  const metrics = (await readMetrics()) as { name: string; values: { labels: object; value: number }[] }[];
  const evictions = metrics.find(({ name }) => name === 'latchkey_evictions_total')?.values ?? [];
  t.match(evictions.map(({ labels }) => Object.keys(labels)), [['resource']]);
  t.ok((evictions[0]?.value ?? 0) >= 2, 'they are counted');
  t.match(logged, [{ resource: 'upstream_slots', holder: String }], 'and logged, once at first');
}); // prettier-ignore
