import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import {
  Agent,
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import { join, resolve } from 'node:path';
import * as fc from 'fast-check';
import t from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import { startFixture } from '../helpers/fixture.js';
import { listenOnLoopback, send, serveHttp, serveTcp, startUpstream } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { options, told } from '../helpers/property.js';
import { freePort } from '../helpers/free-port.mjs';
import { nightly } from '../helpers/nightly.js';
import { until } from '../helpers/until.js';

type Behaviour = (req: IncomingMessage, res: ServerResponse) => void;
const folder = temporaryFolder(t);

/**
 * An address whose behavior each case sets. It starts listening when its case says so, on a port of
 * its choice.
 */
class Node {
  behave: Behaviour = (_req, res) => res.end('ok');
  readonly requests: IncomingMessage[] = [];
  readonly server: Server;

  constructor() {
    this.server = createServer((req, res) => {
      this.requests.push(req);
      this.behave(req, res);
    });
    t.teardown(() => {
      this.server.close();
      this.server.closeAllConnections();
    });
  }

  async listen(port = 0): Promise<string> {
    if (port === 0) return listenOnLoopback(this.server);
    await new Promise<void>((done) => void this.server.listen(port, '127.0.0.1', done));
    return `http://127.0.0.1:${port}`;
  }

  get seen(): number {
    return this.requests.splice(0).length;
  }
}

/** An address that reads the head of a request and then lets its case handle the connection. */
class RawNode {
  behave: (socket: Socket) => void = (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
  arrived = 0;

  async listen(): Promise<string> {
    const { url } = await serveTcp(t, (socket) =>
      socket.on('data', () => {
        this.arrived += 1;
        this.behave(socket);
      }),
    );
    return url;
  }
}

const three = [new Node(), new Node(), new Node()];
const pair = [new Node(), new Node()];
const checked = [new Node(), new Node()];
const lonely = new Node();
const named = new Node();
const raw = [new RawNode(), new RawNode()];
const ports = {
  late: await freePort(),
  gone: [await freePort(), await freePort()],
  load: [await freePort(), await freePort()],
};
const sockets = new WebSocketServer({ noServer: true });
const echo = await startUpstream(t);
const handshakes: IncomingMessage[] = [];
for (const server of [echo.server, named.server, pair[0]?.server]) {
  server?.on('upgrade', (req, socket, head) => {
    handshakes.push(req);
    sockets.handleUpgrade(req, socket, head, (ws) =>
      ws.on('message', (data: Buffer) => ws.send(data.toString())),
    );
  });
}
t.teardown(() => sockets.clients.forEach((client) => client.terminate()));

const loopback = (port: number | undefined) => `http://127.0.0.1:${port}`;
const addresses = {
  pair: [(await pair[0]?.listen()) ?? '', loopback(ports.late)],
  checked: await Promise.all(checked.map((node) => node.listen())),
  named: await named.listen(),
};
const healthCheck = () => ({ path: '/healthz?deep', interval: '100ms', timeout: '1s' });
const route = (name: string) => ({
  path: `/${name}/*`,
  auth: 'none',
  upstream: name,
  strip_prefix: `/${name}`,
  body_on_read: 'allow',
});
const config = {
  upstream: undefined,
  upstreams: {
    echo: { url: `${echo.url}/base/` },
    three: { urls: await Promise.all(three.map((node) => node.listen())) },
    pair: { urls: addresses.pair },
    load: { urls: ports.load.map(loopback) },
    checked: { urls: addresses.checked.map((url) => `${url}/base`), health_check: healthCheck() },
    lonely: { url: await lonely.listen(), health_check: healthCheck() },
    gone: { urls: ports.gone.map(loopback) },
    raw: { urls: await Promise.all(raw.map((node) => node.listen())) },
    once: { urls: [loopback(ports.gone[0]), echo.url], retries: 0 },
    named: { url: addresses.named, host: 'api.internal:8443' },
    preserved: { url: addresses.named },
    own: { url: echo.url, host: 'upstream' },
  },
  routes: [
    { path: '/api', auth: 'none', strip_prefix: '/api' },
    { path: '/api/*', auth: 'none', strip_prefix: '/api' },
    { path: '/v1/:tenant/items/*', auth: 'none', strip_prefix: '/v1' },
    ...['three', 'pair', 'load', 'checked', 'lonely', 'gone', 'raw', 'once', 'named', 'preserved', 'own'].map(
      route,
    ),
  ],
  default_route: { action: 'api', upstream: 'echo' },
};
const { url, server, configFile } = await startFixture(t, config);

const get = (path: string) => send(url, path);
const metrics = async () => (await send(server.admin, '/metrics')).text;
const healthy = async (upstream: string, address = '') => {
  const line = new RegExp(
    `^latchkey_upstream_healthy\\{upstream="${upstream}",address="${address || '[^"]*'}"\\} (\\d)$`,
    'm',
  );
  return Number(line.exec(await metrics())?.[1]);
};
const retries = async (upstream: string) =>
  Number(
    new RegExp(`^latchkey_upstream_retries_total\\{upstream="${upstream}"\\} (\\d+)$`, 'm').exec(
      await metrics(),
    )?.[1] ?? 0,
  );
/** Log messages about an address. */
const lines = (address: string, message: string) =>
  server
    .stdout()
    .split('\n')
    .filter((line) => line.includes(`"${message}"`) && line.includes(`"address":"${address}"`));
const LEFT_OUT = 'upstream address unhealthy; taken out of use';
const USED_AGAIN = 'upstream address healthy; back in use';

t.test('a request goes to the least busy address, in turn among equals', async (t) => {
  const held = three.map((): ServerResponse[] => []);
  three.forEach((node, i) => (node.behave = (_req, res) => void held[i]?.push(res)));
  const waiting = Array.from({ length: 6 }, () => get('/three/x'));
  await until(() => held.flat().length === 6, 'all in flight');
  t.same(
    held.map((each) => each.length),
    [2, 2, 2],
  );
  for (const node of three.slice(1)) node.behave = (_req, res) => res.end('ok');
  for (const res of held.slice(1).flat()) res.end('ok');
  await until(async () => (await get('/three/y')).status === 200, 'the fast ones are idle');
  for (const node of three) node.requests.splice(0);
  for (let i = 0; i < 20; i++) t.equal((await get('/three/y')).status, 200);
  t.same(
    three.map(({ seen }) => seen),
    [0, 10, 10],
    'none waits behind the slow one',
  );
  for (const res of held[0] ?? []) res.end('ok');
  for (const reply of await Promise.all(waiting)) t.equal(reply.status, 200);
});

t.test('an unreachable address is skipped, probed now and then, and used again', async (t) => {
  const [here = '', late = ''] = addresses.pair;
  for (let i = 0; i < 60; i++) {
    const method = i % 2 === 0 ? 'POST' : 'GET';
    t.equal(
      (await send(url, `/pair/${i}`, { method, ...(method === 'POST' ? { body: `body ${i}` } : {}) })).status,
      200,
    );
  }
  t.same(
    pair[0]?.requests.map((req) => req.url),
    Array.from({ length: 60 }, (_, i) => `/${i}`),
    'each arrived once',
  );
  const tries = await retries('pair');
  t.ok(tries >= 3 && tries < 12, `${tries} were first sent to the other one`);
  t.same([await healthy('pair', here), await healthy('pair', late)], [1, 0]);
  t.match(lines(late, LEFT_OUT), [/"level":40.*"upstream":"pair".*"reason":"connect ECONNREFUSED/]);
  await pair[1]?.listen(ports.late);
  await until(
    async () => (await get('/pair/x')).status === 200 && (pair[1]?.requests.length ?? 0) > 0,
    'probed',
  );
  await until(async () => (await healthy('pair', late)) === 1, 'used again');
  t.equal(lines(late, USED_AGAIN).length, 1);
  t.equal(lines(late, LEFT_OUT).length, 1, 'each change is logged once');
  for (const node of pair) node.requests.splice(0);
  for (let i = 0; i < 10; i++) await get('/pair/x');
  t.same(
    pair.map(({ seen }) => seen),
    [5, 5],
  );
});

t.test(
  'a WebSocket goes to a reachable address, counts while it is open, and has its prefix stripped',
  async (t) => {
    pair[1]?.server.close();
    pair[1]?.server.closeAllConnections();
    const open = async () => {
      const ws = new WebSocket(`${url.replace('http', 'ws')}/pair/%73ocket?a=b`);
      await new Promise((done, reject) => ws.once('open', done).once('error', reject));
      const answer = new Promise<string>((done) =>
        ws.once('message', (data: Buffer) => done(data.toString())),
      );
      ws.send('hello');
      t.equal(await answer, 'hello');
      return ws;
    };
    const before = handshakes.length;
    const opened = [await open(), await open(), await open(), await open()];
    t.same(
      handshakes.slice(before).map((req) => req.url),
      Array(4).fill('/%73ocket?a=b'),
    );
    const again = new Node();
    await again.listen(ports.late);
    await until(
      async () => (await get('/pair/x')).status === 200 && again.requests.length > 0,
      'the other one is back',
    );
    await until(async () => (await healthy('pair', addresses.pair[1])) === 1, 'in use');
    again.requests.splice(0);
    for (let i = 0; i < 8; i++) await get('/pair/x');
    t.equal(again.seen, 8, 'it is less busy');
    for (const ws of opened) ws.terminate();
    await until(async () => {
      pair[0]?.requests.splice(0);
      again.requests.splice(0);
      for (let i = 0; i < 8; i++) await get('/pair/x');
      return again.seen === 4;
    }, 'closed ones no longer count');
  },
);

t.test(
  'killing an address under load fails no safe request, and sends no unsafe one twice',
  nightly,
  async (t) => {
    const files = ports.load.map((port) => join(folder, `${port}.log`));
    const startNode = async (i: number): Promise<ChildProcess> => {
      const child = spawn(
        process.execPath,
        [resolve('test/helpers/upstream-node.mjs'), String(ports.load[i]), files[i] ?? ''],
        {
          stdio: ['ignore', 'pipe', 'inherit'],
        },
      );
      t.teardown(() => void child.kill('SIGKILL'));
      await new Promise((done) => child.stdout?.once('data', done));
      return child;
    };
    const nodes = await Promise.all([startNode(0), startNode(1)]);
    const agent = new Agent({ keepAlive: true, maxSockets: 16 });
    t.teardown(() => agent.destroy());
    const ask = (method: string, path: string) =>
      new Promise<number>((done, reject) => {
        const req = request(`${url}${path}`, { method, agent }, (res) =>
          res.resume().on('end', () => done(res.statusCode ?? 0)),
        );
        req.on('error', reject).end(method === 'POST' ? 'x' : undefined);
      });
    const results: { method: string; path: string; status: number }[] = [];
    const load = new AbortController();
    const clients = Array.from({ length: 12 }, async (_, client) => {
      for (let i = 0; !load.signal.aborted; i++) {
        const method = client % 3 === 0 ? 'POST' : 'GET';
        const path = `/load/${client}-${i}`;
        results.push({ method, path, status: await ask(method, path) });
      }
    });
    await until(() => results.length > 150, 'under load');
    nodes[1]?.kill('SIGKILL');
    const killedAt = results.length;
    await until(() => results.length > killedAt + 60, 'requests continue');
    await startNode(1);
    const beforeReturn = readFileSync(files[1] ?? '', 'utf8').length;
    await until(() => readFileSync(files[1] ?? '', 'utf8').length > beforeReturn, 'it is back');
    load.abort();
    await Promise.all(clients);
    const failed = results.filter(({ status }) => status !== 200);
    t.same(
      failed.filter(({ method }) => method === 'GET'),
      [],
    );
    t.same(
      failed.filter(({ status }) => status !== 502),
      [],
      'an interrupted POST fails with 502',
    );
    const arrived = files.flatMap((file) => readFileSync(file, 'utf8').trim().split('\n'));
    const posts = arrived.filter((line) => line.startsWith('POST'));
    t.equal(new Set(posts).size, posts.length, 'no POST arrived twice');
    t.ok(posts.length > 40 && failed.length < 20, `${posts.length} arrived, ${failed.length} failed`);
  },
);

t.test(
  'a request that arrived is retried only if it is safe, and never after a byte of the response',
  async (t) => {
    const broken = (socket: Socket) => socket.destroy();
    const half = (socket: Socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf');
      setTimeout(() => socket.destroy(), 50);
    };
    const whole = (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    const early = (socket: Socket) => {
      socket.write('HTTP/1.1 103 Early Hints\r\n\r\n');
      setTimeout(() => socket.destroy(), 50);
    };
    for (const [name, method, first, second, expected, arrivals] of [
      ['GET', 'GET', broken, whole, 200, 2],
      ['HEAD', 'HEAD', broken, whole, 200, 2],
      ['a GET that breaks twice', 'GET', broken, broken, 502, 2],
      ['POST', 'POST', broken, broken, 502, 1],
      ['DELETE', 'DELETE', broken, broken, 502, 1],
      ['PURGE', 'PURGE', broken, broken, 502, 1],
      ['a GET with a body', 'GET', broken, broken, 502, 1],
      ['a truncated response', 'GET', half, half, 'broken', 1],
      ['an interim response', 'GET', early, early, 502, 1],
    ] as const) {
      let arrived = 0;
      for (const node of raw) {
        node.behave = (socket) => {
          arrived += 1;
          (arrived === 1 ? first : second)(socket);
        };
      }
      const body = name === 'a GET with a body' ? { body: 'x' } : {};
      const status = await send(url, '/raw/x', { method, ...body }).then(
        (reply) => reply.status,
        () => 'broken',
      );
      t.same([status, arrived], [expected, arrivals], name);
      // Complete responses in between keep both addresses healthy.
      for (const node of raw) node.behave = whole;
      for (let i = 0; i < 4; i++) await get('/raw/x');
    }
    const before = await retries('once');
    const statuses = await Promise.all([get('/once/a'), get('/once/b')]);
    t.same(
      statuses.map(({ status }) => status).toSorted((a, b) => a - b),
      [200, 502],
      'without retries, no other address is tried',
    );
    t.equal(await retries('once'), before);
  },
);

t.test('health checks disable an address and enable it again', async (t) => {
  const [a, b] = checked;
  const bad = addresses.checked[1] ?? '';
  for (const node of checked)
    node.behave = (req, res) => res.writeHead(req.url?.startsWith('/healthz') ? 302 : 200).end();
  const own = (node: Node | undefined) =>
    node?.requests.splice(0).filter((req) => !req.url?.startsWith('/healthz')).length ?? 0;
  await until(() => checked.every(({ requests }) => requests.length > 2), 'both are checked');
  t.match(b?.requests[0], {
    method: 'GET',
    url: '/healthz?deep',
    headers: { host: new URL(bad).host, 'user-agent': 'latchkey-health-check' },
  });
  t.equal(await healthy('checked', bad), 1, 'a redirect counts as healthy');
  if (b !== undefined)
    b.behave = (req, res) => res.writeHead(req.url?.startsWith('/healthz') ? 503 : 200).end();
  await until(async () => (await healthy('checked', bad)) === 0, 'unhealthy');
  t.match(lines(bad, LEFT_OUT), [/"reason":"health check responded with 503"/]);
  own(a);
  own(b);
  for (let i = 0; i < 10; i++) t.equal((await get('/checked/x')).status, 200);
  t.same([own(a), own(b)], [10, 0]);
  if (b !== undefined) b.behave = (_req, res) => void res.socket?.destroy();
  await until(() => (b?.requests.length ?? 0) > 3, 'still checked');
  if (b !== undefined) b.behave = (_req, res) => res.end();
  await until(async () => (await healthy('checked', bad)) === 1, 'healthy again');
  own(a);
  own(b);
  for (let i = 0; i < 10; i++) await get('/checked/x');
  t.same([own(a), own(b)], [5, 5]);
  t.same([lines(bad, LEFT_OUT).length, lines(bad, USED_AGAIN).length], [1, 1], 'each change is logged once');
});

t.test('the only address of an upstream gets requests even if its check fails', async (t) => {
  lonely.behave = (req, res) => res.writeHead(req.url?.startsWith('/healthz') ? 500 : 200).end('here');
  await until(async () => (await healthy('lonely')) === 0, 'unhealthy');
  t.equal((await get('/lonely/x')).text, 'here');
});

t.test('with every address down, requests are refused at once, and the first one back serves', async (t) => {
  const startedAt = Date.now();
  for (let i = 0; i < 20; i++) {
    const reply = await send(url, '/gone/x', { method: i % 2 === 0 ? 'GET' : 'POST' });
    t.match(reply, { status: 502, json: { detail: 'The upstream cannot be reached' } });
  }
  t.ok(Date.now() - startedAt < 10_000);
  for (const port of ports.gone)
    await until(async () => (await healthy('gone', loopback(port))) === 0, 'unhealthy');
  t.equal(lines(loopback(ports.gone[0]), 'upstream address failed').length >= 1, true);
  const back = new Node();
  await back.listen(ports.gone[1]);
  t.equal((await get('/gone/x')).status, 200, 'without waiting for the retry time');
});

t.test('a stripped prefix: the checked path is the path that is sent', async (t) => {
  const seen = async (target: string) => {
    echo.received.splice(0);
    const { status } = await get(target);
    return status === 200 ? echo.received[0]?.target : status;
  };
  for (const [target, expected] of [
    ['/api/x', '/base/x'],
    ['/api', '/base/'],
    ['/api/', '/base/'],
    ['/api?a=/b', '/base/?a=/b'],
    ['/api/?x', '/base/?x'],
    ['/%61pi/x', 400],
    ['/api/%78?%61', '/base/%78?%61'],
    ['/api/a/b/', '/base/a/b/'],
    ['/api/api/x', '/base/api/x'],
    ['/api/a//b', '/base/a//b'],
    ['/api/a%2fb', '/base/a%2fb'],
    ['/api/caf%C3%A9;v=1', '/base/caf%C3%A9;v=1'],
    ['/v1/t/items/1', '/base/t/items/1'],
    ['/v1/%74/items/1?/v1/', '/base/%74/items/1?/v1/'],
    ['/api//evil.example/x', 400],
    ['/api/%2Fevil.example/x', 400],
    ['/api/%2f', 400],
    ['/api/;x/y', 400],
    ['/api/%3bx', 400],
    ['/api/../x', 400],
    ['/api/.', 400],
    ['/api%2fx', 400],
    ['/api;v=1/x', 400],
    ['//api/x', 400],
    ['/apix', 401],
    ['/API/x', 400],
  ] as const)
    t.equal(await seen(target), expected, target);
});

t.test('a stripped prefix: generated targets', async (t) => {
  const piece = fc.constantFrom(
    'api',
    'a',
    'x',
    '%61pi',
    '%41',
    '%2f',
    '%2F',
    '%25',
    '%C3%A9',
    ';',
    ';p=1',
    '//',
    '/',
    '/',
    '/',
    '.',
    '%2e',
    '..',
    '?',
    '=',
    '~',
    ':',
    '@',
  );
  const targets = fc.array(piece, { maxLength: 7 }).map((pieces) => `/api${pieces.join('')}`);
  let accepted = 0;
  const details = await fc.check(
    fc.asyncProperty(targets, async (target) => {
      echo.received.splice(0);
      const { status } = await get(target);
      const [sent] = echo.received;
      if (status !== 200 || sent === undefined) {
        if (sent !== undefined) throw new Error(`refused, and sent: ${sent.target}`);
        return;
      }
      // Paths outside the routes are forwarded unchanged by the default route.
      if (!/^\/api(?:[/?]|$)/.test(target)) throw new Error(`not of the route: ${target}`);
      accepted += 1;
      const rest = target.slice('/api'.length);
      const expected = rest.startsWith('/') ? rest : `/${rest}`;
      if (sent.target !== `/base${expected}`) throw new Error(`${target} became ${sent.target}`);
      if (/^\/(?:\/|%2f|;)/i.test(expected)) throw new Error(`a host could be read out of ${expected}`);
    }),
    options<[string]>(150),
  );
  t.notOk(details.failed, told(details));
  t.ok(accepted > details.numRuns / 12, `${accepted} were accepted`);
});

t.test('sends the configured Host field', async (t) => {
  named.behave = (req, res) =>
    res.end(JSON.stringify({ host: req.headers.host, forwarded: req.headers['x-forwarded-host'] }));
  const hosts = async (path: string, Host: string) =>
    (await send(url, path, { headers: { Host } })).json as object;
  t.same(await hosts('/named/x', 'a.example:81'), { host: 'api.internal:8443', forwarded: 'a.example:81' });
  t.same(await hosts('/preserved/x', 'a.example:81'), { host: 'a.example:81', forwarded: 'a.example:81' });
  t.same(await hosts('/preserved/x', 'b.example'), { host: 'b.example', forwarded: 'b.example' });
  echo.received.splice(0);
  await send(url, '/api/x', { headers: { Host: 'a.example' } });
  t.match(echo.received[0]?.headers, {
    host: 'a.example',
    'x-forwarded-host': 'a.example',
    'x-forwarded-prefix': '/api',
  });
  for (const [path, expected] of [
    ['/named/x', 'api.internal:8443'],
    ['/preserved/x', 'c.example'],
    ['/own/x', new URL(echo.url).host],
  ] as const) {
    const ws = new WebSocket(`${url.replace('http', 'ws')}${path}`, { headers: { Host: 'c.example' } });
    await new Promise((done, reject) => ws.once('open', done).once('error', reject));
    ws.terminate();
    t.equal(handshakes.at(-1)?.headers.host, expected);
  }
});

t.test(
  "looks up a host name for each new connection, not each request, and limits a connection's lifetime",
  async (t) => {
    const table = join(folder, 'hosts.json');
    const lookups = join(folder, 'lookups');
    const preload = join(folder, 'lookup.cjs');
    writeFileSync(
      preload,
      `const dns = require('node:dns'), fs = require('node:fs'), real = dns.lookup;
dns.lookup = (name, options, done) => {
  if (name !== 'api.test') return real(name, options, done);
  fs.appendFileSync(${JSON.stringify(lookups)}, '.');
  const address = JSON.parse(fs.readFileSync(${JSON.stringify(table)}, 'utf8'));
  if (address === null) return process.nextTick(done, Object.assign(new Error('getaddrinfo ENOTFOUND ' + name), { code: 'ENOTFOUND' }));
  process.nextTick(done, null, options.all ? [{ address, family: 4 }] : address, 4);
};`,
    );
    const counted = () => readFileSync(lookups, 'utf8').length;
    const { url: oldUrl } = await serveHttp(t, (_req, res) => res.end('old'));
    const port = Number(new URL(oldUrl).port);
    // Created by hand, because it needs another loopback address with the same port.
    const next = createServer((_req, res) => res.end('new'));
    await new Promise<void>((done) => void next.listen(port, '127.0.0.2', done));
    t.teardown(() => {
      next.close();
      next.closeAllConnections();
    });
    writeFileSync(table, '"127.0.0.1"');
    const other = writeConfig(temporaryFolder(t), {
      upstream: `http://api.test:${port}`,
      routes: [{ path: '/*', auth: 'none' }],
    });
    const named = await start(t, other, { env: { NODE_OPTIONS: `--require ${preload}` } });
    const agent = new Agent({ keepAlive: true });
    t.teardown(() => agent.destroy());
    const ask = () =>
      new Promise<string>((done, reject) => {
        request(`${named.url}/x`, { agent }, (res) => {
          let text = '';
          res.on('data', (chunk: Buffer) => (text += chunk.toString())).on('end', () => done(text));
        })
          .on('error', reject)
          .end();
      });
    for (let i = 0; i < 20; i++) t.equal(await ask(), 'old');
    t.equal(counted(), 1, 'one connection, one look-up');
    writeFileSync(table, '"127.0.0.2"');
    t.equal(await ask(), 'old', 'an open connection is reused');
    let asked = 21;
    while ((await ask()) === 'old' && asked < 1_100) asked += 1;
    t.ok(asked <= 1_001, `the new address serves after ${asked} requests`);
    t.equal(counted(), 2);
    writeFileSync(table, 'null');
    t.equal(await ask(), 'new', 'while the look-up fails, open connections serve');
    next.closeAllConnections();
    await until(async () => (await send(named.url, '/x')).status === 502, 'no new connections');
    await until(
      () => named.stdout().includes('"reason":"getaddrinfo ENOTFOUND api.test'),
      'the log says why',
    );
    writeFileSync(table, '"127.0.0.1"');
    t.equal(await ask(), 'old', 'once the look-up works again');
  },
);

t.test('a reload changes addresses without a failed request', async (t) => {
  for (const node of three) node.behave = (_req, res) => res.end('ok');
  const more = [new Node(), new Node()];
  const lists = [config.upstreams.three.urls, await Promise.all(more.map((node) => node.listen()))];
  const load = new AbortController();
  const statuses: number[] = [];
  const clients = Array.from({ length: 4 }, async () => {
    while (!load.signal.aborted) statuses.push((await get('/three/x')).status);
  });
  for (let i = 1; i <= 6; i++) {
    const upstreams = {
      ...config.upstreams,
      three: { urls: lists[i % 2] },
      checked: { ...config.upstreams.checked, urls: addresses.checked.slice(0, 1) },
    };
    writeConfig(configFile.replace(/\/[^/]*$/, ''), {
      directory: { file: './directory.yaml' },
      ...config,
      upstreams,
    });
    t.match(await send(server.admin, '/-/reload', { method: 'POST' }), { status: 200 });
    for (const node of [...three, ...more]) node.requests.splice(0);
    const before = statuses.length;
    await until(() => statuses.length > before + 40, 'requests continue');
    const [served, left] = i % 2 === 0 ? [three, more] : [more, three];
    t.ok(
      served.every(({ requests }) => requests.length > 5),
      'on the new addresses',
    );
    t.ok(
      left.every(({ requests }) => requests.length <= 4),
      'only those in flight on the old ones',
    );
  }
  load.abort();
  await Promise.all(clients);
  t.same(
    statuses.filter((status) => status !== 200),
    [],
  );
  t.notMatch(await metrics(), addresses.checked[1] ?? '', 'a removed address has no metric');
  const stale = checked[1] as Node;
  await new Promise((wait) => setTimeout(wait, 300));
  stale.requests.splice(0);
  await new Promise((wait) => setTimeout(wait, 600));
  t.equal(stale.seen, 0, 'no more health checks');
});

t.test('none of this logs an error', async (t) => {
  t.notMatch(server.stdout(), /"level":[56]0/);
});
