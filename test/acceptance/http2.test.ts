import { execFile } from 'node:child_process';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ClientHttp2Session, connect as connectHttp2, constants, sensitiveHeaders } from 'node:http2';
import { request } from 'node:https';
import { connect as connectTcp } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { promisify } from 'node:util';
import t from 'tap';
import { Agent } from 'undici';
import { WebSocket, WebSocketServer } from 'ws';
import { selfSigned } from '../helpers/certificates.js';
import { LEGACY_KEY, PASSWORD, startFixture } from '../helpers/fixture.js';
import { type Reply, send, type Sent, serveHttp } from '../helpers/http.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

/** The requests that reached the upstream, and how they ended. */
const arrived: { req: IncomingMessage; res: ServerResponse; bytes: number; whole: boolean }[] = [];
const BIG = 24 * 1024 * 1024;

const ANSWERS: Readonly<Record<string, (req: IncomingMessage, res: ServerResponse) => void>> = {
  '/cookies': (_, res) =>
    res
      .writeHead(200, ['Set-Cookie', 'a=1', 'Set-Cookie', 'service.session=evil', 'Set-Cookie', 'b=2', 'Vary', 'A', 'Vary', 'B',
        'X-Content-Type-Options', 'nosniff', 'X-Latin', 'é', 'Keep-Alive', 'x', 'X-Request-Id', 'evil'])
      .end('cookies'),
  '/trailers': (_, res) => {
    res.writeHead(200, { Trailer: 'X-Sum' });
    res.write('whole');
    res.addTrailers({ 'X-Sum': '5', 'Set-Cookie': 'service.session=evil' });
    res.end();
  },
  '/early': (_, res) => {
    res.writeEarlyHints({ link: '</a>; rel=preload' });
    res.end('late');
  },
  '/204': (_, res) => res.writeHead(204).end(),
  '/304': (_, res) => res.writeHead(304, { ETag: '"x"' }).end(),
  '/teapot': (_, res) => res.writeHead(418, 'Short and stout', { 'Content-Length': '3' }).end('pot'),
  '/events': (_, res) => void res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: x\n\n'),
  '/broken': (_, res) => {
    res.writeHead(200).write('half of it');
    setTimeout(() => res.socket?.destroy(), 50);
  },
  '/short': (_, res) => {
    res.writeHead(200, { 'Content-Length': '100' }).write('half of it');
    setTimeout(() => res.socket?.destroy(), 50);
  },
  '/silent': (_, res) => res.socket?.destroy(),
  '/never': () => undefined,
  '/big': (_, res) => {
    const chunk = Buffer.alloc(65_536);
    let left = BIG;
    const write = () => {
      while (left > 0 && !res.destroyed) {
        left -= chunk.length;
        if (!res.write(chunk)) return void res.once('drain', write);
      }
      res.end();
    };
    write();
  },
  '/unread': (req) => req.pause(),
}; // prettier-ignore

const { url: upstreamUrl, server: upstream } = await serveHttp(t, (req, res) => {
  const entry = { req, res, bytes: 0, whole: false };
  arrived.push(entry);
  const path = (req.url ?? '').split('?', 1)[0] ?? '';
  if (path === '/unread') return;
  const chunks: Buffer[] = [];
  req.on('data', (chunk: Buffer) => {
    entry.bytes += chunk.length;
    chunks.push(chunk);
  });
  req.on('error', () => undefined).on('end', () => {
    entry.whole = true;
    const answer = ANSWERS[path];
    if (answer !== undefined) answer(req, res);
    else res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(seen(req, Buffer.concat(chunks))));
  });
}); // prettier-ignore
const sockets = new WebSocketServer({ server: upstream });
sockets.on('connection', (socket) =>
  socket.on('message', (data) => socket.send(`echo ${(data as Buffer).toString()}`)),
);

const byText = (a: readonly string[], b: readonly string[]) => (String(a) < String(b) ? -1 : 1);

