import { once } from 'node:events';
import type { ServerHttp2Stream } from 'node:http2';
import { type AddressInfo, createServer } from 'node:net';
import t from 'tap';
import { Http2Connections } from '../../src/listeners/http2-connections.js';
import { openHttp2 } from '../helpers/http2.js';
import { HTTP2_LIMITS as LIMITS } from '../helpers/in-process-http2.js';
import { until } from '../helpers/until.js';

const MIB = 1_048_576;
const WINDOW = MIB / 2;
const UPLOADS = 20;
const ROUNDS = 3;
/** Node 24 keeps no more than `maxSessionMemory` unread, for a proxy too. */
const HOLDS_LESS = process.version.startsWith('v24.');

for (const [who, isProxy, least, most] of [
  ['a client', false, 4 * MIB, 7.5 * MIB],
  ['a trusted proxy', true, HOLDS_LESS ? 7 * MIB : UPLOADS * (WINDOW - 16_384), UPLOADS * WINDOW],
] as const)
  t.test(`an upload gets a large window, and a connection holds a bounded amount unread: ${who}`, async (t) => {
    const streams = new Set<ServerHttp2Stream>();
    const connections = new Http2Connections(
      LIMITS,
      (_socket, stream) => {
        streams.add(stream);
        stream.once('end', () => stream.respond({ ':status': 204 }, { endStream: true }));
      },
      (error) => t.error(error),
      () => isProxy,
    );
    const server = createServer((socket) => connections.accept(socket)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const session = await openHttp2(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    t.teardown(() => server.close());
    const held = () => [...streams].reduce((sum, { readableLength }) => sum + readableLength, 0);
    const body = Buffer.alloc(WINDOW);
    const upload = () => session.request({ ':method': 'POST', ':path': '/' }, { endStream: false }).end(body);

    for (let round = 0; round < ROUNDS; round++) {
      upload();
      await until(() => held() >= WINDOW - 16_384, 'one upload fills its window');
      for (let i = 1; i < UPLOADS; i++) upload();
      await until(() => streams.size === UPLOADS && held() >= least, 'the others come');
      let [before, unchanged] = [0, 0];
      await until(() => {
        unchanged = held() === before ? unchanged + 1 : 0;
        before = held();
        return unchanged === 5;
      }, 'nothing more comes');
      t.ok(before <= most, `it holds ${before} bytes`);
      let received = 0;
      for (const stream of streams) stream.on('data', ({ length }: Buffer) => (received += length));
      await until(() => received === UPLOADS * body.length, 'all arrive once they are read');
      streams.clear();
    }
  }); // prettier-ignore
