import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import t, { type Test } from 'tap';
import { Http2Connections } from '../../src/listeners/http2-connections.js';
import { Http2Request } from '../../src/listeners/http2-message.js';
import {
  block,
  DATA,
  END_HEADERS,
  END_STREAM,
  frame,
  FrameConnection,
  HEADERS,
  PING,
  RST_STREAM,
  uint32,
} from '../helpers/frames.js';
import { HTTP2_LIMITS } from '../helpers/in-process-http2.js';
import { until } from '../helpers/until.js';

const POST: readonly (readonly [string, string])[] = [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', '/a?b'],
  [':authority', 'x'],
];
const CODES = { NO_ERROR: 0, PROTOCOL_ERROR: 1, CANCEL: 8 };

/** Receives a request. Returns it, the names and data of its events, and its client. */
async function receive(t: Test, ...more: Buffer[]) {
  const log: string[] = [];
  let request: Http2Request | undefined;
  const connections = new Http2Connections(
    HTTP2_LIMITS,
    (...args) => {
      request = new Http2Request(...args);
      request.on('data', (chunk: Buffer) => log.push(String(chunk)));
      for (const name of ['end', 'close']) request.on(name, () => log.push(name));
    },
    (error) => t.error(error),
  );
  const server = createServer((socket) => connections.accept(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => void (connections.destroyAll(), server.close()));
  const client = await FrameConnection.open(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const flags = END_HEADERS | (more.length === 0 ? END_STREAM : 0);
  client.write(frame(HEADERS, flags, 1, block(POST)), ...more);
  await until(() => request !== undefined, 'a request');
  /** Waits until the server has received what was sent. */
  const turn = async () => {
    const pongs = () => client.frames.filter(({ type }) => type === PING).length;
    const before = pongs();
    client.write(frame(PING, 0, 0, Buffer.alloc(8)));
    await until(() => pongs() > before, 'a reply');
  };
  return { request: request as unknown as Http2Request, log, client, turn };
}

const data = (text: string, flags = 0) => frame(DATA, flags, 1, Buffer.from(text));

t.test('a request without a body has ended', async (t) => {
  const { request, log, turn } = await receive(t);
  t.match(request, { method: 'POST', url: '/a?b', readableEnded: true });
  t.ok(request.rawHeaders.includes(':authority'));
  t.notOk(request.resume().isPaused());
  await turn();
  t.same(log, []);
});

t.test('a body is emitted while it is read, once, and then its end', async (t) => {
  const { request, log, client, turn } = await receive(t, data('one'));
  await turn();
  t.same([log, request.isPaused(), request.readableEnded], [[], true, false]);
  request.resume().resume();
  await until(() => log.length > 0, 'data');
  t.same([log, request.isPaused()], [['one'], false]);
  request.pause();
  client.write(data('two', END_STREAM));
  await turn();
  t.same([log, request.isPaused(), request.readableEnded], [['one'], true, false]);
  request.resume();
  await until(() => request.readableEnded, 'the end');
  request.resume();
  client.socket.destroy();
  await once(request.stream, 'close');
  t.same(log, ['one', 'two', 'end']);
});

t.test('an empty body ends when it is read', async (t) => {
  const { request, log, turn } = await receive(t, data('', END_STREAM));
  await turn();
  t.same([log, request.readableEnded], [[], false]);
  request.resume();
  t.same(log, []);
  await turn();
  request.resume();
  await turn();
  t.same([log, request.readableEnded], [['end'], true]);
});

for (const [name, code] of Object.entries(CODES))
  for (const isRead of [true, false])
    t.test(`a body that its client resets does not end: ${name}, read: ${isRead}`, async (t) => {
      const { request, log, client, turn } = await receive(t, data('one'));
      if (isRead) request.resume();
      await turn();
      client.write(frame(RST_STREAM, 0, 1, uint32(code)));
      await until(() => log.includes('close'), 'the end');
      request.resume();
      await turn();
      t.same([log, request.readableEnded], [isRead ? ['one', 'close'] : ['close'], false]);
    });

t.test('tells when it is known whether a body is empty, and keeps what arrived', async (t) => {
  const rows: [what: string, first: Buffer, log: string[], ends: boolean][] = [
    ['an empty body', data('', END_STREAM), [], true],
    ['a body in one frame', data('one', END_STREAM), ['one', 'end'], false],
    ['a body in two frames', data('one'), ['one', 'two', 'end'], false],
  ];
  for (const [what, first, expected, ends] of rows) {
    const { request, log, client, turn } = await receive(t, Buffer.alloc(0));
    let isKnown = false;
    request.whenKnown(() => (isKnown = true), 60_000);
    await turn();
    t.notOk(isKnown, what);
    client.write(first);
    await until(() => isKnown, what);
    t.same([log, request.readableEnded], [[], ends], what);
    if (expected.includes('two')) client.write(data('two', END_STREAM));
    await turn();
    request.resume();
    if (!ends) await until(() => request.readableEnded, 'the end');
    t.same(log, expected, what);
  }
  const { request } = await receive(t, Buffer.alloc(0));
  await new Promise<void>((resolve) => request.whenKnown(resolve, 1));
  t.notOk(request.readableEnded, 'a client that sends nothing is served after a while');
}); // prettier-ignore
