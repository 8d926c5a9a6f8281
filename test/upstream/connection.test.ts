import { createServer, type Socket } from 'node:net';
import t from 'tap';
import type { Dispatcher } from 'undici';
import { Address } from '../../src/upstream/address.js';
import type { Connection } from '../../src/upstream/connection.js';
import { listenOnLoopback } from '../helpers/http.js';

/** Takes an answer piece by piece: holds its connection behind each, and goes on a moment later. */
class SlowReader implements Dispatcher.DispatchHandler {
  connection: Connection | undefined;
  bytes = 0;
  readonly #done: (how: string) => void;

  constructor(done: (how: string) => void) {
    this.#done = done;
  }

  onConnect(): void {}

  onHeaders(): boolean {
    return true;
  }

  onData(chunk: Buffer): boolean {
    this.bytes += chunk.length;
    this.connection?.hold();
    setTimeout(() => this.connection?.release(true), 60);
    return true;
  }

  onComplete(): void {
    this.connection?.release(false);
    this.#done('complete');
  }

  onError(): void {
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

t.test('a held connection may end in any way', async (t) => {
  let answer: (socket: Socket) => void = () => undefined;
  const server = createServer((socket) => {
    socket.on('error', () => undefined).on('data', () => answer(socket));
  });
  const address = new Address(await listenOnLoopback(server), {
    connect_timeout: 2_000,
    max_connections: 2,
    tls: null,
  });
  t.teardown(async () => {
    server.close();
    await address.pool.destroy();
  });
  for (const head of HEADS)
    for (const [about, end] of ENDS) {
      if (about === 'stays' && !head.includes('Length')) continue;
      answer = (socket) => {
        socket.write(`${head}${'x'.repeat(1_000)}`);
        // While the first piece is held, the second one comes, and then the end.
        setTimeout(() => socket.write('y'.repeat(1_000), () => void setTimeout(() => end(socket), 15)), 15);
      };
      let reader: SlowReader | undefined;
      const how = await new Promise<string>((done) => {
        reader = new SlowReader(done);
        address.pool.dispatch({ method: 'GET', path: '/' }, reader);
      });
      const name = `${head.trim()}: it ${about}`;
      t.equal(how, about === 'is reset' ? how : 'complete', name);
      t.ok(about === 'is reset' || reader?.bytes === 2_000, `${name}: ${reader?.bytes} bytes`);
    }
});
