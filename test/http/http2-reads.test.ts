import { once } from 'node:events';
import type { ServerHttp2Stream } from 'node:http2';
import { type AddressInfo, createServer } from 'node:net';
import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import * as fc from 'fast-check';
import t from 'tap';
import { compactReads } from '../../src/http/http2.js';
import { Http2Connections } from '../../src/listeners/http2-connections.js';
import {
  block,
  DATA,
  END_HEADERS,
  END_STREAM,
  frame,
  FrameConnection,
  HEADERS,
  PING,
  WINDOW_UPDATE,
} from '../helpers/frames.js';
import { options, told } from '../helpers/property.js';
import { HTTP2_LIMITS as LIMITS } from '../helpers/in-process-http2.js';
import { until } from '../helpers/until.js';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;
const UNKNOWN = 0xbe;
/** Bytes of the process that are not garbage. */
function memory(): number {
  gc();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ size: fc.integer({ min: 1, max: 3_000 }), read: fc.nat(20_000) }) },
  fc.constantFrom('pause', 'resume', 'wait'),
);

const sizeOf = (chunks: readonly Buffer[]) => chunks.reduce((sum, { length }) => sum + length, 0);

/** Passes a body on as in these steps. Returns why it is not as it should be. */
async function faultOf(steps: readonly (string | { size: number; read: number })[]) {
  const stream = new Readable({ read: () => undefined });
  compactReads(stream as ServerHttp2Stream);
  const sent: Buffer[] = [];
  const received: Buffer[] = [];
  stream.pause();
  stream.on('data', (chunk: Buffer) => received.push(chunk));
  for (const [i, each] of steps.entries()) {
    if (each === 'pause') stream.pause();
    else if (each === 'resume') stream.resume();
    else if (typeof each === 'string') {
      await setImmediate();
      if (stream.readableFlowing && sizeOf(received) < sizeOf(sent)) return 'a part is held back';
    } else {
      const chunk = Buffer.alloc(Math.max(each.read, each.size), i).subarray(0, each.size);
      sent.push(chunk);
      stream.push(chunk);
    }
  }
  stream.push(null);
  stream.resume();
  await once(stream, 'end');
  if (!Buffer.concat(received).equals(Buffer.concat(sent))) return 'another body';
  const isKept = ({ length, buffer }: Buffer) => buffer.byteLength > 8_192 && 2 * length < buffer.byteLength;
  return received.some(isKept) ? 'a larger read is kept' : undefined;
}

t.test('a body is unchanged, whenever it is paused, and does not keep larger reads', async (t) => {
  const steps = fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (each) => {
    const fault = await faultOf(each);
    if (fault !== undefined) throw new Error(fault);
  });
  const details = await fc.check(steps, options(500));
  t.notOk(details.failed, told(details));
});

t.test('unread body data occupies no more than its window, whatever frames it comes in', async (t) => {
  let stream: ServerHttp2Stream | undefined;
  const connections = new Http2Connections(LIMITS, (_socket, opened) => void (stream = opened).pause(), (error) => t.error(error));
  const server = createServer((socket) => connections.accept(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => void (connections.destroyAll(), server.close()));
  const rows: [string, number, Buffer][] = [
    ['one byte in each read', 400, frame(UNKNOWN, 0, 0, Buffer.alloc(16_000))],
    ['one byte in each frame', 20_000, Buffer.alloc(0)],
  ];
  for (const [name, count, between] of rows) {
    const client = await FrameConnection.open(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const fields: [string, string][] = [[':method', 'POST'], [':scheme', 'http'], [':path', '/'], [':authority', 'a']];
    client.write(frame(HEADERS, END_HEADERS, 1, block(fields)));
    await until(() => stream !== undefined, 'the request');
    const before = memory();
    const byte = frame(DATA, 0, 1, Buffer.from('x'));
    const unit = Buffer.concat([byte, between]);
    for (let i = 0; i < count; i += 100) {
      client.write(Buffer.concat(Array.from({ length: 100 }, () => unit)));
      await until(() => client.socket.writableLength === 0, 'the data');
    }
    client.write(frame(DATA, END_STREAM, 1, Buffer.from('y')));
    await until(() => stream?.state.remoteClose === 1, 'the end of the body');
    // V8 frees collected buffers in the background.
    await until(() => memory() - before < 1_048_576, `little memory: ${name}`);
    const chunks: Buffer[] = [];
    stream?.on('data', (chunk: Buffer) => chunks.push(chunk)).resume();
    await until(() => stream?.readableEnded === true, 'the whole body');
    t.equal(Buffer.concat(chunks).toString(), `${'x'.repeat(count)}y`, name);
    client.socket.destroy();
    stream = undefined;
  }
}); // prettier-ignore

t.test('a body that nobody reads exerts backpressure, whatever the size of its chunks', (t) => {
  const highWaterMark = 16_384;
  for (const size of [1, 64, 100, 1_000, 1_025, 3_000]) {
    const stream = new Readable({ read: () => undefined, highWaterMark });
    compactReads(stream as ServerHttp2Stream);
    stream.pause();
    let accepted = 0;
    while (accepted < 1_000_000) {
      accepted += size;
      if (!stream.push(Buffer.alloc(8_192).subarray(0, size))) break;
    }
    // Each chunk may begin a block.
    const most = highWaterMark + 2_048 + 2 * size;
    t.ok(accepted >= highWaterMark && accepted <= most, `${size}: ${accepted}`);
  }
  t.end();
});

t.test('unread data does not return its window, whatever the size of its frames', async (t) => {
  // Pauses within the body, as for an upstream that is slower.
  const connections = new Http2Connections(LIMITS, (_socket, opened) => void opened.on('data', () => opened.pause()), (error) => t.error(error));
  const server = createServer((socket) => connections.accept(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => void (connections.destroyAll(), server.close()));
  for (const size of [1, 100, 1_000, 5_000]) {
    const client = await FrameConnection.open(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const fields: [string, string][] = [[':method', 'POST'], [':scheme', 'http'], [':path', '/'], [':authority', 'a']];
    client.write(frame(HEADERS, END_HEADERS, 1, block(fields)));
    const window = () => client.frames.filter(({ type, stream }) => type === WINDOW_UPDATE && stream === 1).reduce((sum, { payload }) => sum + payload.readUInt32BE(0), 65_535);
    const part = frame(DATA, 0, 1, Buffer.alloc(size));
    let sent = 0;
    while (sent + size <= window() && sent < 500_000) {
      const count = Math.floor((window() - sent) / size);
      sent += count * size;
      client.write(Buffer.concat(Array.from({ length: count }, () => part)), frame(PING, 0, 0, Buffer.alloc(8)));
      const pings = () => client.frames.filter(({ type }) => type === PING).length;
      const before = pings();
      await until(() => pings() > before, 'it has read them');
    }
    t.ok(sent < 200_000, `${size}: ${sent}`);
    client.socket.destroy();
  }
}); // prettier-ignore
