import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { send, sendRaw, serveHttp } from '../helpers/http.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

/** Requests that arrived, and how the upstream responds to them. */
let arrived: string[] = [];
let behave: (req: IncomingMessage, res: ServerResponse) => void = (_req, res) => res.end('ok');
const { url: upstreamUrl, server: upstream } = await serveHttp(t, (req, res) => {
  arrived.push(`${req.method} ${req.url}`);
  behave(req, res);
});
upstream.on('checkContinue', (req: IncomingMessage, res: ServerResponse) => behave(req, res));
const { url, token, server } = await startFixture(t, { upstream: upstreamUrl });
const key = await token('superuser');
const head = (line: string) => `${line} HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\n`;
t.beforeEach(() => {
  arrived = [];
  behave = (_req, res) => res.end('ok');
});

/** Status lines and bodies, without the header fields in between. */
const outline = (text: string) => text.replace(/HTTP\/1\.1 (\d+)[^]*?\r\n\r\n/g, '[$1]');

t.test('serves pipelined requests one after another', async (t) => {
  const answered: number[] = [];
  behave = (req, res) => {
    answered.push(arrived.length);
    // The first ones take longest.
    setTimeout(() => res.end(req.url), 60 - 10 * arrived.length);
  };
  const bytes = ['PUT /1', 'POST /2', 'DELETE /3', 'GET /4'].map((line) => `${head(line)}\r\n`).join('');
  t.equal(outline(await sendRaw(url, bytes, 600, 4)), '[200]/1[200]/2[200]/3[200]/4');
  t.same(arrived, ['PUT /1', 'POST /2', 'DELETE /3', 'GET /4']);
  t.same(answered, [1, 2, 3, 4], 'each arrived after the response to the one before');
});

