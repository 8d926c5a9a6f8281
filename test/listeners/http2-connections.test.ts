import { once } from 'node:events';
import { type ClientHttp2Stream, constants } from 'node:http2';
import { type AddressInfo, createServer } from 'node:net';
import t from 'tap';
import { Http2Connections } from '../../src/listeners/http2-connections.js';
import { Http2Request, Http2Response } from '../../src/listeners/http2-message.js';
import { ACK, block, DATA, END_HEADERS, END_STREAM, frame, FrameConnection, GOAWAY, HEADERS, PING, SETTINGS, uint32, WINDOW_UPDATE } from '../helpers/frames.js'; // prettier-ignore
import { openHttp2 } from '../helpers/http2.js';
import { HTTP2_LIMITS as LIMITS } from '../helpers/in-process-http2.js';
import { until } from '../helpers/until.js';

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

for (const isRead of [true, false])
  t.test(`a drain waits for a client that reads the end of its response, read: ${isRead}`, async (t) => {
    const now = performance.now.bind(performance);
    let passed = 0;
    performance.now = () => now() + passed;
    t.teardown(() => (performance.now = now));
    // More than the buffers of the system.
    const size = 12_000_000;
    let isAnswered = false;
    let answer = () => {};
    let pause = () => {};
    const connections = new Http2Connections(
      LIMITS,
      (socket, stream, headers, raw) => {
        const request = new Http2Request(socket, stream, headers, raw);
        const response = new Http2Response(request);
        response.on('close', () => {
          isAnswered = true;
          pause();
        });
        request.resume();
        answer = () =>
          response.writeHead(200, 'OK', ['Content-Length', String(size)]).end(Buffer.alloc(size));
      },
      (error) => t.error(error),
    );
    const server = createServer((socket) => connections.accept(socket)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => server.close());
    const window = Buffer.concat([Buffer.from([0, 4]), uint32(2 ** 31 - 1)]);
    const client = await FrameConnection.open(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`, window); // prettier-ignore
    const post: [string, string][] = [
      [':method', 'POST'],
      [':scheme', 'http'],
      [':path', '/'],
      [':authority', 'x'],
    ];
    pause = () => client.socket.pause();
    client.write(
      frame(WINDOW_UPDATE, 0, 0, uint32(2 ** 31 - 1 - 65_535)),
      frame(HEADERS, END_HEADERS, 1, block(post)),
      frame(DATA, END_STREAM, 1, Buffer.from('body')),
    );
    await until(() => client.find(SETTINGS) !== undefined && client.frames.length > 2, 'the start');
    connections.drain();
    await until(() => client.find(GOAWAY) !== undefined, 'the announcement');
    client.write(frame(PING, ACK, 0, client.find(PING)?.payload));
    await until(() => client.frames.filter(({ type }) => type === GOAWAY).length >= 2, 'the end of requests');
    passed += 5_000;
    connections.sweep();
    answer();
    await until(() => isAnswered, 'the end of the stream');
    for (const step of [0, 2_000, 20_000]) {
      passed += step;
      connections.sweep();
      connections.closeIdle();
    }
    if (!isRead) {
      passed += LIMITS.keep_alive;
      connections.sweep();
    }
    client.socket.resume();
    await until(() => client.ended, 'the end of the connection');
    const parts = client.frames.filter(({ type }) => type === DATA);
    const received = parts.reduce((sum, { payload }) => sum + payload.length, 0);
    t.equal(received === size, isRead);
    t.equal(parts.at(-1)?.flags, isRead ? END_STREAM : 0);
  });
