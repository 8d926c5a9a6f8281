import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { Refusal } from '../../src/domain/refusal.js';
import type { IncomingRequest, OutgoingResponse, Serve } from '../../src/http/exchange.js';
import { refusalReply } from '../../src/http/replies.js';
import { DEFAULT_LIMITS } from '../../src/http1/events.js';
import { Http1Connection, Http1Connections } from '../../src/listeners/http1-connection.js';
import type { Http1Response } from '../../src/listeners/http1-message.js';
import type { UpgradeListener } from '../../src/listeners/http1-input.js';
import type { UnreadableInput } from '../../src/pipeline/access-log.js';
import { createRandom, type Random } from '../helpers/random.js';
import { until } from '../helpers/until.js';

/** A socket whose peer is this test. */
class Peer extends Duplex {
  readonly remoteAddress = '127.0.0.1';
  written = '';
  /** Whether written bytes are consumed. */
  takes = true;
  wasReset = false;
  #waiting: (() => void)[] = [];

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    // A TLS socket reads during an empty write, into the buffer of the current read.
    t.not(chunk.length, 0);
    this.written += chunk.toString('latin1');
    if (this.takes) done();
    else this.#waiting.push(done);
  }

  override _writev(chunks: { readonly chunk: Buffer }[], done: () => void): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), '', done);
  }

  takeAll(): void {
    this.takes = true;
    for (const done of this.#waiting.splice(0)) done();
  }

  destroySoon(): void {
    this.end(() => this.destroy());
  }

  resetAndDestroy(): void {
    this.wasReset = true;
    this.destroy();
  }

  async send(text: string): Promise<void> {
    const bytes = Buffer.from(text, 'latin1');
    this.push(bytes);
    await settled();
    // A socket reads the next bytes into the same buffer.
    if (this.readableLength === 0) bytes.fill('*');
  }
}

interface Exchange {
  readonly req: IncomingRequest;
  readonly res: OutgoingResponse;
  readonly body: string[];
  readonly events: string[];
}

async function settled(): Promise<void> {
  for (let i = 0; i < 5; i++) await turn();
}

/** Opens a connection. Its requests wait for the test, unless `serve` handles them. */
function open(serve?: Serve, upgrade: UpgradeListener | null = null) {
  const peer = new Peer();
  const exchanges: Exchange[] = [];
  const unreadable: string[] = [];
  const faults: unknown[] = [];
  const note: Serve = (req, res) => {
    const exchange: Exchange = { req, res, body: [], events: [] };
    exchanges.push(exchange);
    req.on('data', (chunk) => exchange.body.push(chunk.toString('latin1')));
    req.on('end', () => exchange.events.push('end')).on('close', () => exchange.events.push('request closed'));
    res.on('close', () => exchange.events.push('closed')).on('drain', () => exchange.events.push('drain'));
    serve?.(req, res);
  };
  const left: Http1Connection[] = [];
  const settings = {
    limits: DEFAULT_LIMITS,
    keepAliveHint: 'timeout=5',
    serve: note,
    upgrade,
    http2: null,
    answerOf: refusalReply,
    unreadable: ({ refusal }: UnreadableInput) => unreadable.push(refusal.refusal),
    fault: (error: unknown) => faults.push(error),
  };
  const owner = { isEnding: false, left: (each: Http1Connection) => left.push(each), closed: () => undefined };
  const connection = new Http1Connection(peer as unknown as Socket, settings, owner);
  return { peer, exchanges, unreadable, faults, connection };
} // prettier-ignore

const get = (path: string, more = '', version = '1.1') =>
  `GET ${path} HTTP/${version}\r\nHost: a\r\n${more}\r\n`;
const post = (body: string, more = '') => `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n${more}\r\n${body}`; // prettier-ignore

function answer({ res }: Exchange, body: string, fields: string[] = []): void {
  res.writeHead(200, 'OK', ['Content-Length', String(body.length), ...fields]);
  res.end(body);
}

/** Returns the head of the only response, without the date, and its body. */
function read(written: string): { head: string[]; body: string } {
  const [head = '', ...rest] = written.split('\r\n\r\n');
  return { head: head.split('\r\n').filter((line) => !line.startsWith('Date: ')), body: rest.join('\r\n\r\n') };
} // prettier-ignore