/** A request as the upstream sees it, without parts that differ each time. */
function seen(req: IncomingMessage, body: Buffer) {
  const fields: [string, string][] = [];
  for (let i = 0; i < req.rawHeaders.length; i += 2)
    fields.push([req.rawHeaders[i]?.toLowerCase() ?? '', req.rawHeaders[i + 1] ?? '']);
  const apart = new Set(['connection', 'x-request-id', 'x-forwarded-proto', 'x-forwarded-host', 'host']);
  return {
    method: req.method,
    target: req.url,
    fields: fields.filter(([name]) => !apart.has(name)).toSorted(byText),
    body: body.toString('latin1'),
  };
}

/** A response without parts that differ each time or belong to the connection. */
function shown({ status, headers, text }: Reply) {
  const apart = new Set([':status', 'date', 'x-request-id', 'connection', 'keep-alive', 'transfer-encoding', 'strict-transport-security']);
  const fields = Object.entries(headers).map(([name, value]) => [name, String(value).replace('; Secure', '').replace(/session=[^;]+/, 'session=S')]);
  // HTTP/2 uses lower-case field names, and each server has its own ids and times.
  const same = text.toLowerCase().replace(/"(id|user_id|\w+_at)":"[^"]*"/g, '"$1":"*"');
  return { status, fields: fields.filter(([name = '']) => !apart.has(name)).toSorted(byText), text: same };
} // prettier-ignore

const folder = temporaryFolder(t);
const tls = selfSigned(folder, 'one');
const settings = {
  upstream: upstreamUrl,
  proxy: { stream_recheck: '1s' },
  routes: [{ path: '/status', auth: 'none' }],
};
const plain = await startFixture(t, settings);
const secure = await startFixture(t, { ...settings, listen: { host: '127.0.0.1', port: 0, tls } });
const key = { 'Service-Key': LEGACY_KEY };
const only = () => arrived.at(-1) as (typeof arrived)[number];

t.test('the ready line shows https, and ALPN selects the protocol', async (t) => {
  t.match(secure.url, /^https:\/\/127\.0\.0\.1:\d+$/);
  const curl = async (...args: string[]) =>
    (await promisify(execFile)('curl', ['-sk', '-o', '/dev/null', '-w', '%{http_version} %{http_code}', ...args, `${secure.url}/status`])).stdout;
  t.equal(await curl(), '2 200');
  t.equal(await curl('--http1.1'), '1.1 200');
  t.equal(await curl('--http1.0'), '1.1 200');
  t.equal(await curl('--tls-max', '1.2'), '2 200');
  await t.rejects(curl('--tls-max', '1.1'), 'an old TLS version');
  const { request: fetchOver } = await import('undici');
  const dispatcher = new Agent({ allowH2: true, connect: { rejectUnauthorized: false } });
  t.teardown(() => dispatcher.close());
  const { statusCode, body } = await fetchOver(`${secure.url}/echo?q=1`, { dispatcher, headers: key, method: 'POST', body: 'hello' });
  t.equal(statusCode, 200);
  t.match(await body.json(), { method: 'POST', target: '/echo?q=1', body: 'hello' });
}); // prettier-ignore

