import { createHash, randomBytes } from 'node:crypto';
import { request, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { send, sendRaw, serveHttp, serveTcp } from '../helpers/http.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

/** How the upstream handles the next request; set by each case. */
let behave: (req: IncomingMessage, res: ServerResponse) => void = (_req, res) => res.end('ok');
/** How the raw upstream handles a connection. */
let behaveRaw: (socket: Socket, heads: () => number) => void = (socket) => socket.destroy();
let rawRequests = 0;

const { url: upstreamUrl, server: upstream } = await serveHttp(t, (req, res) => behave(req, res), {
  keepAliveTimeout: 1_000,
});
upstream.on('checkContinue', (req: IncomingMessage, res: ServerResponse) => behave(req, res));
const { url: rawUrl } = await serveTcp(t, (socket) => {
  socket.once('data', () => {
    rawRequests += 1;
    behaveRaw(socket, () => rawRequests);
  });
});
// A port without a listener that no other test can be given meanwhile.
const goneUrl = 'http://127.0.0.1:1';

const limits = { response_timeout: '2s', idle_timeout: '2s', connect_timeout: '2s' };
const { url, token, server } = await startFixture(
  t,
  {
    upstream: undefined,
    upstreams: {
      api: { url: upstreamUrl, ...limits },
      raw: { url: rawUrl, ...limits },
      gone: { url: goneUrl },
      prefixed: { url: `${upstreamUrl}/base/` },
    },
    routes: [
      { path: '/raw/*', action: 'api', upstream: 'raw' },
      { path: '/gone', action: 'api', upstream: 'gone' },
      { path: '/prefixed/*', action: 'api', upstream: 'prefixed' },
    ],
    default_route: { action: 'api', upstream: 'api', body_on_read: 'allow' },
  },
  { isolated: true },
);
const headers = { 'Service-Key': await token('superuser') };
const hash = (data: Buffer | string) => createHash('sha256').update(data).digest('hex');

/** Responds with the hash and the framing of the body. */
function echoHash(req: IncomingMessage, res: ServerResponse): void {
  const digest = createHash('sha256');
  req.on('data', (chunk: Buffer) => digest.update(chunk));
  req.on('end', () => {
    const { 'content-length': length, 'transfer-encoding': coding } = req.headers;
    res.end(JSON.stringify({ hash: digest.digest('hex'), length, coding, method: req.method, url: req.url }));
  });
}

t.test('forwards bodies of every framing and method intact, framed once', async (t) => {
  behave = echoHash;
  const large = randomBytes(10 * 1024 * 1024);
  const rows: [string, string, Buffer | string, boolean][] = [
    ['POST', 'small', 'hello', false],
    ['POST', '64 KiB', randomBytes(65_536), false],
    ['POST', '10 MiB', large, false],
    ['PUT', '10 MiB chunked', large, true],
    ['POST', 'empty', '', false],
    ['DELETE', 'chunked', 'GET /SMUGGLED HTTP/1.1\r\n\r\n', true],
    ['GET', 'with a length', 'GET /SMUGGLED HTTP/1.1\r\n\r\n', false],
    ['GET', 'chunked', 'x', true],
  ];
  for (const [method, name, body, chunked] of rows) {
    const reply = await send(url, '/x', {
      method,
      body,
      headers: { ...headers, ...(chunked ? { 'Transfer-Encoding': 'chunked' } : {}) },
    });
    t.equal(reply.status, 200, `${method} ${name}`);
    t.equal(reply.json.hash, hash(body), `${method} ${name}: the same bytes`);
    t.ok(
      (reply.json.length === undefined) !== (reply.json.coding === undefined),
      `${method} ${name}: one framing`,
    );
  }
  t.equal(
    (await send(url, '/prefixed/a//b?c', { headers })).json.url,
    '/base/prefixed/a//b?c',
    'the path of the URL is prepended',
  );
});

t.test(
  'responses: HEAD, 204, 304, several Set-Cookie and Vary, reason phrase, no session cookie of the upstream',
  async (t) => {
    behave = (req, res) => {
      if (req.url === '/204') res.writeHead(204).end();
      else if (req.url === '/304') res.writeHead(304, { ETag: '"x"' }).end();
      else {
        res.writeHead(200, 'Fine', [
        ['Set-Cookie', 'a=1'], ['Set-Cookie', 'service.session=evil; Path=/'], ['Set-Cookie', '__Host-service.session=evil'],
        ['Set-Cookie', '\xa0service.session=evil'], ['Set-Cookie', 'c=3; service.session=evil'], ['Set-Cookie2', 'service.session=evil'],
        ['Set-Cookie', 'b=2'], ['Vary', 'A'], ['Vary', 'B'], ['Connection', 'X-Hop'], ['X-Hop', 'evil'],
        ['X-Request-Id', 'evil'], ['Content-Length', '5'], ['Cache-Control', 'max-age=5'],
      ].flat()); // prettier-ignore
        res.end(req.method === 'HEAD' ? undefined : 'hello');
      }
    };
    const get = await send(url, '/x', { headers });
    t.same(get.headers['set-cookie'], ['a=1', 'b=2']);
    t.same(
      get.rawHeaders.filter((_, i, all) => all[i - 1] === 'Vary'),
      ['A', 'B'],
    );
    t.notMatch(get.rawHeaders.join(), /evil/);
    t.equal(get.headers['cache-control'], 'max-age=5', 'Cache-Control of the upstream is kept');
    t.equal(get.text, 'hello');
    const head = await send(url, '/x', { method: 'HEAD', headers });
    t.same([head.status, head.headers['content-length'], head.text], [200, '5', '']);
    t.same(
      [(await send(url, '/204', { headers })).status, (await send(url, '/304', { headers })).status],
      [204, 304],
    );
  },
);

t.test('forwards server-sent events one by one, and trailers at the end', async (t) => {
  // The upstream continues only after the client has received the previous event, so buffering
  // would deadlock.
  let goOn = (): void => undefined;
  behave = (_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream', Trailer: 'X-Sum' });
    res.flushHeaders();
    goOn = () => {
      res.write('data: 1\n\n');
      goOn = () => {
        res.addTrailers({ 'X-Sum': '42' });
        res.end('data: 2\n\n');
      };
    };
  };
  const events: string[] = [];
  const answer = await new Promise<IncomingMessage>((done, failed) => {
    const { hostname, port } = new URL(url);
    request({ hostname, port, path: '/events', headers, agent: false }, (res) => {
      res.on('data', (chunk: Buffer) => {
        events.push(chunk.toString());
        if (events.length === 1) goOn();
      });
      res.on('end', () => done(res)).on('error', failed);
      goOn();
    }).end();
  });
  t.same(events, ['data: 1\n\n', 'data: 2\n\n']);
  t.equal(answer.trailers['x-sum'], '42');
});

t.test('answers Expect: 100-continue only after the gate, and forwards the body', async (t) => {
  behave = echoHash;
  const head = `POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n`;
  const refused = await sendRaw(url, `${head}\r\n`);
  t.match(refused, /^HTTP\/1\.1 401 /);
  t.notMatch(refused, /100 Continue/);
  const taken = await sendRaw(url, `${head}Service-Key: ${headers['Service-Key']}\r\n\r\nhello`);
  t.match(taken, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /);
  t.match(taken, hash('hello'));
});

t.test('refuses a request with a body at once, and never reads its body as a request', async (t) => {
  const seen: string[] = [];
  behave = (req, res) => {
    seen.push(req.url ?? '');
    res.end('ok');
  };
  const smuggled = 'GET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n';
  const answer = await sendRaw(
    url,
    `POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: ${smuggled.length}\r\n\r\n${smuggled}`,
    900,
  );
  t.equal(answer.match(/HTTP\/1\.1 /g)?.length, 1, answer);
  const unsent = await sendRaw(url, 'POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n', 200);
  t.match(unsent, /^HTTP\/1\.1 401 .*[\s\S]*Connection: close/i);
  t.same(seen, []);
});

t.test('an unreachable, slow or broken upstream', async (t) => {
  const gone = await send(url, '/gone', { headers });
  t.equal(gone.status, 502);
  t.match(gone.json, { msg: 'Bad gateway', detail: /cannot be reached/ });
  behave = () => undefined;
  const slow = await send(url, '/x', { headers });
  t.equal(slow.status, 504);
  const hostile: [string, string][] = [
    ['not HTTP', 'garbage\r\n\r\n'],
    ['a repeated Content-Length', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok'],
    [
      'Content-Length and chunked',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['another transfer coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
    ['status 099', 'HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n'],
    ['status 1000', 'HTTP/1.1 1000 X\r\nContent-Length: 0\r\n\r\n'],
    ['NUL in a value', 'HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n'],
    ['bare CR in a value', 'HTTP/1.1 200 OK\r\nX: a\rY: b\r\nContent-Length: 0\r\n\r\n'],
    ['a head of 70 kB', `HTTP/1.1 200 OK\r\nX: ${'a'.repeat(70_000)}\r\nContent-Length: 0\r\n\r\n`],
    ['1,000 interim responses', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1_000)],
    ['closed at once', ''],
  ];
  for (const [name, bytes] of hostile) {
    behaveRaw = (socket) => socket.end(Buffer.from(bytes, 'latin1'));
    const reply = await send(url, '/raw/x', { method: 'POST', headers });
    t.equal(reply.status, 502, name);
    t.equal(reply.headers['content-type'], 'application/json', name);
  }
});

t.test('never sends a POST twice; retries a GET on another connection', async (t) => {
  behaveRaw = (socket) => socket.destroy();
  rawRequests = 0;
  t.equal((await send(url, '/raw/x', { method: 'POST', headers })).status, 502);
  t.equal(rawRequests, 1, 'POST');
  rawRequests = 0;
  behaveRaw = (socket, count) =>
    count() === 1 ? socket.destroy() : socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
  t.equal((await send(url, '/raw/x', { headers })).status, 200);
  t.equal(rawRequests, 2, 'GET');
});

t.test('a truncated response never looks complete', async (t) => {
  for (const [name, bytes, reset] of [
    ['length, closed', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf', false],
    ['length, reset', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf', true],
    ['chunked, closed', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n', false],
    ['chunked, reset', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n', true],
  ] as const) {
    behaveRaw = (socket) => {
      socket.write(bytes);
      setTimeout(() => (reset ? socket.resetAndDestroy() : socket.end()), 50);
    };
    await t.rejects(send(url, '/raw/x', { headers }), name);
  }
  behaveRaw = (socket) => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf');
  await t.rejects(send(url, '/raw/x', { headers }), 'a stall within the body');
});

t.test('a client disconnect aborts the upstream request at once', async (t) => {
  const client = openRaw(url);
  const closed = new Promise<void>((done) => {
    behave = (req) => {
      req.socket.on('close', done);
      client.socket.destroy();
    };
  });
  client.write(`GET /gone-away HTTP/1.1\r\nHost: a\r\nService-Key: ${headers['Service-Key']}\r\n\r\n`);
  await closed;
  t.equal(client.error, undefined);
  const record = () =>
    server
      .stdout()
      .split('\n')
      .find((line) => line.includes('/gone-away'));
  await until(() => record() !== undefined, 'its log record');
  t.match(record(), /"outcome":"aborted_by_client"/, 'not because of an upstream timeout');
});

t.test('a client that stalls within its body gets 408', async (t) => {
  behave = echoHash;
  const head = `POST /x HTTP/1.1\r\nHost: a\r\nService-Key: ${headers['Service-Key']}\r\nContent-Length: 100\r\n\r\nhalf`;
  t.match(await sendRaw(url, head, 2_000), /^HTTP\/1\.1 408 /);
});

t.test('forwards an early response during the upload', async (t) => {
  behave = (_req, res) => void res.writeHead(413).end('no');
  const reply = await send(url, '/x', { method: 'POST', body: randomBytes(5 * 1024 * 1024), headers });
  t.same([reply.status, reply.text], [413, 'no']);
});

t.test(
  'before closing a connection after an early response, reads the rest, so that no reset destroys it',
  async (t) => {
    behave = (_req, res) => void res.writeHead(413).end('no');
    const rest = 999_000;
    const head = `POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nService-Key: ${headers['Service-Key']}\r\nContent-Length: ${rest + 4}\r\n\r\nhalf`;
    const client = openRaw(url, { bytes: head });
    await until(() => client.text().includes('\r\nno\r\n'), 'the response');
    await sleep(100);
    t.equal(client.socket.readyState, 'open');
    client.write(Buffer.alloc(rest, 'x'));
    await client.closed;
    t.match(client.text(), /^HTTP\/1\.1 413 /);
    t.equal(client.error, undefined);
  },
);

t.test('slow readers of a large response use little memory', async (t) => {
  const size = 100 * 1024 * 1024;
  behave = (_req, res) => {
    res.writeHead(200, { 'Content-Length': size });
    const chunk = Buffer.alloc(256 * 1024);
    let left = size;
    const more = () => {
      while (left > 0) {
        left -= chunk.length;
        if (!res.write(chunk)) return void res.once('drain', more);
      }
      res.end();
    };
    more();
  };
  const before = rssOf(server.pid);
  const bytes = `GET /x HTTP/1.1\r\nHost: a\r\nService-Key: ${headers['Service-Key']}\r\n\r\n`;
  const clients = Array.from({ length: 10 }, () => openRaw(url, { reads: false, bytes }));
  await new Promise((wait) => setTimeout(wait, 600));
  const grown = rssOf(server.pid) - before;
  for (const { socket, error } of clients) {
    t.equal(error, undefined);
    socket.destroy();
  }
  t.ok(grown < 100, `${grown} MiB for ten readers of 100 MiB each`);
});

t.test('the server still works afterwards', async (t) => {
  behave = (_req, res) => res.end('ok');
  t.equal((await send(url, '/x', { headers })).text, 'ok');
  t.equal(server.stderr(), '');
  t.notMatch(server.stdout(), /"level":[56]0/, 'no error was logged');
});

/** Resident memory of a process in MiB. */
function rssOf(pid: number): number {
  const line = readFileSync(`/proc/${pid}/status`, 'utf8').match(/VmRSS:\s+(\d+) kB/);
  return Number(line?.[1] ?? 0) / 1024;
}
