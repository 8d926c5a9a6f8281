import { createServer, type ServerResponse } from 'node:http';
import { Duplex } from 'node:stream';
import t from 'tap';
import { pipelined } from '../../src/listeners/pipelining.js';

/** A connection whose other side is this test; it decides what the server reads and when. */
class Connection extends Duplex {
  written = '';
  override _read(): void {}
  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.written += chunk.toString('latin1');
    done();
  }
}

const turn = () => new Promise((resolve) => setTimeout(resolve, 20));
const request = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;

t.test('what is read behind the last answer of a connection is not served', async (t) => {
  const served: string[] = [];
  let first: ServerResponse | undefined;
  const server = createServer(
    pipelined((req, res) => {
      served.push(req.url ?? '');
      if (req.url === '/1') first = res;
      else res.end();
    }),
  );
  const connection = new Connection();
  server.emit('connection', connection);
  connection.push(request('/1') + request('/2'));
  await turn();
  t.same(served, ['/1'], 'the second waits');
  first?.writeHead(200, { Connection: 'close' }).end();
  await turn();
  // Node is done with the connection, but what it had read already still comes out of the parser.
  connection.push(request('/3'));
  await turn();
  t.same(served, ['/1']);
  t.equal(connection.written.match(/HTTP\/1\.1 200/g)?.length, 1);
  connection.destroy();
});

t.test('requests of a connection wait for their turn', async (t) => {
  const open: ServerResponse[] = [];
  const server = createServer(pipelined((_req, res) => open.push(res)));
  const connection = new Connection();
  server.emit('connection', connection);
  connection.push(request('/1') + request('/2') + request('/3'));
  for (let served = 1; served <= 3; served++) {
    await turn();
    t.equal(open.length, served);
    open.at(-1)?.end();
  }
  connection.destroy();
});