t.test('sends 100 Continue for a later request only after the earlier response', async (t) => {
  behave = (req, res) => req.resume().on('end', () => res.end('ok'));
  const expecting = `${head('POST /b')}Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc`;
  t.equal(outline(await sendRaw(url, `${head('GET /a')}\r\n${expecting}`, 300, 3)), '[200]ok[100][200]ok');
  const form = 'POST /login HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n';
  t.match(outline(await sendRaw(url, `${head('GET /a')}\r\n${form}`, 300, 3)), /^\[200\]ok\[100\]\[400\]\{/);
});

const MALFORMED =
  /\[400\]\{"msg":"Bad request","detail":"the request is not well-formed HTTP\/1\.1: [^\n]*\}\n/;

t.test('garbage after a request neither replaces nor corrupts its response', async (t) => {
  behave = (_req, res) => {
    res.writeHead(200, { 'Content-Length': 1_000 });
    res.write('x'.repeat(700));
    setTimeout(() => res.end('y'.repeat(300)), 150);
  };
  const garbage = `${head('GET /a')}\r\n\x01garbage\r\n\r\n`;
  const whole = `[200]${'x'.repeat(700)}${'y'.repeat(300)}`;
  t.equal(outline(await sendRaw(url, garbage, 600)).replace(MALFORMED, '[400]'), `${whole}[400]`);
  behave = (_req, res) => void setTimeout(() => res.end('ok'), 100);
  const late = `${head('PUT /a')}Content-Length: 1\r\n\r\na${head('PUT /b')}\r\nGET /evil\0 HTTP/1.1\r\n\r\n`;
  arrived = [];
  const text = await sendRaw(url, late, 600, 2);
  t.equal(outline(text).replace(MALFORMED, '[400]'), '[200]ok[200]ok[400]', 'earlier requests are answered');
  t.match(text.split('HTTP/1.1 ').at(-1), /Connection: close/i);
  t.same(arrived, ['PUT /a', 'PUT /b']);
});

t.test('a body that becomes malformed after its response has begun ends the connection', async (t) => {
  behave = (_req, res) => {
    res.writeHead(200, { 'Content-Length': 1_000 });
    res.write('x'.repeat(700));
  };
  const chunk = `${head('POST /a')}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n`;
  const { write, text, closed } = openRaw(url, { bytes: chunk });
  await sleep(200);
  write('zz\r\n');
  await closed;
  t.equal(outline(text()), `[200]${'x'.repeat(700)}`);
});

t.test('a handshake waits for the response before it, and CONNECT ends the connection', async (t) => {
  behave = (_req, res) => void setTimeout(() => res.end('ok'), 200);
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n';
  const text = await sendRaw(url, `${head('GET /a')}\r\n${head('GET /ws')}${upgrade}`, 800, 2);
  t.match(outline(text), /^\[200\]ok\[200\]ok$/, 'the upstream does not support WebSocket');
  arrived = [];
  const connecting = `${head('GET /a')}\r\nCONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n${head('PUT /evil')}\r\n`;
  t.match(outline(await sendRaw(url, connecting, 500)), /^\[200\]ok\[405\]\{[^[]*$/);
  t.same(arrived, ['GET /a']);
  // Answered at once and in the same chunk: the server is still finishing its response when the
  // next request follows.
  const unknown = 'GET /a HTTP/1.1\r\nHost: a\r\n\r\n';
  const h2c = `${head('GET /b')}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n`;
  for (let i = 0; i < 20; i++) {
    const answers = outline(await sendRaw(url, `${unknown}${h2c}${unknown}${unknown}`, 400, 4)).replace(/\{.*?\}\n?/g, '');
    t.equal(answers, '[401][200]ok[401][401]');
  }
}); // prettier-ignore

t.test('does not serve requests after a response that ends the connection', async (t) => {
  // An unread body ends the connection after its response, which takes a moment.
  const refused = 'POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n';
  for (let i = 0; i < 60; i++) {
    const { socket, closed } = openRaw(url, { bytes: `${refused}abc${head('PUT /evil')}\r\n` });
    const more = setInterval(() => socket.destroyed || socket.write(`${head('PUT /evil')}\r\n`), i % 3);
    setTimeout(() => (i % 2 === 0 ? socket.resetAndDestroy() : socket.end()), 5 + (i % 20));
    await closed;
    clearInterval(more);
  }
  t.notOk(arrived.includes('PUT /evil'), arrived.join());
  t.notMatch(server.stdout(), /"level":[56]0/);
});

t.test('reads requests behind one that takes long, and loses none', async (t) => {
  const waiting: ServerResponse[] = [];
  behave = (_req, res) => void waiting.push(res);
  const request = `${head('GET /x')}X-Filler: ${'x'.repeat(8_000)}\r\n\r\n`;
  const sent = 500;
  let answers = 0;
  const client = openRaw(url, {
    bytes: request.repeat(sent),
    onData: (data) => (answers += data.toString().match(/HTTP\/1\.1 200/g)?.length ?? 0),
  });
  await until(() => arrived.length === 1, 'the first one', 5_000);
  await until(() => client.socket.writableLength === 0, 'the others are read');
  t.equal(arrived.length, 1);
  behave = (_req, res) => res.end();
  waiting[0]?.end();
  await until(() => answers === sent, 'all answers', 60_000);
  t.equal(client.error, undefined);
  client.socket.destroy();
});

t.test('survives connections reset at any moment', async (t) => {
  const handshake = `${head('GET /ws')}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`;
  const kinds = [
    'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n',
    handshake,
    `${head('GET /h2c')}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n`,
    `${head('GET /a')}\r\n${head('POST /b')}Content-Length: 5\r\n\r\nab`,
    'garbage\r\n\r\n',
    'POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nab',
  ];
  for (let i = 0; i < 600; i++) {
    const { socket } = openRaw(url, { reads: false, bytes: kinds[i % kinds.length] ?? '' });
    socket.on('connect', () => setTimeout(() => socket.resetAndDestroy(), i % 7));
    if (i % 20 === 0) await sleep(5);
  }
  await sleep(300);
  t.equal((await send(url, '/x', { headers: { 'Service-Key': key } })).status, 200, 'it still serves');
  t.notMatch(server.stdout(), /"level":[56]0/);
}); // prettier-ignore
