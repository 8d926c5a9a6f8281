import { once } from 'node:events';
import { type ClientHttp2Stream, constants } from 'node:http2';
import { type AddressInfo, createServer } from 'node:net';
import t from 'tap';
import { Http2Connections } from '../../src/listeners/http2-connections.js';
import { Http2Request } from '../../src/listeners/http2-request.js';
import { Http2Response } from '../../src/listeners/http2-response.js';
import { openHttp2 } from '../helpers/http2.js';
import { until } from '../helpers/until.js';

const LIMITS = {
  head_size: 16_384,
  head_fields: 100,
  target_size: 8_192,
  head_timeout: 10_000,
  keep_alive: 60_000,
};
/** More than the window of a stream. */
const RESPONSE = Buffer.alloc(200_000);

t.test('a reset ends a response that its client has not read, whatever its code', async (t) => {
  let isEnded = false;
  let open = 0;
  const connections = new Http2Connections(
    LIMITS,
    (socket, stream, headers, raw) => {
      const response = new Http2Response(new Http2Request(socket, stream, headers, raw));
      open += 1;
      response.on('close', () => (open -= 1));
      response.writeHead(200, 'OK', ['Content-Length', String(RESPONSE.length)]);
      if (isEnded) response.end(RESPONSE);
      else response.write(RESPONSE);
    },
    (error) => t.error(error),
  );
  const server = createServer((socket) => connections.accept(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const session = await openHttp2(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  t.teardown(() => server.close());
  const resets: [string, (stream: ClientHttp2Stream) => void][] = [
    ['CANCEL', (stream) => stream.close(constants.NGHTTP2_CANCEL)],
    ['NO_ERROR', (stream) => stream.destroy()],
  ];
  for (const [code, reset] of resets)
    for (isEnded of [false, true]) {
      const stream = session.request({ ':path': '/' });
      await once(stream, 'response');
      t.equal(open, 1);
      reset(stream);
      // The end of a complete response is found by the next sweep.
      await until(() => (isEnded && connections.sweep(), open === 0), `the end after ${code}, ${isEnded}`, 1_000);
    }
}); // prettier-ignore
