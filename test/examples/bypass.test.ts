import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { NEVER_FORWARDED } from '../../src/http/protected-fields.js';
import { FORWARDED_NAMES } from '../../src/upstream/request-headers.js';
import { block, END_HEADERS, END_STREAM, frame, HEADERS, SETTINGS } from '../helpers/frames.js';
import { startFront } from '../helpers/front.js';
import { sendRaw, startUpstream } from '../helpers/http.js';
import { openHttp2 } from '../helpers/http2.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { startNghttpx } from '../helpers/nghttpx.js';
import { accepts, openRaw } from '../helpers/raw-client.mjs';
import { freePort } from '../helpers/free-port.mjs';
import { EVERY_CASE } from '../helpers/nightly.js';
import { until } from '../helpers/until.js';

const FRONTS = ['nginx', 'caddy'] as const;

/** An HTTP/2 connection with one request that claims an identity. */
const FORGED = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  frame(SETTINGS, 0, 0),
  frame(
    HEADERS,
    END_HEADERS | END_STREAM,
    3,
    block([
      [':method', 'GET'],
      [':scheme', 'http'],
      [':authority', 'a'],
      [':path', '/forged'],
      ['x-auth-user-id', 'forged'],
    ]),
  ),
]);

/**
 * Requests an upgrade, and sends HTTP/2 frames once there is a response. Resolves to that response.
 */
function upgradeTo(url: string, request: string): Promise<string> {
  return new Promise((done) => {
    let answer = '';
    const { socket } = openRaw(url, { bytes: request });
    const finish = () => {
      socket.destroy();
      done(answer);
    };
    const timer = setTimeout(finish, 3_000);
    socket.on('data', (chunk: Buffer) => {
      if (answer !== '') return;
      answer = chunk.toString('latin1');
      socket.write(FORGED);
      clearTimeout(timer);
      setTimeout(finish, 300);
    });
    socket.on('error', finish);
  });
}

const SETTINGS_FIELD = 'HTTP2-Settings: AAMAAABkAAQAAP__\r\n';
const KEY = 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
const HOSTILE = [
  'h2c', 'H2C', 'foo', 'TLS/1.0', 'HTTP/2.0', 'websocket, h2c', 'h2c, websocket', 'websocket,h2c', 'websocket/13', 'websocket h2c',
  'websocketh2c', '"websocket"', 'h2c\r\nUpgrade: websocket', 'websocket\r\nUpgrade: h2c', 'websocket\r\nupgrade: h2c, foo', ',h2c', 'h2c,',
]; // prettier-ignore

t.test('only WebSockets pass the decision by Upgrade', async (t) => {
  const upstream = await startUpstream(t);
  const nghttpx = await startNghttpx(t, upstream.url);
  const forged = () => upstream.received.filter(({ target }) => target === '/forged').length;
  const request = (upgrade: string, more = SETTINGS_FIELD, line = 'GET /status') =>
    `${line} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: ${upgrade}\r\n${more}\r\n`;
  t.match(await upgradeTo(nghttpx, request('h2c')), /^HTTP\/1\.1 101/);
  t.equal(forged(), 1, 'nghttpx itself accepts it');
  for (const proxy of FRONTS) {
    await t.test(proxy, async (t) => {
      const { url } = await startFront(t, proxy, nghttpx);
      upstream.received.length = 0;
      t.match(await upgradeTo(url, 'GET /status HTTP/1.1\r\nHost: a\r\n\r\n'), /^HTTP\/1\.1 200/);
      t.equal(upstream.received.length, 1, 'an open route is allowed');
      const attack = async (upgrade: string) => {
        for (const [line, more] of [
          ['GET /status', SETTINGS_FIELD],
          ['GET /status', SETTINGS_FIELD + KEY],
          ['HEAD /status', SETTINGS_FIELD],
          ['POST /status', `${SETTINGS_FIELD}Content-Length: 0\r\n`],
        ] as const) {
          const answer = await upgradeTo(url, request(upgrade, more, line));
          t.notMatch(answer, /^HTTP\/1\.1 101/, `${line}, ${JSON.stringify(upgrade)}`);
          if (!upgrade.includes('\n')) t.match(answer, /^HTTP\/1\.1 40[03]/, `${line}, ${upgrade}`);
        }
        await upgradeTo(url, `GET /status HTTP/1.1\r\nHost: a\r\nUpgrade: ${upgrade}\r\n${SETTINGS_FIELD}\r\n`);
        await upgradeTo(url, `GET /status HTTP/1.0\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: ${upgrade}\r\n\r\n`);
      };
      await Promise.all(HOSTILE.map(attack));
      for (const upgrade of ['websocket', 'WebSocket']) await upgradeTo(url, request(upgrade, KEY));
      t.equal(forged(), 0, 'no frame became a request');
      const passed = upstream.received.map(({ headers }) => headers.upgrade).filter((value) => value !== undefined);
      t.same([...new Set(passed)].filter((value) => value !== 'websocket'), []);
      t.ok(passed.length > 0, 'WebSockets are forwarded');
      t.notMatch(JSON.stringify(upstream.received), /http2-settings/i);
    });
  }
}); // prettier-ignore

/**
 * Starts Python's own web server, which leaves the body of a GET unread on the connection. Its log
 * shows the requests.
 */
