import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { send, serveHttp, serveTcp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

for (const kind of ['TCP', 'Unix sockets'])
  t.test(`faults of upstreams over ${kind}`, async (t) => {
    const folder = temporaryFolder(t);
    const pathOf = (name: string) => (kind === 'TCP' ? undefined : join(folder, name));
    let behave: (req: IncomingMessage, res: ServerResponse) => void = (_req, res) => res.end('ok');
    let arrived = 0;
    const { url: upstreamUrl } = await serveHttp(
      t,
      (req, res) => {
        arrived += 1;
        behave(req, res);
      },
      { keepAliveTimeout: 200 },
      pathOf('http'),
    );
    /** Responds to each request with exact bytes and keeps the connection open. */
    let bytes = '';
    let asked: object[] = [];
    const { url: rawUrl, server: raw } = await serveTcp(
      t,
      (socket) => {
        socket.on('data', () => {
          asked.push(socket);
          socket.write(Buffer.from(bytes, 'latin1'));
        });
      },
      pathOf('tcp'),
    );
    const urls = { upstream: upstreamUrl, raw: rawUrl };
    const { url, token, server } = await startFixture(t, {
  upstream: undefined,
  upstreams: {
    api: { url: urls.upstream, max_connections: 2, max_waiting: 3, wait_timeout: '3s', idle_timeout: '1s' },
    raw: { url: urls.raw, idle_timeout: '500ms' },
  },
  routes: [{ path: '/raw/*', action: 'api', upstream: 'raw' }],
  default_route: { action: 'api', upstream: 'api' },
}); // prettier-ignore
    const headers = { 'Service-Key': await token('superuser') };
    const head = `Host: a\r\nService-Key: ${headers['Service-Key']}\r\n`;
    const get = (path: string) => send(url, path, { headers });
    t.teardown(() => server.stop('SIGKILL').then(() => undefined));

    t.test('requests wait for a connection in order, with a limited time and number', async (t) => {
      const held: ServerResponse[] = [];
      behave = (_req, res) => void held.push(res);
      arrived = 0;
      const busy = [get('/1'), get('/2')];
      await until(() => arrived === 2, 'both connections are in use');
      const gone = openRaw(url, { bytes: `GET /gone HTTP/1.1\r\n${head}\r\n` });
      await sleep(100);
      const waiting = [get('/3'), get('/4')];
      await sleep(100);
      const full = await get('/5');
      t.match(full, {
        status: 503,
        headers: { 'retry-after': '1' },
        json: { detail: /Too many requests are waiting/ },
      });
      t.equal(gone.error, undefined);
      gone.socket.destroy();
      await sleep(50);
      const paths: (string | undefined)[] = [];
      behave = (req, res) => {
        paths.push(req.url);
        if (req.url === '/3') res.end('ok');
        else held.push(res);
      };
      held.shift()?.end('ok');
      t.equal((await waiting[0])?.status, 200, 'the first in the queue');
      await until(() => paths.length === 2, 'the second in the queue');
      t.same(paths, ['/3', '/4'], 'a request that left the queue was never sent');
      const late = await get('/6');
      t.match(late, { status: 503, json: { detail: /waited too long/ } });
      for (const res of held) res.end('ok');
      for (const reply of [...busy, waiting[1]]) t.equal((await reply)?.status, 200);
      behave = (_req, res) => res.end('ok');
      for (let i = 0; i < 10; i++) t.equal((await get('/x')).status, 200, 'no slot is lost');
    });

    t.test('a client that stops reading is disconnected after idle_timeout', async (t) => {
      const ended = new Promise<void>((done) => {
        behave = (req, res) => {
          req.socket.once('close', done);
          const more = () => {
            while (res.write(Buffer.alloc(256 * 1024)));
            res.once('drain', more);
          };
          more();
        };
      });
      const client = openRaw(url, { reads: false, bytes: `GET /x HTTP/1.1\r\n${head}\r\n` });
      const startedAt = Date.now();
      await ended;
      t.ok(Date.now() - startedAt < 20_000);
      await until(() => /"outcome":"aborted_by_client"/.test(server.stdout()), 'logged');
      t.equal(client.error, undefined);
      client.socket.destroy();
    });

    t.test('an upstream that closes idle connections fails no request', async (t) => {
      behave = (_req, res) => res.end('ok');
      for (let i = 0; i < 12; i++) {
        t.equal((await send(url, '/x', { method: i % 2 === 0 ? 'GET' : 'POST', headers })).status, 200);
        // Around the moment when the upstream closes.
        await sleep(190 + i * 4);
      }
    });

    t.test('repeated fields stay separate and in order', async (t) => {
  behave = (_req, res) =>
    res
      .writeHead(200, ['Set-Cookie', 'a=1', 'Vary', 'A', 'Set-Cookie', 'service.session=x; Path=/', 'Set-Cookie', 'b=2', 'Vary', 'B', 'Set-Cookie', '__Host-service.session=y'])
      .end();
  const { rawHeaders } = await get('/x');
  const of = (name: string) => rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1] === name);
  t.same(of('Set-Cookie'), ['a=1', 'b=2'], 'no upstream can set the session');
  t.same(of('Vary'), ['A', 'B']);
}); // prettier-ignore

    t.test('drops trailers that belong in a head', async (t) => {
  bytes = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\nSet-Cookie: service.session=x\r\nVary: x\r\nX-Request-Id: mine\r\n\r\n';
  const trailers = await new Promise((resolve, reject) => {
    request(`${url}/raw/x`, { headers, agent: false }, (res) => res.resume().on('error', reject).on('end', () => resolve(res.rawTrailers)))
      .on('error', reject)
      .end();
  });
  t.same(trailers, ['X-Sum', '1']);
}); // prettier-ignore

    t.test('bytes after a response without a body never become another response', async (t) => {
      const second = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged';
      for (const [method, answer] of [
        ['HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n'],
        ['GET', 'HTTP/1.1 204 No Content\r\n\r\n'],
        ['GET', 'HTTP/1.1 304 Not Modified\r\n\r\n'],
        ['GET', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'],
      ] as const) {
        bytes = answer + second;
        asked = [];
        const first = await send(url, '/raw/x', { method, headers });
        t.notMatch(first.text, 'forged');
        bytes = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nreal';
        t.equal((await get('/raw/x')).text, 'real', `${method} ${answer.slice(9, 12)}`);
        t.equal(new Set(asked).size, 2, 'the connection was not reused');
      }
    });

    t.test('unusual but valid responses are forwarded as one well-formed response', async (t) => {
      for (const [answer, status] of [
        ['HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok', 200],
        ['HTTP/1.1 299 Some\tThing\r\nContent-Length: 2\r\n\r\nok', 299],
        ['HTTP/1.1 200 OK\r\nConnection: X-A, close\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nok', 200],
        [`HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`, 200],
      ] as const) {
        bytes = answer;
        const reply = await get('/raw/x');
        t.same([reply.status, reply.text, reply.headers['x-a']], [status, 'ok', undefined]);
      }
    });

    t.test('an upstream that is down does not affect others', async (t) => {
      raw.close();
      const down = Array.from({ length: 50 }, () => get('/raw/x'));
      behave = (_req, res) => res.end('ok');
      t.equal((await get('/x')).status, 200);
      for (const reply of await Promise.all(down)) t.ok(reply.status === 502 || reply.status === 200);
    });

    t.test('none of this logs an error', async (t) => {
      t.notMatch(server.stdout(), /"level":[56]0/);
      const { text } = await send(server.admin, '/metrics');
      t.match(text, /^latchkey_streams \d+$/m);
    });
  });