t.test('pipelined requests wait for their turn; none is served after the last one', async (t) => {
  const { peer, exchanges } = open();
  await peer.send(get('/1') + get('/2') + get('/3', 'Connection: close\r\n') + get('/4'));
  for (const path of ['/1', '/2', '/3']) {
    t.equal(exchanges.at(-1)?.req.url, path);
    answer(exchanges.at(-1) as Exchange, 'ok');
    await settled();
  }
  t.equal(exchanges.length, 3);
  t.equal(peer.written.match(/HTTP\/1\.1 200/g)?.length, 3);
  t.ok(peer.destroyed);
  peer.push(get('/5'));
  await settled();
  t.equal(exchanges.length, 3);
}); // prettier-ignore

t.test('an immediate response lets the next request of the same read start', async (t) => {
  const { peer, exchanges } = open((_req, res) => {
    res.writeHead(204, 'No Content', []);
    res.end();
  });
  await peer.send(get('/x').repeat(500));
  t.equal(exchanges.length, 500);
  t.equal(peer.written.match(/HTTP\/1\.1 204/g)?.length, 500);
  t.same(read(peer.written.slice(0, peer.written.indexOf('HTTP', 4))).head, [
    'HTTP/1.1 204 No Content',
    'Connection: keep-alive',
    'Keep-Alive: timeout=5',
  ]);
});

t.test('a client that does not read responses gets no further requests served', async (t) => {
  const { peer, exchanges } = open((_req, res) => {
    res.writeHead(200, 'OK', ['Content-Length', '10000']);
    res.end('x'.repeat(10_000));
  });
  peer.takes = false;
  await peer.send(get('/x').repeat(100));
  t.ok(exchanges.length < 10, `${exchanges.length} were served`);
  peer.takeAll();
  for (let i = 0; i < 100 && exchanges.length < 100; i++) await settled();
  t.equal(exchanges.length, 100);
});

t.test('frames responses', async (t) => {
  const rows: [about: string, request: string, status: number, fields: string[], chunks: string[], head: string[], body: string, closes: boolean][] = [
    ['a length', get('/'), 200, ['Content-Length', '2'], ['ab'], ['Connection: keep-alive', 'Keep-Alive: timeout=5', 'Content-Length: 2'], 'ab', false],
    ['no length', get('/'), 200, [], ['ab', 'c'], ['Connection: keep-alive', 'Keep-Alive: timeout=5', 'Transfer-Encoding: chunked'], '2\r\nab\r\n1\r\nc\r\n0\r\n\r\n', false],
    ['no body at all', get('/'), 200, [], [], ['Connection: keep-alive', 'Keep-Alive: timeout=5', 'Transfer-Encoding: chunked'], '0\r\n\r\n', false],
    ['HEAD', 'HEAD / HTTP/1.1\r\nHost: a\r\n\r\n', 200, ['Content-Length', '5'], ['abcde'], ['Connection: keep-alive', 'Keep-Alive: timeout=5', 'Content-Length: 5'], '', false],
    ['HEAD without a length', 'HEAD / HTTP/1.1\r\nHost: a\r\n\r\n', 200, [], [], ['Connection: keep-alive', 'Keep-Alive: timeout=5'], '', false],
    ['304', get('/'), 304, ['ETag', '"a"'], [], ['ETag: "a"', 'Connection: keep-alive', 'Keep-Alive: timeout=5'], '', false],
    ['close, requested by the client', get('/', 'Connection: close\r\n'), 200, ['Content-Length', '1'], ['a'], ['Connection: close', 'Content-Length: 1'], 'a', true],
    ['close, set by the response', get('/'), 200, ['Connection', 'close', 'Content-Length', '1'], ['a'], ['Connection: close', 'Content-Length: 1'], 'a', true],
    ['HTTP/1.0', get('/', '', '1.0'), 200, ['Content-Length', '1'], ['a'], ['Connection: close', 'Content-Length: 1'], 'a', true],
    ['HTTP/1.0 with keep-alive', get('/', 'Connection: keep-alive\r\n', '1.0'), 200, ['Content-Length', '1'], ['a'], ['Connection: keep-alive', 'Keep-Alive: timeout=5', 'Content-Length: 1'], 'a', false],
    ['HTTP/1.0 without a length', get('/', 'Connection: keep-alive\r\n', '1.0'), 200, [], ['a', 'b'], ['Connection: close'], 'ab', true],
  ];
  for (const [about, request, status, fields, chunks, head, body, closes] of rows) {
    const { peer, exchanges } = open();
    await peer.send(request);
    const { res } = exchanges[0] as Exchange;
    res.writeHead(status, 'Reason', fields);
    for (const chunk of chunks) res.write(Buffer.from(chunk));
    res.end();
    await settled();
    const found = read(peer.written);
    t.same(found.head, [`HTTP/1.1 ${status} Reason`, ...head], about);
    t.equal(found.body, body, about);
    t.equal(peer.destroyed, closes, about);
    t.match(peer.written, /\r\nDate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n/);
  }
}); // prettier-ignore