const form = (fields: Record<string, string>) => new URLSearchParams(fields);
const REQUESTS: readonly [string, string, Sent?][] = [
  ['no credential', '/echo'],
  ['a key', '/echo?a=%2F&b', { headers: key }],
  ['identity from the client', '/echo', { headers: { ...key, 'X-Auth-User-Id': 'evil', X_Auth_Role: 'evil', 'X-Forwarded-For': '6.6.6.6', 'X-Forwarded-Proto': 'ftp', Forwarded: 'for=6.6.6.6' } }],
  ['cookies', '/echo', { headers: { ...key, Cookie: 'a=1; service.session=x; b=2' } }],
  ['a bad key does not fall back to the cookie', '/echo', { headers: { 'Service-Key': 'wrong', Cookie: 'service.session=x' } }],
  ['two session cookies', '/echo', { headers: { Cookie: 'service.session=x; service.session=y' } }],
  ['two keys', '/echo', { headers: { 'Service-Key': [LEGACY_KEY, LEGACY_KEY] } }],
  ['two content types', '/echo', { headers: { ...key, 'X-A': ['1', '2'] } }],
  ['a request body', '/echo', { method: 'PUT', headers: key, body: 'Grüße' }],
  ['an empty body', '/echo', { method: 'POST', headers: key, body: '' }],
  ['a DELETE with a body', '/service/SVC1', { method: 'DELETE', headers: key, body: 'x' }],
  ['HEAD', '/echo', { method: 'HEAD', headers: key }],
  ['a refused HEAD', '/echo', { method: 'HEAD' }],
  ['PURGE', '/x', { method: 'PURGE', headers: key }],
  ['TRACE', '/x', { method: 'TRACE', headers: key }],
  ['an unknown method', '/x', { method: 'LOCK', headers: key }],
  ['a dot segment', '/a/../b', { headers: key }],
  ['an encoded slash', '/a%2fb', { headers: key }],
  ['a double slash', '//a', { headers: key }],
  ['a backslash', '/a\\b', { headers: key }],
  ['a fragment', '/a#b', { headers: key }],
  ['a long target', `/${'a'.repeat(9_000)}`, { headers: key }],
  ['too many fields', '/echo', { headers: { ...key, ...Object.fromEntries(Array.from({ length: 120 }, (_, i) => [`x-${i}`, 'v'])) } }],
  ['an unknown expectation', '/echo', { headers: { ...key, Expect: 'more' } }],
  ['a field outside Latin-1', '/echo', { headers: { ...key, 'X-Name': 'Gr\u00fc\u00dfe' } }],
  ['TE', '/echo', { headers: { ...key, TE: 'trailers' } }],
  ['a built-in endpoint', '/tokens/self', { headers: key }],
  ['a login', '/login', { body: form({ user: 'superuser@example.com', password: PASSWORD }) }],
  ['a wrong password', '/login', { body: form({ user: 'engineer@example.com', password: 'wrong wrong wrong' }) }],
  ['a built-in endpoint, body too large', '/login', { body: form({ user: 'x'.repeat(70_000) }) }],
  ['the web page', '/_latchkey/'],
  ['an unread body', '/echo', { method: 'POST', body: 'x'.repeat(30_000) }],
  ['several Set-Cookie', '/cookies', { headers: key }],
  ['trailers', '/trailers', { headers: key }],
  ['an interim response', '/early', { headers: key }],
  ['204', '/204', { headers: key }],
  ['304', '/304', { headers: key }],
  ['a Content-Length', '/teapot', { headers: key }],
  ['an upstream that does not respond', '/silent', { method: 'POST', headers: key }],
]; // prettier-ignore

t.test('both protocols give the same response and the same upstream request', async (t) => {
  const session = await openHttp2(t, secure.url);
  t.ok(REQUESTS.length > 30);
  for (const [about, path, sent] of REQUESTS) {
    arrived.length = 0;
    const first = await send(plain.url, path, sent);
    const over: [string, Reply][] = [
      ['HTTP/1.1 over TLS', await send(secure.url, path, sent)],
      ['HTTP/2', await sendHttp2(session, path, sent)],
    ];
    const wanted = shown(first);
    const requests = arrived.length;
    for (const [protocol, reply] of over) {
      t.same(shown(reply), wanted, `${about}: ${protocol}`);
      t.ok(reply.headers['x-request-id'], `${about}: request id over ${protocol}`);
    }
    t.ok(requests === 0 || requests === 3, `${about}: number of upstream requests`);
    const [forwarded, ...others] = arrived.map(({ req }) => seen(req, Buffer.alloc(0)));
    for (const other of others) t.same(other, forwarded, `${about}: the upstream request`);
  }
  const [, h2] = [null, await sendHttp2(session, '/echo', { headers: key })];
  for (const name of ['connection', 'keep-alive', 'transfer-encoding']) t.notOk(name in h2.headers, name);
  t.match(only().req.headers, { 'x-forwarded-proto': 'https', 'x-forwarded-host': new URL(secure.url).host });
  t.notOk(session.closed, 'all on one connection');
});

