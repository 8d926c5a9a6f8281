import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { exchange } from '../helpers/exchange.js';
import { startFixture } from '../helpers/fixture.js';
import { serveTcp } from '../helpers/http.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n';
const trailer = (line: string) => `${CHUNKED}${line}\r\n\r\n`;
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n';
/** How an upstream may end its response. */
const ENDINGS: Readonly<Record<string, string>> = {
  'a length': `${OK}\r\nok`,
  chunks: `${CHUNKED}\r\n`,
  'trailing Connection: close': trailer('Connection: close'),
  'trailing connection in another case': trailer('cONNECTION: CLOSE'),
  'trailing Connection: keep-alive': trailer('Connection: keep-alive'),
  'trailing Connection: upgrade': trailer('Connection: upgrade\r\nUpgrade: x'),
  'trailing Keep-Alive': trailer('Keep-Alive: timeout=0'),
  'trailing Transfer-Encoding': trailer('Transfer-Encoding: chunked'),
  'another trailer': trailer('X-Sum: 1'),
  'trailing bytes': `${OK}\r\nokMORE`,
  'a trailing response': `${OK}\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`,
  'a trailing interim response': `${OK}\r\nokHTTP/1.1 103 Early Hints\r\n\r\n`,
  'a trailing line break': `${OK}\r\nok\r\n`,
  'Connection: close': `${OK}Connection: close\r\n\r\nok`,
  'Connection: close in a second field': `${OK}Connection: keep-alive\r\nConnection: close\r\n\r\nok`,
  'Connection: close in a first field': `${OK}Connection: close\r\nConnection: keep-alive\r\n\r\nok`,
  'Connection: close in a list': `${OK}Connection: X-A, close\r\n\r\nok`,
  'HTTP/1.0': 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.0 that goes on': 'HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok',
  'a Keep-Alive timeout of 0': `${OK}Keep-Alive: timeout=0\r\nConnection: keep-alive\r\n\r\nok`,
  204: 'HTTP/1.1 204 No Content\r\n\r\n',
  '204 with a length': 'HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n',
  '204 with a length and no body': 'HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n',
  '204 with a body': 'HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok',
  '204 in chunks': 'HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  304: 'HTTP/1.1 304 Not Modified\r\n\r\n',
  '304 with a length': 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: "a"\r\n\r\n',
  '304 with a body': 'HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nok',
  '205 with a body': 'HTTP/1.1 205 Reset Content\r\nContent-Length: 2\r\n\r\nok',
};

let first = '';
let big: ((socket: Socket) => void) | undefined;
let answers = 0;
const { url: upstreamUrl } = await serveTcp(t, (socket) => {
  socket.on('data', (data) => {
    if (big !== undefined) return big(socket);
    // A body that arrives after its head is not a request.
    if (!data.toString('latin1').includes('HTTP/1.1\r\n')) return;
    answers += 1;
    socket.write(
      Buffer.from(answers === 1 ? first : `HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext`, 'latin1'),
    );
  });
});
const fixture = await startFixture(t, {
  upstream: undefined,
  upstreams: {
    api: { url: upstreamUrl, max_connections: 1, retries: 0, idle_timeout: '5s' },
  },
  default_route: { auth: 'none' },
  routes: [{ path: '/x', auth: 'none' }],
});
const { url, server } = fixture;

const BODY = 'Content-Length: 4\r\n\r\nbody';
const NEXT: readonly [string, string][] = [['GET', '\r\n'], ['POST', BODY], ['DELETE', BODY]]; // prettier-ignore
const ask = (method: string, rest: string) =>
  exchange(url, `${method} /x HTTP/1.1\r\nHost: a\r\n${rest}`, method === 'HEAD');

t.test('however a response ends, the next request is served', async (t) => {
  for (const [name, bytes] of Object.entries(ENDINGS))
    for (const method of ['GET', 'HEAD', 'POST'])
      for (const [next, rest] of NEXT) {
        first = method === 'HEAD' ? bytes.slice(0, bytes.indexOf('\r\n\r\n') + 4) : bytes;
        answers = 0;
        const status = Number(bytes.slice(9, 12));
        const got = await ask(method, method === 'POST' ? BODY : '\r\n').catch((e: Error) => e);
        const about = `${method} ${name}`;
        t.equal('status' in got ? got.status : String(got), status, about);
        if ('status' in got && (status === 204 || status === 304))
          t.same(
            [got.all('content-length'), got.all('transfer-encoding'), got.body],
            [[], [], ''],
            `${about}: no length`,
          );
        const then = await ask(next, rest);
        t.match(then, { status: 200, body: 'next' }, `${next} after ${about}`);
      }
});

t.test('HEAD keeps its length', async (t) => {
  first = `${OK}\r\n`;
  answers = 0;
  t.same((await ask('HEAD', '\r\n')).all('content-length'), ['2']);
});

t.test('a truncated response without a length never looks complete', async (t) => {
  for (const head of ['HTTP/1.0 200 OK\r\n\r\n', 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n']) {
    big = (socket) => {
      socket.write(`${head}half`);
      setTimeout(() => socket.resetAndDestroy(), 50);
    };
    const got = await ask('GET', '\r\n').then(({ status }) => status, () => 'broken'); // prettier-ignore
    t.equal(got, 'broken', head);
  }
  big = undefined;
});

/** Reads a response so slowly that all of it queues up for the client. */
async function readSlowly(step: number): Promise<number> {
  let got = 0;
  let over = false;
  const bytes = 'GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';
  const { socket } = openRaw(url, {
    bytes,
    reads: false,
    onData: (chunk) => {
      got += chunk.length;
      socket.pause();
      setTimeout(() => socket.resume(), step);
    },
  });
  socket.on('close', () => (over = true));
  await sleep(150);
  socket.resume();
  await until(() => over, 'the response ends');
  return got;
}

t.test('a response without a length may end in any way while its client does not read', async (t) => {
  const heads = ['HTTP/1.0 200 OK\r\n\r\n', 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n'];
  const ends: [string, (socket: Socket) => void][] = [
    ['an end', (socket) => socket.end()],
    ['a reset', (socket) => socket.resetAndDestroy()],
  ];
  for (const head of heads)
    for (const [about, end] of ends)
      for (const tail of EVERY_CASE ? [100, 20_000, 60_000] : [20_000]) {
        big = (socket) => {
          socket.write(head);
          // More than the system buffers for the client, then a last piece while reading is
          // paused.
          socket.write(Buffer.alloc(12_000_000, 97), () => {
            socket.write(Buffer.alloc(tail, 98), () => setTimeout(() => end(socket), 50));
          });
        };
        const got = await readSlowly(1);
        if (about === 'an end') t.ok(got > 12_000_000 + tail, `${about} after ${tail}: ${got}`);
        else t.ok(got > 0, `${about} after ${tail}: ${got}`);
      }
  big = undefined;
  answers = 1;
  t.equal((await ask('GET', '\r\n')).status, 200, 'the server is still running');
  t.notMatch(server.stdout(), /uncaught|uncaught exception/);
});
