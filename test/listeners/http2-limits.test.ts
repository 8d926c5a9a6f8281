import { once } from 'node:events';
import type { ServerHttp2Stream } from 'node:http2';
import { type AddressInfo, createServer } from 'node:net';
import t, { type Test } from 'tap';
import { Http2Connections } from '../../src/listeners/http2-connections.js';
import { Http2Request, Http2Response } from '../../src/listeners/http2-message.js';
import { ACK, block, DATA, END_HEADERS, END_STREAM, endsInvalidConnections, frame, FrameConnection, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, uint32, WINDOW_UPDATE } from '../helpers/frames.js'; // prettier-ignore
import { HTTP2_LIMITS } from '../helpers/in-process-http2.js';
import { until } from '../helpers/until.js';

/** A stopped clock that moves on must not end idle connections. */
const LIMITS = { ...HTTP2_LIMITS, keep_alive: Infinity };
const CANCEL = 8;
const ENHANCE_YOUR_CALM = 11;
/** Streams that a client may reset within a second of their start, at once and per second. */
const RESETS = 300;
const RESETS_PER_SECOND = 100;
/** Streams at once. */
const BATCH = 50;
const INVALID_FRAMES = 100;
/** The highest stream id. */
const ANY_STREAM = 2 ** 31 - 1;
const GET: readonly (readonly [string, string])[] = [
  [':method', 'GET'],
  [':scheme', 'http'],
  [':path', '/'],
  [':authority', 'x'],
];

const POST = [[':method', 'POST'] as const, ...GET.slice(1)];

type Listener = (request: Http2Request, response: Http2Response, rawHeaders: readonly string[]) => unknown;