t.test('with TLS, cookies are Secure and the page sends HSTS', async (t) => {
  const session = await openHttp2(t, secure.url);
  const login = { body: form({ user: 'billing@example.com', password: PASSWORD }) };
  for (const reply of [await sendHttp2(session, '/login', login), await send(secure.url, '/login', login)])
    t.match(reply.headers['set-cookie']?.[0], /; HttpOnly; SameSite=Lax; Secure$/);
  t.notMatch((await send(plain.url, '/login', login)).headers['set-cookie']?.[0], /Secure/);
  for (const reply of [await sendHttp2(session, '/_latchkey/'), await send(secure.url, '/_latchkey/')])
    t.match(reply.headers['strict-transport-security'], /^max-age=31536000/);
  t.equal((await send(plain.url, '/_latchkey/')).headers['strict-transport-security'], undefined);
});

t.test('HPACK never indexes cookies and request ids, and indexes what repeats', async (t) => {
  const session = await openHttp2(t, secure.url);
  const login = { body: form({ user: 'billing@example.com', password: PASSWORD }) };
  const replies = [await sendHttp2(session, '/login', login), await sendHttp2(session, '/cookies', { headers: key })];
  for (const { headers } of replies) {
    t.ok(headers['set-cookie']);
    const flagged = (headers as Record<symbol, unknown>)[sensitiveHeaders] as string[];
    t.same(new Set(flagged), new Set(['set-cookie', 'x-request-id']));
  }
}); // prettier-ignore

t.test('a session of the web page works over HTTP/2', async (t) => {
  const session = await openHttp2(t, secure.url);
  const login = await sendHttp2(session, '/login', { body: form({ user: 'superuser@example.com', password: PASSWORD }) });
  const [cookie = ''] = (login.headers['set-cookie']?.[0] ?? '').split(';');
  const script = /src="([^"]+\.js)"/.exec((await sendHttp2(session, '/_latchkey/')).text)?.[1] ?? '';
  const file = await sendHttp2(session, `/_latchkey/${script}`);
  t.equal(Buffer.byteLength(file.text), Number(file.headers['content-length']), 'a file of several frames');
  t.ok(file.text.length > 16_384);
  t.match((await sendHttp2(session, '/_latchkey/session', { headers: { cookie } })).json, { user: { id: 'superuser' } });
  // Browsers send each cookie in a separate field.
  const crumbs = await sendHttp2(session, '/echo', { headers: { cookie: ['a=1', cookie, 'b=2'] } });
  t.equal(crumbs.status, 200);
  t.equal(only().req.headers.cookie, 'a=1; b=2');
  t.equal((await sendHttp2(session, '/echo', { headers: { cookie: [cookie, cookie] } })).status, 400, 'only one session');
  const foreign = { cookie, 'sec-fetch-site': 'cross-site' };
  t.equal((await sendHttp2(session, '/echo', { method: 'POST', headers: foreign, body: '' })).status, 403);
}); // prettier-ignore

t.test('requests on one connection run in parallel', async (t) => {
  const session = await openHttp2(t, secure.url);
  const hanging = session.request({ ':path': '/never', 'service-key': LEGACY_KEY });
  hanging.on('error', () => undefined);
  for (let i = 0; i < 5; i++) t.equal((await sendHttp2(session, '/echo', { headers: key })).status, 200);
  hanging.close(constants.NGHTTP2_CANCEL);
});