t.test('a head is sent with the first bytes of its body, or alone if it is flushed', async (t) => {
  const { peer, exchanges } = open();
  await peer.send(get('/'));
  const { res } = exchanges[0] as Exchange;
  res.writeHead(200, 'OK', ['Date', 'never', 'Content-Length', '2']);
  t.ok(res.headersSent);
  t.equal(peer.written, '');
  res.flushHeaders();
  await settled();
  t.match(peer.written, /^HTTP\/1\.1 200 OK\r\nDate: never\r\n/);
  t.throws(() => res.writeHead(200, 'OK', ['X-A', 'b\r\nX-C: d']));
  res.end('ok');
  await settled();
  t.match(peer.written, /\r\n\r\nok$/);
});

t.test('writes nothing after the end of a response, nor to a closed connection', async (t) => {
  const { peer, exchanges } = open();
  await peer.send(get('/1'));
  const first = exchanges[0] as Exchange;
  answer(first, 'ok');
  await settled();
  const { written } = peer;
  t.ok(first.res.write('more'));
  first.res.end('more');
  first.res.writeContinue();
  first.res.flushHeaders();
  t.equal(peer.written, written);
  await peer.send(get('/2'));
  const { res, events } = exchanges[1] as Exchange;
  res.destroy();
  t.ok(res.destroyed, 'at once');
  res.writeHead(200, 'OK', []);
  t.ok(res.write('late'));
  res.end();
  await settled();
  t.equal(peer.written, written);
  t.same(events, ['closed']);
});

t.test('combines the writes of one turn, and flushes them before an abort', async (t) => {
  const peers = [open(), open()];
  for (const { peer } of peers) await peer.send(get('/1').repeat(2));
  for (const { exchanges } of peers) answer(exchanges[0] as Exchange, 'one');
  t.same(peers.map(({ peer }) => peer.written), ['', '']);
  await settled();
  for (const { peer } of peers) t.match(peer.written, /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\none$/);

  const [{ peer, exchanges } = open()] = peers;
  const { res } = exchanges[1] as Exchange;
  res.writeHead(200, 'OK', ['Content-Length', '10']);
  res.write('half');
  res.destroy();
  t.match(peer.written, /\r\n\r\nhalf$/);
}); // prettier-ignore

t.test('a client sees that a response was broken off', async (t) => {
  const rows: readonly [about: string, version: string, fields: string[], wasReset: boolean][] = [
    ['chunked', '1.1', [], false],
    ['a length', '1.0', ['Content-Length', '9'], false],
    ['neither: a clean end would look like the end of the body', '1.0', [], true],
  ];
  for (const [about, version, fields, wasReset] of rows) {
    const { peer, exchanges } = open();
    await peer.send(get('/', '', version));
    const { res } = exchanges[0] as Exchange;
    res.writeHead(200, 'OK', fields);
    res.write('half');
    res.destroy();
    t.same([peer.destroyed, peer.wasReset], [true, wasReset], about);
  }
});

t.test('a response closes once the client has taken it', async (t) => {
  const large = Buffer.alloc(100_000);
  const { peer, exchanges } = open();
  await peer.send(get('/'));
  const [{ res, events }] = exchanges as [Exchange];
  res.writeHead(200, 'OK', ['Content-Length', String(2 * large.length)]);
  t.ok(res.write(large), 'the system took all of it');
  t.notOk(res.writableNeedDrain);
  peer.takes = false;
  t.notOk(res.write(large));
  res.end();
  await settled();
  t.same(events, []);
  peer.takeAll();
  await settled();
  t.same(events, ['closed']);
});

t.test('sends earlier responses before it refuses a malformed request', async (t) => {
  const { peer } = open((_req, res) => {
    res.writeHead(200, 'OK', ['Content-Length', '3']);
    res.end('one');
  });
  await peer.send(`${get('/1').repeat(3)}garbage\r\n\r\n`);
  t.equal(peer.written.split('HTTP/1.1 200 OK').length, 4);
  t.match(peer.written, /HTTP\/1\.1 400 Bad Request/);
});

