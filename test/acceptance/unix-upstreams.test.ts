import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, linkSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import { startCollector } from '../helpers/collector.js';
import { startFixture } from '../helpers/fixture.js';
import { send, serveHttp, startUpstream } from '../helpers/http.js';
import { run, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

/* Upstreams on Unix sockets, with a started process. */

const folder = temporaryFolder(t);
const at = (name: string) => join(folder, name);
const collector = await startCollector(t);

/** An upstream in its own process, so that a kill leaves its socket file behind. */
const PROGRAM = `const { createServer } = require('node:http');
createServer((req, res) => res.end(String(process.pid))).listen(process.argv[1], () => console.log('listening'));`;
async function startProcess(t: Test, path: string): Promise<ChildProcess> {
  rmSync(path, { force: true });
  const child = spawn(process.execPath, ['-e', PROGRAM, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => void child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  return child;
}

const echo = await startUpstream(t, at('echo.sock'));
const sockets = new WebSocketServer({ server: echo.server });
sockets.on('connection', (socket) =>
  socket.on('message', (data: Buffer) => socket.send(`${data.toString()}!`)),
);
t.teardown(() => sockets.clients.forEach((client) => client.terminate()));
const other = await startUpstream(t);

let checkStatus = 200;
const checks: (string | undefined)[] = [];
const checked = await serveHttp(
  t,
  ({ url, headers }, res) => {
    if (url === '/healthz') checks.push(headers.host);
    res.writeHead(url === '/healthz' ? checkStatus : 200).end('checked');
  },
  {},
  at('checked.sock'),
);

writeFileSync(at('file'), '');
// A killed server leaves its socket file behind.
const killed = createServer().listen(at('killed'));
await once(killed, 'listening');
linkSync(at('killed'), at('left.sock'));
await new Promise((done) => killed.close(done));

const health_check = { path: '/healthz', interval: '100ms', timeout: '1s' };
const upstreams = {
  echo: { url: echo.url },
  named: { url: echo.url, host: 'api.internal' },
  own: { url: echo.url, host: 'upstream' },
  both: { urls: [other.url, echo.url] },
  checked: { urls: [checked.url, other.url], health_check },
  restarted: { url: `unix://${at('restarted.sock')}` },
  missing: { url: `unix://${at('missing.sock')}` },
  file: { url: `unix://${at('file')}` },
  left: { url: `unix://${at('left.sock')}` },
  half: { urls: [`unix://${at('missing.sock')}`, echo.url] },
};
const config = {
  upstream: undefined,
  upstreams,
  tracing: { otlp: collector.url },
  routes: Object.keys(upstreams).map((name) => ({
    path: `/${name}/*`,
    auth: 'none',
    upstream: name,
    strip_prefix: `/${name}`,
  })),
  default_route: { action: 'api', upstream: 'echo' },
};
const { url, server, token } = await startFixture(t, config);
const metrics = async () => (await send(server.admin, '/metrics')).text;

/** Waits for a log message about a socket. */
const logged = (name: string, text: string) =>
  until(
    () =>
      server
        .stdout()
        .split('\n')
        .some((line) => line.includes(`"address":"unix://${at(name)}"`) && line.includes(text)),
    `${name}: ${text}`,
  );

t.test('forwards requests, bodies and WebSockets as over TCP', async (t) => {
  const headers = { 'Service-Key': await token('engineer') };
  t.match(await send(url, '/a/b?c=d', { headers }), { status: 200, json: { method: 'GET', target: '/a/b?c=d', headers: { host: new URL(url).host } } });
  const identity = echo.received.at(-1)?.headers;
  t.match(identity, { 'x-auth-user-id': 'engineer', 'x-forwarded-host': new URL(url).host }, 'with the same identity');
  t.equal(identity?.['service-key'], undefined);
  t.equal((await send(url, '/a/b')).status, 401);
  const body = 'x'.repeat(300_000);
  t.match(await send(url, '/echo/post', { method: 'POST', body }), { status: 200, json: { method: 'POST', body } });
  t.match(await send(url, '/named/x', { headers: { Host: 'a.example' } }), { json: { headers: { host: 'api.internal', 'x-forwarded-host': 'a.example' } } });
  t.match(await send(url, '/own/x', { headers: { Host: 'a.example' } }), { json: { headers: { host: 'localhost' } } });

  const socket = new WebSocket(`${url.replace('http', 'ws')}/a/socket`, { headers });
  await once(socket, 'open');
  socket.send('hello');
  t.equal(String((await once(socket, 'message'))[0]), 'hello!');
  socket.close();
  await once(socket, 'close');
}); // prettier-ignore

t.test('addresses of both kinds share the requests', async (t) => {
  echo.received.splice(0);
  other.received.splice(0);
  for (let i = 0; i < 10; i++) t.equal((await send(url, '/both/x')).status, 200);
  const requests = [echo, other].map(({ received }) => received.filter(({ target }) => target === '/x'));
  t.same(
    requests.map(({ length }) => length),
    [5, 5],
  );
});

t.test('a health check disables a socket, and enables it again', async (t) => {
  const gauge = `latchkey_upstream_healthy{upstream="checked",address="${checked.url}"}`;
  const isHealthy = async (value: number) => (await metrics()).includes(`${gauge} ${value}\n`);
  await until(() => checks.length > 0, 'checked');
  t.equal(checks[0], 'localhost');
  await until(() => isHealthy(1), 'enabled');
  checkStatus = 503;
  await until(() => isHealthy(0), 'disabled');
  await logged('checked.sock', '"reason":"health check responded with 503"');
  for (let i = 0; i < 6; i++) t.not((await send(url, '/checked/x')).text, 'checked');
  checkStatus = 200;
  await until(() => isHealthy(1), 'enabled again');
});

t.test('reaches an upstream that restarts at the same path', async (t) => {
  const path = at('restarted.sock');
  const first = await startProcess(t, path);
  t.equal((await send(url, '/restarted/x')).text, String(first.pid));
  const gone = once(first, 'exit');
  first.kill('SIGKILL');
  await gone;
  t.ok(existsSync(path));
  t.equal((await send(url, '/restarted/x')).status, 502);
  await logged('restarted.sock', 'ECONNREFUSED');
  const second = await startProcess(t, path);
  t.equal((await send(url, '/restarted/x')).text, String(second.pid));
});

t.test('the log says why a socket is unreachable; clients and other addresses are not affected', async (t) => {
  for (const [name, file, reason] of [
    ['missing', 'missing.sock', 'the socket does not exist; the upstream creates it when it starts'],
    ['file', 'file', 'ECONNREFUSED'],
    ['left', 'left.sock', 'ECONNREFUSED'],
  ] as const) {
    const reply = await send(url, `/${name}/x`);
    t.match(reply, { status: 502, json: { detail: 'The upstream cannot be reached' } }, name);
    t.notMatch(reply.text + reply.rawHeaders.join(), folder, name);
    await logged(file, reason);
  }
  for (let i = 0; i < 10; i++) t.equal((await send(url, '/half/x', { method: 'POST' })).status, 200);
  await logged('missing.sock', '"msg":"upstream address unhealthy; taken out of use"');
  const gauge = `latchkey_upstream_healthy{upstream="half",address="unix://${at('missing.sock')}"} 0\n`;
  await until(async () => (await metrics()).includes(gauge), 'the metric');
}); // prettier-ignore

t.test('a span names the socket', async (t) => {
  const calls = () => collector.spans.filter(({ attributes }) => attributes['latchkey.upstream'] === 'echo');
  await until(() => calls().length > 0, 'a span arrives');
  t.match(calls()[0]?.attributes, {
    'url.path': '/a/b',
    'server.address': at('echo.sock'),
    'network.transport': 'unix',
  });
  t.notMatch(Object.keys(calls()[0]?.attributes ?? {}).join(), /server\.port|url\.full/);
});

t.test('check --online reports which sockets answer', async (t) => {
  const file = writeConfig(temporaryFolder(t), { ...config, tracing: undefined });
  const { code, stdout, stderr } = await run(['check', '--online', '--config', file]);
  t.equal(code, 1);
  t.match(stdout, `upstreams.echo ${echo.url}: ok\n`);
  t.match(
    stderr,
    `upstreams.missing unix://${at('missing.sock')}: no such file or directory (ENOENT); the socket does not exist; the upstream creates it when it starts`,
  );
  t.match(stderr, `upstreams.file unix://${at('file')}: connection refused (ECONNREFUSED)`);
});

t.test('none of this logs an error', async (t) => {
  t.notMatch(server.stdout(), /"level":[56]0/);
});
