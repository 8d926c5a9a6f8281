import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { serveTcp } from '../helpers/http.js';
import { selfSigned } from '../helpers/certificates.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';
import { acceptOf } from '../helpers/wire.mjs';

const CHUNKS = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n';
const REST = '5\r\n done\r\n0\r\n\r\n';
const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const UPGRADE = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
/** Connections to the upstream whose requests a test answers. */
const held: Socket[] = [];
/** How the upstream handles a request, by its path. */
const BEHAVIOURS: Readonly<Record<string, (socket: Socket) => void>> = {
  '/whole': (socket) => void socket.write(CHUNKS + REST),
  '/breaks': (socket) => {
    socket.write(CHUNKS);
    setTimeout(() => socket.destroy(), 500);
  },
  '/goes-on': (socket) => void socket.write(CHUNKS),
  '/ws': (socket) => void socket.write(`HTTP/1.1 101 Switching Protocols\r\n${UPGRADE}Sec-WebSocket-Accept: ${acceptOf(KEY)}\r\n\r\n`),
  '/later': (socket) => void held.push(socket),
}; // prettier-ignore
const { url: upstreamUrl } = await serveTcp(t, (socket) => {
  socket.on('data', (data) => {
    const [, path = ''] = /^[A-Z]+ (\S+) HTTP/.exec(data.toString('latin1')) ?? [];
    BEHAVIOURS[path]?.(socket);
  });
});
const config = {
  upstream: undefined,
  upstreams: { api: { url: upstreamUrl, idle_timeout: '2s' } },
  default_route: { auth: 'none' },
  routes: [{ path: '/private', action: 'service:read' }],
};
const { url } = await startFixture(t, config);

/** Waits for the first part of a response. */
const begun = (client: ReturnType<typeof openRaw>) =>
  until(() => client.text().includes('half'), 'the response begins');
const get = (path: string, version = '1.1') => `GET ${path} HTTP/${version}\r\nHost: a\r\n\r\n`;

t.test('a truncated response to HTTP/1.0 never looks complete', async (t) => {
  const drained = await startFixture(t, { ...config, limits: { drain_timeout: '1s' } });
  const rows: [string, () => ReturnType<typeof openRaw>, string][] = [
    ['complete', () => openRaw(url, { bytes: get('/whole', '1.0') }), 'undefined'],
    ['the upstream disconnects', () => openRaw(url, { bytes: get('/breaks', '1.0') }), 'ECONNRESET'],
    ['the upstream stalls', () => openRaw(url, { bytes: get('/goes-on', '1.0') }), 'ECONNRESET'],
    ['the client ends its side', () => {
      const client = openRaw(url, { bytes: get('/goes-on', '1.0'), halfOpen: true });
      void begun(client).then(() => client.socket.end());
      return client;
    }, 'ECONNRESET'],
    ['the server stops', () => {
      const client = openRaw(drained.url, { bytes: get('/goes-on', '1.0') });
      void begun(client).then(() => drained.server.stop());
      return client;
    }, 'ECONNRESET'],
  ]; // prettier-ignore
  await Promise.all(
    rows.map(async ([about, open, error]) => {
      const client = open();
      await until(() => client.ended, about);
      t.match(client.text(), /half/, `${about}: it started`);
      t.match(String(client.error), error, about);
      client.socket.destroy();
    }),
  );
});

/**
 * The longest time between two pieces of a body, in milliseconds, in which its client surely counts
 * as one that is still sending.
 */
const LONGEST_PAUSE = 1_600;

/**
 * Uploads a body in pieces to a request that is refused at once, and reads nothing for `ms`
 * milliseconds. It begins again if a busy machine makes it pause.
 */
async function upload(piece: string, every: number, ms: number, tries = 3): ReturnType<typeof uploadOnce> {
  const done = await uploadOnce(piece, every, ms);
  if (done.longest < LONGEST_PAUSE || tries === 1) return done;
  done.client.socket.destroy();
  return upload(piece, every, ms, tries - 1);
}

async function uploadOnce(piece: string, every: number, ms: number) {
  const client = openRaw(url, { reads: false });
  client.write('POST /private HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n');
  const startedAt = performance.now();
  let longest = 0;
  for (let at = startedAt; at - startedAt < ms && client.error === undefined;) {
    client.write(piece);
    await sleep(every);
    longest = Math.max(longest, performance.now() - at);
    at = performance.now();
  }
  client.socket.resume();
  return { client, took: performance.now() - startedAt, longest };
}

t.test('a refused upload gets its response, but not unlimited time', async (t) => {
  const slow = upload('x'.repeat(65_536), 100, 2_000).then(async ({ client }) => {
    await until(() => client.text().includes('\r\n\r\n'), 'the response');
    t.match(client.text(), /^HTTP\/1\.1 401 /);
    client.socket.destroy();
  });
  const dripping = upload('x', 200, 30_000).then(({ client, took }) => {
    t.ok(client.error !== undefined && took > 8_000 && took < 29_000, `closed after ${took} ms`);
  });
  await Promise.all([slow, dripping]);
});

t.test('a drain does not wait for idle connections, and adds Connection: close to responses', async (t) => {
  const { url: ending, server } = await startFixture(t, config);
  const silent = openRaw(ending);
  const waiting = openRaw(ending, { bytes: get('/later') });
  await until(() => held.length === 1, 'the upstream has the request');
  const startedAt = Date.now();
  const stopped = server.stop();
  await until(() => server.stdout().includes('draining'), 'the drain');
  held[0]?.write(CHUNKS + REST);
  t.match(await stopped, { code: 0 });
  const took = Date.now() - startedAt;
  t.ok(took < 10_000, `it took ${took} ms of 30 s`);
  await until(() => silent.ended && waiting.ended, 'both are closed');
  t.match(waiting.text(), /\r\nConnection: close\r\n[^]*\r\n0\r\n\r\n$/);
});

t.test('a drain ends in time although clients ask for WebSockets meanwhile', async (t) => {
  const tls = selfSigned(temporaryFolder(t), 'one');
  const listen = { host: '127.0.0.1', port: 0 };
  for (const [about, more] of [['HTTP', { listen }], ['HTTPS', { listen: { ...listen, tls } }]] as const) {
    const { url: ending, server } = await startFixture(t, { ...config, ...more });
    const client = openRaw(ending, { bytes: get('/whole') });
    await until(() => client.text().endsWith(REST), `${about}: the first response`);
    const startedAt = Date.now();
    const stopped = server.stop();
    await until(() => server.stdout().includes('draining'), `${about}: the drain`);
    client.write(`GET /ws HTTP/1.1\r\nHost: a\r\n${UPGRADE}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${KEY}\r\n\r\n`);
    t.match(await stopped, { code: 0 }, about);
    const took = Date.now() - startedAt;
    t.ok(took < 10_000, `${about}: it took ${took} ms of 30 s`);
    const answer = client.text().slice(client.text().lastIndexOf('HTTP/1.1'));
    t.match(answer, /^HTTP\/1\.1 503 [^]*\r\nRetry-After: 1\r\n/, about);
  }
}); // prettier-ignore