t.test('sends trailers after a chunked body', async (t) => {
  const { peer, exchanges } = open();
  await peer.send(get('/'));
  const { res } = exchanges[0] as Exchange;
  res.writeHead(200, 'OK', []);
  res.write('a');
  res.addTrailers([['X-Sum', '1']]);
  for (const name of ['Proxy', 'Content-Length', 'a b'])
    t.throws(() => res.addTrailers([[name, '1']]), { code: 'UNWRITABLE_MESSAGE' }, name);
  res.end();
  await settled();
  t.equal(read(peer.written).body, '1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n');
});

t.test('delivers a body on demand, and the next request after it', async (t) => {
  const { peer, exchanges } = open();
  await peer.send(post('abc') + get('/next'));
  const [first] = exchanges as [Exchange];
  t.same(first.body, [], 'not before');
  first.res.writeContinue();
  t.equal(peer.written, 'HTTP/1.1 100 Continue\r\n\r\n');
  first.req.resume();
  await settled();
  t.same([first.body, first.events, first.req.readableEnded], [['abc'], ['end'], true]);
  t.equal(exchanges.length, 1);
  answer(first, 'ok');
  await settled();
  t.equal(exchanges[1]?.req.url, '/next');
});

t.test('an unread body does not block the next request', async (t) => {
  const { peer, exchanges } = open();
  await peer.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n${'x'.repeat(50_000)}`);
  answer(exchanges[0] as Exchange, 'early');
  await peer.send('x'.repeat(50_000) + get('/next'));
  t.same(exchanges[0]?.body, [], 'discarded');
  t.equal(exchanges[1]?.req.url, '/next');
});

t.test('a paused reader stops the body', async (t) => {
  const { peer, exchanges } = open();
  await peer.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n${'x'.repeat(10)}`);
  const [{ req, body }] = exchanges as [Exchange];
  req.on('data', () => req.pause());
  req.resume();
  await settled();
  for (let sent = 10; sent < 200_000; sent += 50_000) await peer.send('x'.repeat(Math.min(50_000, 200_000 - sent)));
  t.same(body.map(({ length }) => length), [10]);
  t.ok(peer.isPaused(), 'the socket is paused, too');
  for (let i = 0; i < 20 && !req.readableEnded; i++) {
    req.resume();
    await settled();
  }
  t.equal(body.join('').length, 200_000);
}); // prettier-ignore

t.test(
  'what nobody reads is held up to a limit; beyond it, a body waits and later requests are dropped',
  async (t) => {
    const MORE = 9 * 1024 * 1024;
    const length = 70_000 + MORE;
    for (const [about, head, isBody] of [
      ['requests', get('/'), false],
      ['a body', `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`, true],
    ] as const) {
      const { peer, exchanges, connection } = open();
      await peer.send(head + 'x'.repeat(70_000));
      t.ok(peer.isPaused(), about);
      const later = performance.now() + 10_000;
      connection.checkClient(later);
      t.notOk(peer.isPaused(), `${about}: read after a while`);
      await peer.send('x'.repeat(MORE));
      t.ok(peer.isPaused(), `${about}: up to a limit`);
      connection.checkClient(later);
      t.equal(peer.isPaused(), isBody, about);
      const [first] = exchanges as [Exchange];
      if (isBody) {
        first.req.resume();
        await settled();
        t.equal(first.body.join('').length, length, 'nothing is lost');
      } else await peer.send('x'.repeat(100));
      answer(first, 'ok');
      await settled();
      t.equal(exchanges.length, 1);
      t.equal(peer.destroyed, !isBody);
      t.match(peer.written, isBody ? /\r\nConnection: keep-alive\r\n/ : /\r\nConnection: close\r\n/);
      peer.destroy();
    }
  },
);

