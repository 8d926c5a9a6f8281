import { once } from 'node:events';
import { connect, constants } from 'node:http2';
import { createServer, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { Http2Connections } from '../../src/listeners/http2-connections.js';
import { movable } from '../helpers/clock.js';
import { listenOnLoopback } from '../helpers/http.js';
import { until } from '../helpers/until.js';

const limits = {
  head_size: 16_384,
  head_fields: 100,
  target_size: 8_192,
  head_timeout: 10_000,
  keep_alive: 1_000,
};

t.test('keep_alive counts from when the client has read its response', async (t) => {
  const advance = movable(t, performance);
  let ended = 0;
  const connections = new Http2Connections(
    limits,
    (_socket, stream) => {
      stream.on('error', () => undefined).respond({ ':status': 200 });
      stream.end(Buffer.alloc(10_000));
      ended += 1;
    },
    (error) => t.fail(String(error)),
  );
  const server = createServer((socket: Socket) => connections.accept(socket));
  t.teardown(() => {
    connections.destroyAll();
    server.close();
  });
  const session = connect(await listenOnLoopback(server), { settings: { initialWindowSize: 0 } });
  t.teardown(() => session.destroy());
  const open = async () => {
    const stream = session.request().on('error', () => undefined);
    const before = ended;
    await until(() => ended > before, 'a complete response');
    await turn();
    connections.sweep();
    return stream;
  };

  const slow = await open();
  advance(59_000);
  connections.sweep();
  session.settings({ initialWindowSize: 65_535 });
  let size = 0;
  slow.on('data', ({ length }: Buffer) => (size += length));
  await once(slow, 'end');
  t.equal(size, 10_000, 'the response of a slow client is whole');
  session.settings({ initialWindowSize: 0 });
  await once(session, 'localSettings');

  const unread = await open();
  advance(61_000);
  connections.sweep();
  await once(unread, 'close');
  t.equal(unread.rstCode, constants.NGHTTP2_CANCEL, 'a response that is not read is reset');

  advance(500);
  connections.sweep();
  t.notOk(session.closed, 'open for the next request');
  advance(1_000);
  connections.sweep();
  await until(() => session.closed || session.destroyed, 'closed afterwards');
});