async function startPython(t: Test): Promise<{ url: string; log: () => string }> {
  const port = await freePort();
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'status'), 'fine');
  const args = ['-u', '-m', 'http.server', String(port), '--bind', '127.0.0.1', '--protocol', 'HTTP/1.1', '--directory', folder];
  const child = spawn('/usr/bin/python3', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => void (log += chunk.toString()));
  const gone = new Promise((done) => child.once('close', done));
  t.teardown(async () => {
    child.kill('SIGTERM');
    await gone;
  });
  await until(() => accepts(port), 'Python accepts connections', 30_000);
  return { url: `http://127.0.0.1:${port}`, log: () => log };
} // prettier-ignore

t.test('the body of a GET, HEAD or OPTIONS never becomes a request', async (t) => {
  const python = await startPython(t);
  const hidden = 'GET /hidden HTTP/1.1\r\nHost: a\r\nX-Auth-User-Id: forged\r\n\r\n';
  const framed: Record<string, string> = {
    length: `Content-Length: ${hidden.length}\r\n\r\n${hidden}`,
    chunks: `Transfer-Encoding: chunked\r\n\r\n${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`,
    'a byte': 'Content-Length: 1\r\n\r\nX',
    'a byte in chunks': 'Transfer-Encoding: chunked\r\n\r\n1\r\nX\r\n0\r\n\r\n',
  };
  await sendRaw(python.url, `GET /status HTTP/1.1\r\nHost: a\r\n${framed['length']}`);
  t.match(python.log(), '/hidden', 'Python itself serves it');
  for (const proxy of FRONTS) {
    await t.test(proxy, async (t) => {
      const { url } = await startFront(t, proxy, python.url);
      const before = python.log().length;
      for (const method of ['GET', 'HEAD', 'OPTIONS']) {
        for (const [framing, rest] of Object.entries(framed)) {
          const answer = await sendRaw(url, `${method} /status HTTP/1.1\r\nHost: a\r\n${rest}`, 600);
          // A body of OPTIONS is allowed, and nothing of it becomes a request.
          if (method !== 'OPTIONS') t.match(answer, /^HTTP\/1\.1 40[03] /, `${method}, ${framing}`);
        }
      }
      t.notMatch(python.log().slice(before), /hidden|XGET/);
      const none = `GET /status HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`;
      t.match(await sendRaw(url, none, 600), /^HTTP\/1\.1 200 /, 'Content-Length: 0 is not a body');
    });
  }
}); // prettier-ignore

t.test('nginx with HTTP/2, where a body needs no length: it never becomes a request either', async (t) => {
  const python = await startPython(t);
  const { url } = await startFront(t, 'nginx', python.url, ['nginx.conf', /(listen 127\.0\.0\.1:\d+);/, '$1 http2;']);
  const session = await openHttp2(t, url);
  for (const method of ['GET', 'HEAD', 'OPTIONS']) {
    const stream = session.request({ ':method': method, ':path': '/status' }, { endStream: false });
    stream.on('error', () => undefined).resume();
    stream.end('GET /hidden HTTP/1.1\r\nHost: a\r\nX-Auth-User-Id: forged\r\n\r\n');
    await once(stream, 'close');
  }
  await until(() => python.log().split('/status').length > 2, 'the requests themselves are served');
  t.notMatch(python.log(), 'hidden');
}); // prettier-ignore

/**
 * Not tested here: framing and connection fields, which have no meaning with an arbitrary value.
 */
const FRAMES = ['connection', 'content-length', 'transfer-encoding', 'host', 'expect', 'upgrade'];
const NAMES = [...NEVER_FORWARDED, ...FORWARDED_NAMES].filter((name) => !FRAMES.includes(name));
const capitalised = (name: string) => name.replace(/(^|-)[a-z]/g, (at) => at.toUpperCase());

t.test('no header reserved for proxies passes from a client', async (t) => {
  const upstream = await startUpstream(t);
  for (const proxy of FRONTS) {
    await t.test(proxy, async (t) => {
      const { url } = await startFront(t, proxy, upstream.url);
      const ask = async (names: readonly string[]) => {
        upstream.received.length = 0;
        const fields = names.map((name) => `${name}: spoofed\r\n`).join('');
        const answer = await sendRaw(url, `GET /status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${fields}\r\n`, 3_000);
        return { status: answer.slice(9, 12), received: JSON.stringify(upstream.received.map(({ rawHeaders }) => rawHeaders)) };
      };
      for (const spell of [capitalised, (name: string) => name, (name: string) => name.toUpperCase()]) {
        for (let i = 0; i < NAMES.length; i += 30) {
          const { status, received } = await ask(NAMES.slice(i, i + 30).map(spell));
          t.equal(status, '200', 'allowed, without them');
          t.notMatch(received, 'spoofed');
        }
      }
      const odd = '!#$%&\'*+.^_`|~';
      const others = [...NAMES, 'x-auth-user-id', 'x-auth-role', 'service-key'].filter((name) => name.includes('-'));
      for (const [i, name] of others.entries()) {
        if (!EVERY_CASE && i % 4 !== 0) continue;
        const spellings = [name.replaceAll('-', '_'), name.replaceAll('-', odd[i % odd.length] ?? ''), name.replace('-', '~')];
        for (const spelling of spellings) t.notMatch((await ask([capitalised(spelling)])).received, 'spoofed', spelling);
      }
      for (const c of odd) t.notMatch((await ask([`X${c}Auth${c}Role`])).received, 'spoofed', c);
      t.notMatch((await ask(['X-Forwarded-Anything'])).received, 'spoofed', 'with the prefix of such names');
      const { received } = await ask(['X-Other']);
      t.match(received, 'spoofed', 'other headers pass');
    });
  }
}); // prettier-ignore