t.test('answers a malformed request once, and never in the middle of another response', async (t) => {
  const alone = open();
  await alone.peer.send('garbage\r\n\r\n');
  t.match(alone.peer.written, /^HTTP\/1\.1 400 Bad Request\r\n[^]*not well-formed/);
  t.same(alone.unreadable, ['malformed']);

  const behind = open();
  await behind.peer.send(`${get('/')}\x01\r\n\r\n`);
  t.equal(behind.peer.written, '', 'the earlier request is answered first');
  answer(behind.exchanges[0] as Exchange, 'ok');
  await settled();
  t.match(behind.peer.written, /^HTTP\/1\.1 200 [^]*okHTTP\/1\.1 400 /);

  const chunked = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n';
  const unanswered = open();
  await unanswered.peer.send(`${chunked}1\r\na\r\nzz\r\n`);
  unanswered.exchanges[0]?.req.resume();
  await settled();
  t.match(unanswered.peer.written, /^HTTP\/1\.1 400 /);
  t.same(unanswered.exchanges[0]?.events, ['request closed', 'closed']);
  t.ok(unanswered.exchanges[0]?.res.destroyed);
  answer(unanswered.exchanges[0] as Exchange, 'late');
  t.notMatch(unanswered.peer.written, /late/);

  const said: Refusal[] = [];
  const left = open((req) => req.on('malformed', (refusal) => said.push(refusal)));
  await left.peer.send(`${chunked}1\r\na\r\nzz\r\n`);
  left.exchanges[0]?.req.resume();
  await settled();
  await left.peer.send(`1\r\nb\r\n0\r\n\r\n${get('/next')}`);
  t.match(said, [{ refusal: 'malformed', detail: /chunk_size/ }], 'its reader is told, once');
  t.same([left.unreadable, left.peer.written], [[], '']);
  answer(left.exchanges[0] as Exchange, 'why');
  await settled();
  t.match(left.peer.written, /^HTTP\/1\.1 200 [^]*Connection: close[^]*why$/);
  t.equal(left.exchanges.length, 1, 'what follows is never read as a request');
  t.ok(left.peer.destroyed);

  const answered = open();
  await answered.peer.send(`${chunked}1\r\na\r\n`);
  const [{ req, res }] = answered.exchanges as [Exchange];
  req.resume();
  res.writeHead(200, 'OK', ['Content-Length', '10']);
  res.write('half');
  await answered.peer.send('zz\r\n');
  t.ok(answered.peer.destroyed);
  t.notMatch(answered.peer.written, / 400 /);
});

