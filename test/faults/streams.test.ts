import { createServer, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import { startFixture } from '../helpers/fixture.js';
import { listenOnLoopback, send } from '../helpers/http.js';
import { startRedis } from '../helpers/redis.js';

/** The bound that is set here, and what the machine may take on top. */
const BOUND_MS = 1_000;
const SLACK_MS = 4_000;

/** An upstream whose answers and WebSockets go on until somebody ends them. */
async function startStreams(t: { teardown: (fn: () => void) => void }) {
  const upstream = createServer((_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' });
    const timer = setInterval(() => res.write('data: x\n\n'), 50);
    res.on('close', () => clearInterval(timer));
  });
  const sockets = new WebSocketServer({ server: upstream });
  sockets.on('connection', (socket) => {
    const timer = setInterval(() => socket.send('x'), 50);
    socket.on('close', () => clearInterval(timer)).on('error', () => undefined);
  });
  const url = await listenOnLoopback(upstream);
  t.teardown(() => {
    upstream.close();
    upstream.closeAllConnections();
    for (const socket of sockets.clients) socket.terminate();
  });
  return url;
}

/** Opens an event stream and a WebSocket; says when each ended and whether it looked whole. */
function openBoth(url: string, headers: Record<string, string>) {
  const startedAt = Date.now();
  const events = new Promise<{ ms: number; whole: boolean }>((resolve, reject) => {
    request(`${url}/events`, { headers, agent: false }, (res) => {
      if (res.statusCode !== 200) reject(new Error(`${res.statusCode}`));
      res.resume().on('error', () => undefined);
      res.on('close', () => resolve({ ms: Date.now() - startedAt, whole: res.complete }));
    })
      .on('error', reject)
      .end();
  });
  const socket = new WebSocket(`${url.replace('http', 'ws')}/socket`, { headers });
  const tunnel = new Promise<{ ms: number }>((resolve, reject) => {
    socket.on('close', () => resolve({ ms: Date.now() - startedAt })).on('error', reject);
  });
  let over = 0;
  void events.then(() => over++);
  void tunnel.then(() => over++);
  return { events, tunnel, over: () => over, end: () => socket.terminate() };
}

t.test('what a credential opened ends when it no longer holds', async (t) => {
  const upstream = await startStreams(t);
  const { url, server, token, login } = await startFixture(t, {
    upstream,
    proxy: { stream_recheck: `${BOUND_MS}ms` },
    audit: { to: 'audit.jsonl' },
  });
  const lasting = openBoth(url, { 'Service-Key': await token('engineer') });
  t.teardown(lasting.end);
  const revoked = await token('superuser');
  const session = await login('billing');
  const cases: [string, Record<string, string>, () => Promise<unknown>][] = [
    [
      'a revoked token',
      { 'Service-Key': revoked },
      () => send(url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': revoked } }),
    ],
    [
      'an expired token',
      { 'Service-Key': await token('superuser', { expires_at: new Date(Date.now() + 3_000).toISOString() }) },
      () => sleep(2_000),
    ],
    ['an ended session', { Cookie: session }, () => send(url, '/logout', { method: 'POST', headers: { Cookie: session } })],
  ];
  for (const [name, headers, end] of cases) {
    const opened = openBoth(url, headers);
    await sleep(300);
    t.equal(opened.over(), 0, `${name}: both are open`);
    const endedAt = Date.now();
    await end();
    const events = await opened.events;
    await opened.tunnel;
    t.ok(Date.now() - endedAt < 3_000 + BOUND_MS + SLACK_MS, name);
    t.notOk(events.whole, `${name}: the client sees that it broke`);
  }
  t.equal(lasting.over(), 0, 'another one goes on');
  const { text } = await send(server.admin, '/metrics');
  t.match(text, /^latchkey_requests_total\{route="\/",outcome="ended_by_recheck",status_class="2xx"\} 3$/m);
}); // prettier-ignore

t.test('a narrowed policy ends what it no longer allows', async (t) => {
  const upstream = await startStreams(t);
  const { url, server, token, configFile } = await startFixture(t, {
    upstream,
    proxy: { stream_recheck: `${BOUND_MS}ms` },
  });
  const headers = { 'Service-Key': await token('engineer') };
  const opened = openBoth(url, headers);
  await sleep(300);
  const { readFileSync, writeFileSync } = await import('node:fs');
  const text = readFileSync(configFile, 'utf8');
  writeFileSync(configFile, `${text}routes:\n  - { path: "/*", auth: deny }\n`);
  t.equal((await send(server.admin, '/-/reload', { method: 'POST' })).status, 200);
  const reloadedAt = Date.now();
  await Promise.all([opened.events, opened.tunnel]);
  t.ok(Date.now() - reloadedAt < BOUND_MS + SLACK_MS);
});

t.test('a store that is away ends streams only when it was away for the whole time', async (t) => {
  const upstream = await startStreams(t);
  const redis = await startRedis(t);
  const { url, token } = await startFixture(t, {
    upstream,
    store: { type: 'redis', url: redis.url, sealing_key: '00'.repeat(32) },
    cache: { size: 0 },
    proxy: { stream_recheck: '6s' },
  });
  const opened = openBoth(url, { 'Service-Key': await token('superuser') });
  await sleep(300);
  redis.signal('SIGSTOP');
  // It is away when the streams are asked about, after half of the time, and back before the whole is over.
  await sleep(4_000);
  redis.signal('SIGCONT');
  await sleep(4_000);
  t.equal(opened.over(), 0, 'a short absence ends nothing');
  redis.signal('SIGSTOP');
  const stoppedAt = Date.now();
  await Promise.all([opened.events, opened.tunnel]);
  t.ok(Date.now() - stoppedAt < 6_000 + SLACK_MS, 'a long one does');
  redis.signal('SIGCONT');
});