/** Opens a stream and resolves to how it ended. */
function open(session: ClientHttp2Session, path: string) {
  const stream = session.request({ ':path': path, 'service-key': LEGACY_KEY });
  const ended = new Promise<number>((done) => stream.on('close', () => done(stream.rstCode)));
  stream.on('error', () => undefined);
  return { stream, ended };
}

t.test('a failure on one side is a failure on the other', async (t) => {
  const session = await openHttp2(t, secure.url);
  for (const path of ['/broken', '/short']) {
    const { stream, ended } = open(session, path);
    let got = '';
    stream.on('data', (chunk: Buffer) => (got += chunk.toString()));
    t.equal(await ended, constants.NGHTTP2_INTERNAL_ERROR, `${path}: never a clean end`);
    t.equal(got, 'half of it');
  }
  const { stream } = open(session, '/events');
  await once(stream, 'response');
  const { res } = only();
  stream.close(constants.NGHTTP2_CANCEL);
  await until(() => res.destroyed, 'the upstream request of a reset stream ends');
  t.notOk(session.closed);
  session.destroy();
  const other = await openHttp2(t, secure.url);
  await once(open(other, '/events').stream, 'response');
  const lost = only().res;
  other.destroy();
  await until(() => lost.destroyed, 'the upstream request of a lost connection ends');
});

t.test('a slow side slows the other down', async (t) => {
  const session = await openHttp2(t, secure.url);
  const { stream } = open(session, '/big');
  await once(stream, 'response');
  stream.pause();
  const { res } = only();
  await sleep(500);
  const { socket } = res;
  const waiting = socket?.bytesWritten ?? 0;
  t.ok(waiting < 12 * 1024 * 1024, `${waiting} bytes of ${BIG} accepted`);
  let size = 0;
  stream.on('data', (chunk: Buffer) => (size += chunk.length)).resume();
  await once(stream, 'end');
  t.equal(size, BIG);

  const upload = session.request({ ':path': '/unread', ':method': 'POST', 'service-key': LEGACY_KEY });
  upload.on('error', () => undefined);
  const chunk = Buffer.alloc(65_536);
  let written = 0;
  const write = () => {
    for (let more = true; more && written < BIG; written += chunk.length) more = upload.write(chunk);
  };
  upload.on('drain', write);
  write();
  await sleep(500);
  t.ok(written < 12 * 1024 * 1024, `${written} bytes of ${BIG} sent`);
  t.equal((await sendHttp2(session, '/echo', { method: 'POST', headers: key, body: 'x'.repeat(50_000) })).status, 200, 'other requests are served');
  upload.close(constants.NGHTTP2_CANCEL);
}); // prettier-ignore

t.test('sends 100-continue when the body is wanted, and trailers after it', async (t) => {
  const session = await openHttp2(t, secure.url);
  for (const [credential, continued] of [[{ 'service-key': LEGACY_KEY }, true], [{}, false]] as const) {
    const stream = session.request({ ':path': '/echo', ':method': 'POST', expect: '100-continue', ...credential });
    stream.on('error', () => undefined);
    let asked = false;
    stream.on('continue', () => {
      asked = true;
      stream.end('body');
    });
    const [answer] = (await once(stream, 'response')) as [{ ':status': number }];
    t.equal(asked, continued);
    t.equal(answer[':status'], continued ? 200 : 401);
    stream.resume();
    await once(stream, 'close');
  }
  const { stream } = open(session, '/trailers');
  const [trailers] = (await once(stream.resume(), 'trailers')) as [Record<string, string>];
  t.match(trailers, { 'x-sum': '5' });
  t.notOk('set-cookie' in trailers);
}); // prettier-ignore

t.test('unread bodies do not use up the flow control window of later ones', async (t) => {
  const session = await openHttp2(t, secure.url);
  const body = 'x'.repeat(60_000);
  for (let i = 0; i < 60; i++)
    t.equal((await sendHttp2(session, '/echo', { method: 'POST', body })).status, 401);
  t.equal((await sendHttp2(session, '/echo', { method: 'POST', headers: key, body })).status, 200);
  t.notOk(session.closed);
});