t.test('handles a client that ends or breaks its connection', async (t) => {
  for (const [about, request, isWhole] of [
    ['before the answer', get('/'), true],
    ['in the middle of the body', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab', false],
  ] as const)
    for (const way of ['end', 'break'] as const) {
      const { peer, exchanges, unreadable } = open();
      await peer.send(request);
      exchanges[0]?.req.resume();
      if (way === 'end') peer.push(null);
      else peer.destroy();
      await settled();
      const expected = isWhole ? ['closed'] : ['request closed', 'closed'];
      t.same(exchanges[0]?.events, expected, `${about}: ${way}`);
      t.same(unreadable, [], 'not reported as unreadable');
    }
  const cut = open();
  await cut.peer.send('GET / HT');
  cut.peer.push(null);
  await settled();
  t.match(cut.peer.written, /^HTTP\/1\.1 400 /);
  t.same(cut.unreadable, []);
});

t.test('a client that ends its side loses nothing that the reader has not asked for yet', async (t) => {
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n';
  // Smaller chunks would be joined.
  const parts = ['1'.repeat(256), '2'.repeat(256)];
  const chunks = [...parts.map((part) => `100\r\n${part}\r\n`), '0\r\n\r\n'];
  for (const asked of [0, 1, 2])
    for (const sent of [1, 2, 3]) {
      const { peer, exchanges } = open();
      await peer.send(head + chunks.slice(0, sent).join(''));
      const [{ req, body, events }] = exchanges as [Exchange];
      req.on('data', () => body.length === asked && req.pause());
      if (asked > 0) req.resume();
      await settled();
      const wanted = parts.slice(0, Math.min(asked, sent));
      t.same(body, wanted, `${asked} of ${sent} before its end`);
      peer.push(null);
      await settled();
      if (req.isPaused())
        t.same([body, events, peer.written], [wanted, [], ''], `${asked} of ${sent} after its end`);
      req.resume();
      await settled();
      t.same(body, parts.slice(0, sent), `all of ${sent}`);
      t.equal(events[0], sent === 3 ? 'end' : 'request closed');
      if (sent < 3) t.match(peer.written, /^HTTP\/1\.1 400 /);
      t.ok(peer.writableEnded);
    }
});

t.test('chunks of a byte are joined, and what follows them is not lost', async (t) => {
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n';
  const count = 5_000;
  for (const [end, outcome] of [
    ['0\r\n\r\n', 'end'],
    ['x', 'request closed'],
  ] as const)
    for (const pauses of [false, true]) {
      const { peer, exchanges } = open();
      await peer.send(head + '1\r\nx\r\n'.repeat(count) + end);
      const [{ req, body, events }] = exchanges as [Exchange];
      req.on('data', () => pauses && req.pause()).resume();
      await settled();
      for (let i = 0; i < 4; i++) {
        req.resume();
        await settled();
      }
      t.equal(body.join('').length, count);
      t.equal(body.length, 2);
      t.equal(events[0], outcome);
      if (outcome !== 'end') t.match(peer.written, /^HTTP\/1\.1 400 /);
    }
});

t.test('an error in the handler or a listener ends the connection, and is reported', async (t) => {
  const wrong = (): never => {
    throw new Error('wrong');
  };
  const malformed = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n';
  const rows: readonly [about: string, serve: Serve, sent: string][] = [
    ['the handler', wrong, get('/')],
    ['data', (req) => req.on('data', wrong).resume(), post('abc')],
    ['end', (req) => req.on('end', wrong).resume(), post('abc')],
    ['malformed', (req) => req.on('malformed', wrong).resume(), malformed],
    ['data after it', (req) => req.on('malformed', () => req.on('data', wrong)).resume(), malformed],
    ['drain', (_req, res) => void res.on('drain', wrong).writeHead(200, 'OK', []), get('/')],
    ['close', (_req, res) => res.on('close', wrong).destroy(), get('/')],
  ];
  for (const [about, serve, sent] of rows) {
    const { peer, exchanges, faults } = open(serve);
    peer.takes = about !== 'drain';
    await peer.send(sent);
    if (about === 'drain') exchanges[0]?.res.write('x'.repeat(100_000));
    await settled();
    peer.takeAll();
    await peer.send('more');
    t.ok(peer.destroyed, about);
    t.match(faults, [{ message: 'wrong' }], about);
  }
});

t.test('a connection that is closing serves no further request', async (t) => {
  const large = 'x'.repeat(100_000);
  const rows: readonly [about: string, sent: string, end: (opened: ReturnType<typeof open>) => unknown][] = [
    ['the server makes room', get('/1'), async ({ peer, connection, exchanges: [first] }) => {
      answer(first as Exchange, large);
      connection.closeIdle();
      await peer.send(get('/2'));
    }],
    ['the client ends its side', get('/1') + get('/2'), async ({ peer, exchanges: [first] }) => {
      first?.res.writeHead(200, 'OK', ['Content-Length', String(large.length)]);
      first?.res.write(large);
      peer.push(null);
      await settled();
      first?.res.end();
    }],
    ['the response is destroyed', post('abc') + get('/2'), ({ exchanges: [first] }) => {
      answer(first as Exchange, large);
      first?.res.destroy();
    }],
  ];
  for (const [about, sent, end] of rows) {
    const opened = open();
    const { peer, exchanges } = opened;
    await peer.send(sent);
    peer.takes = false;
    await end(opened);
    await settled();
    peer.takeAll();
    await settled();
    t.equal(exchanges.length, 1, about);
    t.ok(peer.destroyed, about);
    if (about !== 'the response is destroyed') t.ok(peer.written.endsWith(large), `${about}: all of it is sent`);
  }
}); // prettier-ignore

/** Requests, with and without a body, of which some are malformed and some are the last one. */
function someRequests(random: Random): string {
  const chunked = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n';
  return Array.from({ length: 1 + random.below(5) }, () => {
    const close = random.oneIn(8) ? 'Connection: close\r\n' : '';
    const valid = [get('/', close), post('x'.repeat(random.below(3_000)), close), `${chunked}3\r\nabc\r\n0\r\n\r\n`];
    return random.oneIn(12) ? random.pick(['garbage\r\n\r\n', `${chunked}zz\r\n`]) : random.pick(valid);
  }).join('');
} // prettier-ignore

/** Does something random to an exchange, as its handler. */
function handle({ req, res }: Exchange, random: Random): void {
  const begin = () => res.headersSent || res.writeHead(200, 'OK', []);
  const acts = [
    () => req.pause(),
    () => req.resume(),
    () => begin() && res.write('hello'),
    () => begin() && res.end(),
    () => random.oneIn(6) && res.destroy(),
  ];
  random.pick(acts)();
}

t.test(
  'whatever a client and a handler do, requests are served one by one, and none after the end',
  async (t) => {
    for (let seed = 0; seed < 400; seed++) {
      const random = createRandom(seed);
      const problems: string[] = [];
      const opened = open((req, res) => {
        const [exchange, before] = [opened.exchanges.at(-1) as Exchange, opened.exchanges.at(-2)];
        if (peer.writableEnded || peer.destroyed) problems.push('served after the end');
        if ((before?.res as Http1Response | undefined)?.writableEnded === false)
          problems.push('served before the response to the last one');
        if (random.oneIn(3)) req.on('malformed', () => res.headersSent || handle(exchange, random));
        for (const event of ['data', 'end'] as const) req.on(event as 'data', () => handle(exchange, random));
        if (random.oneIn(2)) handle(exchange, random);
      });
      const { peer, exchanges, connection, faults } = opened;
      const text = someRequests(random);
      let sent = 0;
      const send = (length: number) =>
        !peer.readableEnded && sent < text.length && peer.push(text.slice(sent, (sent += length)), 'latin1');
      const steps = [
        () => send(1 + random.below(80)),
        () => send(text.length),
        () => exchanges.length > 0 && handle(exchanges.at(-1) as Exchange, random),
        () => (peer.takes ? (peer.takes = false) : peer.takeAll()),
        () => random.oneIn(6) && peer.push(null),
        () => connection.phase === 'idle' && random.oneIn(4) && connection.closeIdle(),
        () => connection.phase === 'idle' && connection.forget(),
      ];
      for (let step = 0; step < 30; step++) {
        random.pick(steps)();
        if (random.oneIn(2)) await turn();
      }
      peer.takeAll();
      for (let i = 0; i < 2 * exchanges.length; i++) {
        const { req, res } = exchanges.at(-1) as Exchange;
        if (!res.headersSent) res.writeHead(200, 'OK', []);
        res.end();
        req.resume();
        await settled();
      }
      const isStuck = connection.phase === 'exchange' && sent >= text.length && !peer.writableEnded;
      if (isStuck && !peer.destroyed) problems.push('stuck');
      peer.destroy();
      await settled();
      for (const { req, events } of exchanges) {
        const ends = events.filter((event) => event === 'end' || event === 'request closed').length;
        const isBodiless = ends === 0 && req.readableEnded;
        if (ends !== 1 && !isBodiless) problems.push(`events of a request: ${events.join()}`);
        if (events.filter((event) => event === 'closed').length > 1) problems.push('closed twice');
      }
      t.same([problems, faults], [[], []], `seed ${seed}`);
    }
  },
);

t.test('a handshake takes over its socket, and loses no bytes after the head', async (t) => {
  const handed: [url: string | undefined, head: string][] = [];
  let handedSocket: Duplex | undefined;
  const { peer, exchanges } = open(undefined, ({ url }, socket, head) => {
    handed.push([url, head.toString('latin1')]);
    handedSocket = socket;
  });
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
  await peer.send(`${get('/before')}${get('/ws', upgrade)}first`);
  t.same(handed, [], 'not before the previous response');
  answer(exchanges[0] as Exchange, 'ok');
  await settled();
  t.same(handed, [['/ws', 'first']]);
  await peer.send('early');
  await settled();
  let got = '';
  handedSocket?.on('data', (chunk: Buffer) => (got += chunk.toString('latin1'))).resume();
  await peer.send(' and late');
  t.equal(got, 'early and late');
  t.equal(exchanges.length, 1);
});

t.test('a handshake that is broken off at once does not take earlier responses with it', async (t) => {
  const { peer } = open(
    (_req, res) => {
      res.writeHead(204, 'No Content', []);
      res.end();
    },
    (_req, socket) => socket.destroy(),
  );
  await peer.send(`${get('/')}${get('/ws', 'Connection: Upgrade\r\nUpgrade: websocket\r\n')}`);
  t.ok(peer.destroyed);
  t.match(peer.written, /^HTTP\/1\.1 204 /);
});

t.test('what follows a malformed body is read and dropped, even if the socket was paused', async (t) => {
  const { peer, exchanges } = open((req) => req.on('malformed', () => undefined));
  await peer.send(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz${'x'.repeat(100_000)}`);
  t.ok(peer.isPaused());
  exchanges[0]?.req.resume();
  await settled();
  t.notOk(peer.isPaused());
});

t.test('a connection that was closed before it is served is left alone', async (t) => {
  const connections = connectionsOf({ head_timeout: 60_000, keep_alive: 60_000 });
  const peer = new Peer();
  peer.destroy();
  connections.accept(peer as unknown as Socket);
  t.equal(peer.listenerCount('close'), 0);
  connections.stop();
});

t.test('a head that is cut at any byte is one request', async (t) => {
  const text = post('abc', 'X-A: b\r\n');
  for (let at = 1; at < text.length; at++) {
    const { peer, exchanges, connection } = open();
    await peer.send(text.slice(0, at));
    t.ok(exchanges.length === 1 || connection.phase === 'head');
    await peer.send(text.slice(at));
    exchanges[0]?.req.resume();
    await settled();
    t.equal(exchanges[0]?.body.join(''), 'abc', `cut at ${at}`);
  }
});

/** Creates the connections of a port with these time limits. */
function connectionsOf(timeouts: { readonly head_timeout: number; readonly keep_alive: number }) {
  const settings = {
    limits: DEFAULT_LIMITS,
    keepAliveHint: 'timeout=5',
    serve: ((_req, res) => {
      res.writeHead(200, 'OK', ['Content-Length', '2']);
      res.end('ok');
    }) satisfies Serve,
    upgrade: null,
    http2: null,
    answerOf: refusalReply,
    unreadable: () => undefined,
    fault: () => undefined,
  };
  return new Http1Connections(settings, { head_size: 16_384, head_fields: 100, target_size: 8_192, ...timeouts });
} // prettier-ignore

t.test('keep_alive counts from when the client has read its response', async (t) => {
  const KEEP_ALIVE_MS = 200;
  for (const more of ['', 'Connection: close\r\n']) {
    const peer = new Peer();
    const connections = connectionsOf({ head_timeout: 60_000, keep_alive: KEEP_ALIVE_MS });
    connections.accept(peer as unknown as Socket);
    peer.takes = false;
    await peer.send(get('/', more));
    t.match(peer.written, /^HTTP\/1\.1 200 /);
    await sleep(4 * KEEP_ALIVE_MS);
    t.notOk(peer.destroyed, `${more}: open while the response is not read`);
    peer.takeAll();
    const takenAt = performance.now();
    await until(() => peer.destroyed, `${more}: closed afterwards`);
    if (more === '') t.ok(performance.now() - takenAt > KEEP_ALIVE_MS / 2, 'open for the next request');
    connections.stop();
  }
});

t.test('an empty line after a request does not begin the next one', async (t) => {
  const [HEAD_MS, KEEP_ALIVE_MS] = [100, 400];
  const ends: readonly [string, (peer: Peer, connections: Http1Connections) => unknown][] = [
    ['the client ends it', (peer) => void peer.push(null)],
    ['the server makes room', (_peer, connections) => connections.closeIdle()],
    ['it stays idle', () => sleep(2 * HEAD_MS)],
  ];
  for (const more of ['', '\r', '\r\n', '\r\nG'])
    for (const [name, end] of ends) {
      const about = `${JSON.stringify(more)}: ${name}`;
      const peer = new Peer();
      const connections = connectionsOf({ head_timeout: HEAD_MS, keep_alive: KEEP_ALIVE_MS });
      connections.accept(peer as unknown as Socket);
      await peer.send(get('/') + more);
      const { length } = peer.written;
      const since = performance.now();
      await end(peer, connections);
      await until(() => peer.destroyed, about);
      const isRefused = more.endsWith('G');
      t.equal(peer.written.slice(length, length + 11), isRefused ? 'HTTP/1.1 40' : '', about);
      if (name === 'it stays idle' && !isRefused) t.ok(performance.now() - since > KEEP_ALIVE_MS / 2, about);
      connections.stop();
    }
}); // prettier-ignore

t.test('a chunked read is served when it is known whether its body is empty, and keeps the body', async (t) => {
  const head = (method: string, more = '') => `${method} / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n${more}\r\n`;
  for (const method of ['GET', 'HEAD', 'OPTIONS']) {
    const { peer, exchanges } = open((req) => void (req.readableEnded || setImmediate(() => req.resume())));
    await peer.send(head(method));
    t.equal(exchanges.length, 0, `${method} waits`);
    await peer.send('0\r\n');
    await peer.send('\r\n');
    t.match(exchanges, [{ req: { readableEnded: true }, body: [] }], `${method} with an empty body`);
    answer(exchanges[0] as Exchange, '');
    await peer.send(`${head(method)}1\r\na`);
    await peer.send('\r\n2\r\nbc\r\n0\r\n\r\n');
    t.same(exchanges[1]?.body.join(''), 'abc', `${method} with a body`);
    t.same(exchanges[1]?.events, ['end']);
    answer(exchanges[1] as Exchange, '');
    await peer.send(head(method, 'Expect: 100-continue\r\n'));
    t.equal(exchanges.length, 3, 'a client that waits for 100 is served at once');
  }
  const { peer, exchanges } = open();
  await peer.send(head('POST'));
  t.equal(exchanges.length, 1, 'a POST is served at once');
}); // prettier-ignore
