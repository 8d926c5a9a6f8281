import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Address } from '../../src/upstream/address.js';
import type {
  BodySink,
  Upload,
  ResponseHandler,
  UpstreamExchange,
} from '../../src/upstream/upstream-request.js';
import { serveTcp } from '../helpers/http.js';
import { GET } from '../helpers/upstream-request.js';

/**
 * Reads a response chunk by chunk: pauses the connection after each, and resumes a moment later,
 * unless the response has ended by then.
 */
class SlowReader implements ResponseHandler {
  connection: UpstreamExchange | undefined;
  bytes = 0;
  #isOver = false;
  readonly #done: (how: string) => void;

  constructor(done: (how: string) => void) {
    this.#done = done;
  }

  onRequestStart(): void {}

  onInformational(): void {}

  onReadEnd(): void {}

  onResponseStart(): void {}

  onResponseData(chunk: Buffer): void {
    this.bytes += chunk.length;
    this.connection?.pause();
    setTimeout(() => this.#isOver || this.connection?.resume(), 60);
  }

  onResponseEnd(): void {
    this.#isOver = true;
    this.#done('complete');
  }

  onResponseError(): void {
    this.#isOver = true;
    this.#done('error');
  }
}

const HEADS: readonly string[] = [
  'HTTP/1.0 200 OK\r\n\r\n',
  'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n',
  'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2000\r\n\r\n',
  'HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n',
];
const ENDS: readonly [string, (socket: Socket) => void][] = [
  ['stays', () => undefined],
  ['ends', (socket) => void socket.end()],
  ['is destroyed', (socket) => void socket.destroy()],
  ['is reset', (socket) => void socket.resetAndDestroy()],
];

t.test('a paused connection may end in any way', async (t) => {
  let answer: (socket: Socket) => void = () => undefined;
  const { url: serverUrl } = await serveTcp(t, (socket) => {
    socket.on('data', () => answer(socket));
  });
  for (const head of HEADS)
    for (const [about, end] of ENDS) {
      if (about === 'stays' && !head.includes('Length')) continue;
      answer = (socket) => {
        socket.write(`${head}${'x'.repeat(1_000)}`);
        // While the first chunk is being handled, the second one arrives, and then the end.
        setTimeout(() => socket.write('y'.repeat(1_000), () => void setTimeout(() => end(socket), 15)), 15);
      };
      // Each on a connection of its own: on a busy machine, the end follows the complete response.
      const address = new Address(serverUrl, { connect_timeout: 2_000, tls: null });
      t.teardown(() => address.pool.destroy());
      let reader: SlowReader | undefined;
      const how = await new Promise<string>((done) => {
        reader = new SlowReader(done);
        address.pool.dispatch(GET, reader);
      });
      const name = `${head.trim()}: it ${about}`;
      t.equal(how, about === 'is reset' ? how : 'complete', name);
      t.ok(about === 'is reset' || reader?.bytes === 2_000, `${name}: ${reader?.bytes} bytes`);
    }
});

t.test('a connection that was paused at the last byte of a response accepts the next request', async (t) => {
  const { url: serverUrl } = await serveTcp(t, (socket) => {
    socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'));
  });
  const address = new Address(serverUrl, { connect_timeout: 2_000, tls: null });
  t.teardown(() => address.pool.destroy());
  for (let i = 0; i < 2; i++)
    t.equal(await new Promise((done) => address.pool.dispatch(GET, new SlowReader(done))), 'complete');
}); // prettier-ignore

t.test('a body that follows a response without one is not the next response', async (t) => {
  const forged = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged';
  const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
  for (const [method, head] of [
    ['HEAD', `HTTP/1.1 200 OK\r\nContent-Length: ${forged.length}`],
    ['HEAD', 'HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked'],
    ['HEAD', 'HTTP/1.1 200 OK'],
    ['GET', `HTTP/1.1 304 Not Modified\r\nContent-Length: ${forged.length}`],
    ['DELETE', `HTTP/1.1 204 No Content\r\nContent-Length: ${forged.length}`],
  ] as const) {
    let requests = 0;
    const { url: serverUrl } = await serveTcp(t, (socket) => {
      socket.on('error', () => undefined).on('data', () => {
        requests += 1;
        if (requests > 1) setTimeout(() => socket.write(answer), 30);
        // gunicorn and waitress write the body separately.
        else socket.write(`${head}\r\n\r\n`, () => void setTimeout(() => socket.write(forged), 10));
      });
    });
    const address = new Address(serverUrl, { connect_timeout: 2_000, tls: null });
    t.teardown(() => address.pool.destroy());
    await new Promise((done) => address.pool.dispatch({ ...GET, method }, new SlowReader(done)));
    let reader: SlowReader | undefined;
    await new Promise((done) => address.pool.dispatch(GET, (reader = new SlowReader(done))));
    t.equal(reader?.bytes, 2, `${method}: ${head}`);
  }
}); // prettier-ignore

t.test('bytes from before a request was sent are not its response', async (t) => {
  let requests = 0;
  let opened: Socket | undefined;
  const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
  const { url: serverUrl } = await serveTcp(t, (socket) => {
    opened = socket;
    socket.setNoDelay(true).on('data', () => {
      requests += 1;
      socket.write(answer);
    });
  });
  const address = new Address(serverUrl, { connect_timeout: 2_000, tls: null });
  t.teardown(() => address.pool.destroy());
  const ask = () => new Promise((done) => address.pool.dispatch(GET, new SlowReader(done)));
  t.equal(await ask(), 'complete');
  // Within a timer's turn, so that the request is written only after the sockets were read.
  await sleep(100);
  const asked = ask();
  opened?.write(answer);
  t.same([await asked, requests], ['error', 1]);
  t.equal(await ask(), 'complete', 'the next one uses another connection');
});

t.test('a connection is not reused if its response arrived before the end of the request was sent', async (t) => {
  const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
  for (const early of [true, false]) {
    const opened = new Set<Socket>();
    const { url: serverUrl } = await serveTcp(t, (socket) => {
      opened.add(socket.setNoDelay(true));
      socket.on('error', () => undefined).on('data', (bytes) => {
        if (bytes.toString().includes('GET /') || bytes.toString().endsWith('end')) socket.write(answer);
      });
    });
    const address = new Address(serverUrl, { connect_timeout: 2_000, tls: null });
    t.teardown(() => address.pool.destroy());
    let sink: BodySink | undefined;
    const body = { start: (to: BodySink) => (sink = to), drained: () => undefined } as unknown as Upload;
    const post = { ...GET, method: 'POST', body, length: 8 };
    const posted = new Promise((done) => address.pool.dispatch(post, new SlowReader(done)));
    await sleep(50);
    sink?.write(Buffer.from('begin'));
    await sleep(50);
    // Within a timer's turn, so that the end is written only after the sockets were read.
    if (early) for (const socket of opened) socket.write(answer);
    sink?.write(Buffer.from('end'));
    sink?.end();
    t.equal(await posted, 'complete');
    t.equal(await new Promise((done) => address.pool.dispatch(GET, new SlowReader(done))), 'complete');
    t.equal(opened.size, early ? 2 : 1, early ? 'early' : 'in time');
  }
}); // prettier-ignore

/** Counts the connections to an address whose upstream sends `sent` in response to each request. */
async function countConnections(sent: string, use: (ask: (request?: object, done?: () => void) => Promise<string>) => Promise<unknown>) {
  const opened = new Set<Socket>();
  const { url: serverUrl } = await serveTcp(t, (socket) => {
    opened.add(socket);
    socket.on('error', () => undefined).on('data', () => socket.write(sent));
  });
  const { pool } = new Address(serverUrl, { connect_timeout: 2_000, tls: null });
  await use((request, done) => new Promise((resolve) => {
    const end = (how: string) => [done?.(), resolve(how)];
    pool.dispatch({ ...GET, ...request }, new SlowReader(end));
  }));
  pool.destroy();
  return opened.size;
} // prettier-ignore

const EMPTY = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n';

t.test('a connection is replaced after 1,000 requests, and after one that closes it', async (t) => {
  const many = countConnections(EMPTY, async (ask) => {
    for (let i = 0; i < 1_000; i++) await ask();
    t.equal(await ask(), 'complete');
  });
  t.equal(await many, 2);
  const closing = countConnections(EMPTY, async (ask) => {
    t.same([await ask({ closes: true }), await ask(), await ask()], Array(3).fill('complete'));
  });
  t.equal(await closing, 2, 'even if the upstream keeps it open');
});

t.test('bytes after a response end its connection before the next request', async (t) => {
  let next: Promise<string> | undefined;
  const count = countConnections(`${EMPTY}HTTP/1.1`, async (ask) => {
    // Dispatched within the end of the first response.
    t.equal(await ask({}, () => void (next ??= ask())), 'complete');
    t.equal(await next, 'complete');
  });
  t.equal(await count, 2);
});

t.test('a pool that is destroyed closes the connection that it is opening', async (t) => {
  const { url: serverUrl, server } = await serveTcp(t, () => undefined);
  const { pool } = new Address(serverUrl, { connect_timeout: 2_000, tls: null });
  const asked = new Promise((done) => pool.dispatch(GET, new SlowReader(done)));
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  pool.destroy();
  t.equal(await asked, 'error');
  const [socket] = await accepted;
  await once(socket.resume(), 'close');
});
