import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { startFixture } from '../helpers/fixture.js';
import { freshMetrics, serveTcp } from '../helpers/http.js';
import { HANDSHAKE } from '../helpers/entrances.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

/*
 * Clients that leave while their request is in progress, behind bytes that nobody has read. Without
 * attention to them, each request would last until `response_timeout`.
 */

const LIMIT_MS = 60_000;
/** Far less than that, and enough for a busy machine. */
const SOON_MS = 20_000;

const LARGE = 8_000_000;
/** What the upstream does with a request, by the first segment of its path; it answers no other. */
const { url: upstreamUrl } = await serveTcp(t, (socket) => {
  socket.once('data', (data) => {
    const [, kind] = /^[A-Z]+ \/(\w+)/.exec(data.toString('latin1')) ?? [];
    if (kind === 'unread') socket.pause();
    if (kind === 'begun') socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n');
    if (kind === 'large') socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${LARGE}\r\n\r\n${'x'.repeat(LARGE)}`);
  });
}); // prettier-ignore
const limits = {
  response_timeout: `${LIMIT_MS}ms`,
  idle_timeout: `${LIMIT_MS}ms`,
  wait_timeout: `${LIMIT_MS}ms`,
};
const config = {
  upstream: undefined,
  upstreams: {
    api: { url: upstreamUrl, ...limits },
    busy: { url: upstreamUrl, ...limits, max_connections: 1 },
  },
  routes: [{ path: '/queued/*', auth: 'none', upstream: 'busy' }],
  default_route: { auth: 'none', upstream: 'api' },
  limits: { body_timeout: `${LIMIT_MS}ms`, drain_timeout: `${LIMIT_MS}ms` },
  decision: { host: '127.0.0.1', port: 0 },
};
const tls = selfSigned(temporaryFolder(t), 'one');

const request = (line: string, more = '') => `${line} HTTP/1.1\r\nHost: a\r\n${more}\r\n`;
const get = (path: string) => request(`GET ${path}`);
/** Sends a part of a body. */
const post = (path: string, sent: number, length: number) =>
  request(`POST ${path}`, `Content-Length: ${length}\r\n`) + 'x'.repeat(sent);
/** Requests of this many bytes in total. */
const later = (bytes: number) =>
  request('GET /later', `X-Filler: ${'x'.repeat(7_950)}\r\n`).repeat(bytes / 8_000);
const fields = Object.entries(HANDSHAKE).map(([name, value]) => `${name}: ${value}\r\n`).join(''); // prettier-ignore
const handshake = (path: string) => request(`GET ${path}`, fields);

/** What a client has sent when it leaves, and whether its request is in progress. */
const STATES: readonly [sent: string, waits: boolean][] = [
  [get('/plain'), true],
  [get('/plain') + later(80_000), true],
  [get('/plain') + later(4_000_000), true],
  [post('/body', 10, 10), true],
  [post('/body', 10, 10) + later(80_000), true],
  [post('/body', 10, 100), true],
  [post('/unread', 4_000_000, 50_000_000), true],
  [`${request('POST /unread', 'Transfer-Encoding: chunked\r\n')}ffffff\r\n${'x'.repeat(4_000_000)}`, true],
  [get('/begun') + later(80_000), true],
  [get('/large'), true],
  [get('/large') + later(80_000), true],
  [get('/queued/x') + later(80_000), true],
  [post('/queued/x', 40_000, 40_000), true],
  [post('/queued/x', 400_000, 400_000), true],
  [`${handshake('/queued/ws')}12345678`, true],
  [handshake('/ws'), true],
  [`${handshake('/ws')}12345678`, true],
  // Refused: a client must wait for the response.
  [`${handshake('/ws')}${'x'.repeat(300_000)}`, false],
  [post('/login', 10, 100), true],
];

type Client = ReturnType<typeof openRaw>;
const WAYS: readonly [name: string, leave: (client: Client) => unknown][] = [
  ['ends its side', ({ socket }) => socket.end()],
  ['closes', ({ socket }) => socket.destroySoon()],
  ['resets', ({ socket }) => ('encrypted' in socket ? socket.destroy() : socket.resetAndDestroy())],
];

async function inFlight(admin: string): Promise<number[]> {
  const text = await freshMetrics(admin);
  const sum = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}\\b.* (\\d+)$`, 'gm'))].reduce((all, [, n]) => all + Number(n), 0);
  return [sum('latchkey_requests_in_flight'), sum('latchkey_upstream_active_requests')];
}

for (const [name, more] of Object.entries({
  HTTP: {},
  HTTPS: { listen: { host: '127.0.0.1', port: 0, tls } },
}))
  t.test(`nothing of a request is left when its client has left: ${name}`, async (t) => {
    const { server, url } = await startFixture(t, { ...config, ...more });
    const check = 'X-Original-Method: POST\r\nX-Original-URI: /x\r\nContent-Length: 100\r\n';
    const open = (sent: string, to = url) => openRaw(to, { bytes: sent, reads: false, halfOpen: true });
    const leaveAll = async (when: string, leave: (client: Client) => unknown, isEarly: boolean) => {
      const clients = STATES.map(([sent]) => open(sent));
      clients.push(open(request('POST /auth-request', check), server.decision));
      const count = STATES.filter(([, waits]) => waits).length;
      if (!isEarly)
        await until(async () => ((await inFlight(server.admin))[0] ?? 0) >= count, `${when}: in progress`);
      for (const client of clients) leave(client);
      return clients;
    };
    for (const [way, leave] of WAYS) {
      const clients = await leaveAll(way, leave, false);
      const isOver = async () => (await inFlight(server.admin)).join() === '0,0';
      await until(isOver, way, SOON_MS).catch(() => undefined);
      t.same(await inFlight(server.admin), [0, 0], `a client that ${way}`);
      for (const { socket } of clients) socket.destroy();
    }
    const since = performance.now();
    const stays = await Promise.all(WAYS.map(([way, leave]) => leaveAll(way, leave, true)));
    t.match(await server.stop(), { code: 0 });
    t.ok(performance.now() - since < SOON_MS, 'a drain does not wait for them');
    for (const { socket } of stays.flat()) socket.destroy();
  });