/** Serves HTTP/2, and opens a connection to it. */
async function serve(t: Test, listener: Listener = () => undefined, isProxy = false) {
  const streams: ServerHttp2Stream[] = [];
  const connections = new Http2Connections(
    LIMITS,
    (socket, stream, headers, raw) => {
      streams.push(stream);
      const request = new Http2Request(socket, stream, headers, raw);
      listener(request, new Http2Response(request), raw);
    },
    (error) => t.error(error),
    () => isProxy,
  );
  const server = createServer((socket) => connections.accept(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => void (connections.destroyAll(), server.close()));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = await FrameConnection.open(t, url);
  await until(() => client.find(SETTINGS) !== undefined, 'the start');
  return { connections, client, streams };
}

/** Moves the clock, which else stands still. */
function stopClock(t: Test): (seconds: number) => void {
  const now = performance.now.bind(performance);
  // Whole, so that differences are exact.
  let at = Math.floor(now());
  performance.now = () => at;
  t.teardown(() => (performance.now = now));
  return (seconds) => void (at += 1_000 * seconds);
}

t.test('a connection begins with its limits', async (t) => {
  const { client } = await serve(t);
  await until(() => client.find(WINDOW_UPDATE) !== undefined, 'its window');
  const settings = client.find(SETTINGS)?.payload ?? Buffer.alloc(0);
  const seen = new Map<number, number>();
  for (let at = 0; at < settings.length; at += 6)
    seen.set(settings.readUInt16BE(at), settings.readUInt32BE(at + 2));
  t.equal(seen.get(3), 100, 'MAX_CONCURRENT_STREAMS');
  t.equal(seen.get(4), 524_288, 'INITIAL_WINDOW_SIZE');
  t.equal(seen.get(6), 2 * (LIMITS.head_size + LIMITS.target_size), 'MAX_HEADER_LIST_SIZE');
  t.notOk(seen.get(2), 'ENABLE_PUSH, which a server must not set (RFC 9113 6.5.2)');
  const { stream, payload } = client.find(WINDOW_UPDATE) as { stream: number; payload: Buffer };
  t.same([stream, payload.readUInt32BE(0)], [0, 1_048_576 - 65_535], 'the window of the connection');
});

t.test('the head reader sees as many fields as fit the size', async (t) => {
  let count = 0;
  const { client } = await serve(t, (_request, response, raw) => {
    count = raw.length / 2;
    response.writeHead(431, '', []).end();
  });
  const many = Array.from({ length: 1_000 }, (_, i) => [`x${i}`, ''] as const);
  client.write(frame(HEADERS, END_HEADERS | END_STREAM, 1, block([...GET, ...many])));
  await until(() => client.outcome() !== undefined, 'a response');
  t.same([client.outcome(), count], [431, 1_004]);
});

/** Streams that end too early, because of their client. */
const BROKEN_OFF: Record<string, (stream: number) => Buffer[]> = {
  'a request': (stream) => [
    frame(HEADERS, END_HEADERS | END_STREAM, stream, block(GET)),
    frame(RST_STREAM, 0, stream, uint32(CANCEL)),
  ],
  'a body': (stream) => [
    frame(HEADERS, END_HEADERS, stream, block(POST)),
    frame(RST_STREAM, 0, stream, uint32(CANCEL)),
  ],
  'a body of another length, which the server resets': (stream) => [
    frame(HEADERS, END_HEADERS, stream, block([...POST, ['content-length', '5']])),
    frame(DATA, END_STREAM, stream, Buffer.from('x')),
  ],
};

if (endsInvalidConnections) delete BROKEN_OFF['a body of another length, which the server resets'];

for (const [about, frames] of Object.entries(BROKEN_OFF))
  t.test(
    `a client may break off a number of streams at once, and then some each second: ${about}`,
    async (t) => {
      const pass = stopClock(t);
      const connect = async () => {
        // As the forwarder does.
        const { client, streams } = await serve(t, (request, response) =>
          request.on('close', () => response.destroy()).resume(),
        );
        const breakOff = async (count: number) => {
          const before = streams.length;
          for (let i = 0; i < count; i += 1) {
            client.write(...frames(2 * (before + i) + 1));
            if (i % BATCH === BATCH - 1 || i === count - 1)
              await until(
                () => streams.length === before + i + 1 && streams.every(({ destroyed }) => destroyed),
                'the ends',
              );
          }
          return client.find(GOAWAY) === undefined;
        };
        const isAtLimit = async () => {
          await breakOff(1);
          await until(() => client.ended, 'the end');
          return client.find(GOAWAY)?.payload.readUInt32BE(4) === ENHANCE_YOUR_CALM;
        };
        return { breakOff, isAtLimit };
      };
      const other = await connect();
      const { breakOff, isAtLimit } = await connect();
      t.ok(await breakOff(RESETS), 'at once');
      await other.breakOff(RESETS);
      pass(2);
      t.ok(await breakOff(2 * RESETS_PER_SECOND), 'for each second');
      await other.breakOff(2 * RESETS_PER_SECOND);
      t.ok(await other.isAtLimit(), 'no more');
      pass(1);
      t.ok(await breakOff(RESETS_PER_SECOND), 'and for no second twice');
      pass(1_000);
      t.ok(await breakOff(RESETS), 'after long silence, as at the beginning');
      t.ok(await isAtLimit(), 'and no more');
    },
  );

/** How a round of calls ends: cancelled after a second, answered, or cancelled at once. */
type Round = readonly [late: number, answered: number, rapid: number];
/** Cancels in which a client, or the users behind a proxy, do nothing wrong. */
const HARMLESS: readonly [which: string, round: Round, rounds: number, isProxy: boolean][] = [
  ['of calls that lasted a second, besides others', [100, 0, 70], 4, false],
  ['of half of the calls', [0, 50, 50], 12, false],
  ['through a trusted proxy', [0, 0, 100], 6, true],
];

for (const [which, [late, answered, rapid], rounds, isProxy] of HARMLESS)
  t.test(`cancels end no connection: ${which}`, async (t) => {
    const pass = stopClock(t);
    const responses: Http2Response[] = [];
    const { client, streams } = await serve(t, (_request, each) => void responses.push(each), isProxy);
    const call = async (count: number, answered: number, seconds: number) => {
      const first = responses.length;
      const ids = Array.from({ length: count }, (_, i) => 2 * (first + i) + 1);
      client.write(...ids.map((id) => frame(HEADERS, END_HEADERS | END_STREAM, id, block(GET))));
      await until(() => responses.length === first + count, 'the requests');
      pass(seconds);
      for (const each of responses.slice(first, first + answered)) each.writeHead(204, '', []).end();
      client.write(...ids.slice(answered).map((id) => frame(RST_STREAM, 0, id, uint32(CANCEL))));
      await until(() => streams.every(({ destroyed }) => destroyed), 'the ends');
    };
    for (let i = 0; i < rounds; i += 1) {
      if (late > 0) await call(late, 0, 1);
      await call(answered + rapid, answered, 0);
    }
    t.equal(client.find(GOAWAY), undefined);
  });

t.test('a client is not blamed for streams that this side aborts', async (t) => {
  stopClock(t);
  const { client, streams } = await serve(t, (_request, response) => void response.destroy());
  for (let i = 0; i <= RESETS; i += 1) {
    client.write(frame(HEADERS, END_HEADERS, 2 * i + 1, block(GET)));
    if (i % BATCH === 0) await until(() => client.find(RST_STREAM, 2 * i + 1) !== undefined, 'a reset');
  }
  t.same([streams.length, client.find(GOAWAY)], [RESETS + 1, undefined]);
});

for (const isAcknowledged of [true, false])
  t.test(`a drain ends a connection, whether or not its client answers: ${isAcknowledged}`, async (t) => {
    const { client, connections, streams } = await serve(t);
    client.write(frame(HEADERS, END_HEADERS | END_STREAM, 1, block(GET)));
    await until(() => streams.length === 1, 'a request');
    connections.drain();
    const lasts = () =>
      client.frames.filter(({ type }) => type === GOAWAY).map(({ payload }) => payload.readUInt32BE(0));
    await until(() => lasts().length === 1, 'the announcement');
    t.equal(lasts()[0], ANY_STREAM);
    // Crosses the announcement.
    client.write(frame(HEADERS, END_HEADERS | END_STREAM, 3, block(GET)));
    if (isAcknowledged) {
      client.write(frame(PING, ACK, 0, client.find(PING)?.payload));
      await until(() => lasts().at(-1) === 1, 'to learn that it was not processed', 3_000);
      t.equal(streams.length, 1);
    } else await until(() => lasts().length > 1, 'the end of requests', 3_000);
    t.notOk(client.ended, 'the first request is in flight');
    client.write(frame(RST_STREAM, 0, 1, uint32(CANCEL)));
    await until(() => client.ended, 'the end', 3_000);
    t.equal(lasts().at(-1), 1);
  });

t.test('idle connections are closed at once, others and announced ones in time', async (t) => {
  const pass = stopClock(t);
  let response: Http2Response | undefined;
  const { client, connections } = await serve(t, (_request, each) => void (response = each));
  client.write(frame(HEADERS, END_HEADERS | END_STREAM, 1, block(GET)));
  await until(() => response !== undefined, 'a request');
  connections.closeIdle();
  response?.writeHead(200, '', []).end('ok');
  await until(() => client.outcome() === 200, 'a response: its connection is not idle');
  connections.drain();
  await until(() => client.find(GOAWAY) !== undefined, 'the announcement');
  connections.closeIdle();
  pass(0.9);
  connections.closeIdle();
  await new Promise((resolve) => setImmediate(resolve));
  t.notOk(client.ended);
  pass(0.1);
  connections.closeIdle();
  await until(() => client.ended, 'the end', 3_000);

  const other = await serve(t);
  other.connections.closeIdle();
  await until(() => other.client.ended, 'the end of an idle connection', 3_000);
  t.equal(other.client.find(GOAWAY)?.payload.readUInt32BE(4), 0);
});

t.test('a drain announces the end of a connection once', async (t) => {
  const { client, connections, streams } = await serve(t);
  client.write(frame(HEADERS, END_HEADERS | END_STREAM, 1, block(GET)));
  await until(() => streams.length === 1, 'a request');
  connections.drain();
  connections.drain();
  await until(() => client.find(PING) !== undefined, 'the announcement');
  client.write(frame(PING, ACK, 0, client.find(PING)?.payload));
  const count = (kind: number) => client.frames.filter(({ type }) => type === kind).length;
  await until(() => count(GOAWAY) > 1, 'the end of requests', 3_000);
  connections.drain();
  client.write(frame(RST_STREAM, 0, 1, uint32(CANCEL)));
  await until(() => client.ended, 'the end', 3_000);
  t.equal(count(PING), 1);
});

t.test('a connection ends after a number of invalid frames', async (t) => {
  const { client, streams } = await serve(t);
  const isInvalid = block([...GET, ['Upper', 'x']]);
  for (let i = 0; i < 2 * INVALID_FRAMES && !client.ended; i += 1) {
    client.write(frame(HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, isInvalid));
    const isReset = () => client.find(RST_STREAM, 2 * i + 1) !== undefined;
    await until(() => isReset() || client.ended, 'a reset', 3_000);
  }
  await until(() => client.ended, 'the end', 3_000);
  t.equal(streams.length, 0);
  const resets = client.frames.filter(({ type }) => type === RST_STREAM).length;
  t.ok(Math.abs(resets - INVALID_FRAMES) <= 5, `after ${resets}`);
});