t.test('an event stream ends when its token ends', async (t) => {
  const session = await openHttp2(t, secure.url);
  const token = await secure.token('superuser');
  const stream = session.request({ ':path': '/events', 'service-key': token });
  const ended = new Promise<number>((done) => stream.on('error', () => undefined).on('close', () => done(stream.rstCode)));
  await once(stream, 'response');
  await sendHttp2(session, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': token } });
  t.equal(await ended, constants.NGHTTP2_INTERNAL_ERROR);
  await until(() => secure.server.stdout().includes('ended_by_recheck'), 'its record');
}); // prettier-ignore

t.test('a WebSocket works over HTTP/1.1 on the same port', async (t) => {
  const ws = new WebSocket(`${secure.url.replace('https', 'wss')}/socket`, { headers: key, rejectUnauthorized: false });
  await once(ws, 'open');
  ws.send('hello');
  t.equal(String((await once(ws, 'message'))[0]), 'echo hello');
  ws.close();
  await once(ws, 'close');
  const session = await openHttp2(t, secure.url);
  t.notOk(session.remoteSettings.enableConnectProtocol, 'not over HTTP/2');
  // Some common clients request h2c with their first request; over TLS it is ignored too.
  const reply = await send(secure.url, '/status', { headers: { Connection: 'Upgrade, HTTP2-Settings', Upgrade: 'h2c', 'HTTP2-Settings': 'AAMAAABkAAQAAP__' } });
  t.equal(reply.status, 200);
  t.equal((await new Promise<IncomingMessage>((done) => request(`${secure.url}/status`, { rejectUnauthorized: false }, done).end())).statusCode, 200);
}); // prettier-ignore

t.test('a drain finishes open streams, accepts no connection and exits with 0', async (t) => {
  const { url, server } = await startFixture(t, { ...settings, listen: { host: '127.0.0.1', port: 0, tls } });
  const idle = await openHttp2(t, url);
  const session = await openHttp2(t, url);
  const { stream, ended } = open(session, '/events');
  await once(stream, 'response');
  const { res } = only();
  const goaway = Promise.all([once(session, 'goaway'), once(idle, 'goaway')]);
  const stopped = server.stop();
  const [[code]] = (await goaway) as [[number], [number]];
  t.equal(code, constants.NGHTTP2_NO_ERROR);
  await until(() => idle.destroyed, 'an idle connection closes');
  await t.rejects(send(url, '/status'), 'no new connection');
  stream.resume();
  res.end('data: the end\n\n');
  t.equal(await ended, constants.NGHTTP2_NO_ERROR, 'whole');
  t.equal((await stopped).code, 0);
});

t.test('a connection whose handshake ends during a drain is told to close', async (t) => {
  const { url, server } = await startFixture(t, { ...settings, listen: { host: '127.0.0.1', port: 0, tls } });
  const early = await openHttp2(t, url);
  const accepted = connectTcp(Number(new URL(url).port), '127.0.0.1');
  await once(accepted, 'connect');
  await sleep(100);
  const goaway = once(early, 'goaway');
  const stopped = server.stop();
  await goaway;
  const secured = connectTls({ socket: accepted, ALPNProtocols: ['h2'], rejectUnauthorized: false });
  const late = connectHttp2(url, { createConnection: () => secured });
  late.on('error', () => undefined);
  let opened = 0;
  let again: NodeJS.Timeout | undefined;
  late.once('connect', () => {
    again = setInterval(() => {
      if (late.closed || late.destroyed) return;
      open(late, '/never');
      opened += 1;
    }, 20);
  });
  t.teardown(() => clearInterval(again));
  const [code] = (await once(late, 'goaway')) as [number];
  t.equal(code, constants.NGHTTP2_NO_ERROR);
  clearInterval(again);
  t.ok(opened <= 10, `after ${opened} requests`);
  late.destroy();
  t.equal((await stopped).code, 0);
});
