import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { LEGACY_KEY, startFixture } from '../helpers/fixture.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

const ROUNDS = EVERY_CASE ? 6 : 2;
const CONNECTIONS = 16;
const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0';
/** Collects garbage continuously, so that anything nghttp2 leaked crashes the process. */
const COLLECT = `import v8 from 'node:v8'; import vm from 'node:vm';
v8.setFlagsFromString('--expose-gc'); setInterval(vm.runInNewContext('gc'), 60).unref();`;
/** Writes the number of HTTP/2 sessions in native memory to a file, after each collection. */
const countSessions = (file: string) => `import hooks from 'node:async_hooks'; import fs from 'node:fs';
import v8 from 'node:v8'; import vm from 'node:vm'; v8.setFlagsFromString('--expose-gc'); const gc = vm.runInNewContext('gc');
const live = new Set(); let seen = 0;
hooks.createHook({ init: (id, type) => { if (type === 'HTTP2SESSION') { live.add(id); seen++; } }, destroy: (id) => live.delete(id) }).enable();
setInterval(() => { gc(); fs.writeFileSync(${JSON.stringify(file)}, JSON.stringify({ seen, live: live.size })); }, 100).unref();`;
const preload = (code: string) => ({
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}`,
});

const uint32 = (value: number) =>
  String.fromCharCode(value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255);
const frame = (type: number, flags: number, stream: number, payload: string) =>
  String.fromCharCode(payload.length >> 16, (payload.length >> 8) & 255, payload.length & 255, type, flags) +
  uint32(stream) +
  payload;
const block = (fields: Record<string, string>) =>
  Object.entries(fields)
    .map(([name, value]) => `\0${String.fromCharCode(name.length)}${name}${String.fromCharCode(value.length)}${value}`)
    .join(''); // prettier-ignore

t.test('an invalid frame after requests, then a reset, leaks nothing that crashes the process', async (t) => {
  const tls = selfSigned(temporaryFolder(t), 'frames');
  const { server } = await startFixture(
    t,
    { listen: { host: '127.0.0.1', port: 0, tls } },
    { env: preload(COLLECT) },
  );
  const fields = { ':method': 'POST', ':scheme': 'https', ':path': '/service/SVC1', ':authority': 'a' };
  const body = 'x'.repeat(16_000);
  const wrong = {
    'a window that is too large': frame(4, 0, 0, `\0\x04${uint32(2 ** 32 - 1)}`),
    'an idle stream': frame(0, 0, 9, 'x'),
    'PRIORITY with a wrong length': frame(2, 0, 1, 'x'),
  };
  for (const [name, last] of Object.entries(wrong)) {
    const bytes =
      PREFACE +
      frame(1, 5, 1, block(fields)) +
      frame(1, 4, 3, block({ ...fields, 'service-key': LEGACY_KEY })) +
      frame(0, 0, 3, body) +
      frame(0, 1, 3, body) +
      last;
    for (let round = 0; round < ROUNDS; round++)
      await Promise.all(Array.from({ length: CONNECTIONS }, () => sendAndReset(server.url, bytes, 2 * round)));
    const { status } = await sendHttp2(await openHttp2(t, server.url), '/service/SVC1', { headers: { 'Service-Key': LEGACY_KEY } });
    t.equal(status, 200, name);
  }
  t.equal(server.stderr(), '');
}); // prettier-ignore

t.test('a connection that ends with an invalid frame leaves nothing behind', async (t) => {
  const folder = temporaryFolder(t);
  const tls = selfSigned(folder, 'left-behind');
  const file = join(folder, 'sessions.json');
  const { server } = await startFixture(
    t,
    { listen: { host: '127.0.0.1', port: 0, tls } },
    { env: preload(countSessions(file)) },
  );
  // The client does not acknowledge the server's SETTINGS, so Node keeps them for each connection.
  const tooLarge = PREFACE + frame(4, 0, 0, `\0\x04${uint32(2 ** 32 - 1)}`);
  for (let round = 0; round < ROUNDS; round++)
    await Promise.all(Array.from({ length: CONNECTIONS }, () => framesOf(server.url, tooLarge)));
  const counted = () => JSON.parse(readFileSync(file, 'utf8') || '{}') as { seen?: number; live?: number };
  await until(() => counted().live === 0, 'every session is collected', 10_000);
  t.equal(counted().seen, ROUNDS * CONNECTIONS);
});

t.test('a GOAWAY names no stream, so it frees none that is still being read', async (t) => {
  const tls = selfSigned(temporaryFolder(t), 'goaway');
  const { server } = await startFixture(t, { listen: { host: '127.0.0.1', port: 0, tls } });
  const request = block({ ':method': 'GET', ':scheme': 'https', ':path': '/service/SVC1', ':authority': 'a', 'service-key': LEGACY_KEY });
  // The client's GOAWAY closes the session, so the streams after it are refused within the same
  // read.
  const bytes = PREFACE + frame(1, 5, 1, request) + frame(7, 0, 0, uint32(0) + uint32(0)) + frame(1, 5, 3, request) + frame(1, 5, 5, request);
  const frames = await framesOf(server.url, bytes);
  // Another GOAWAY may follow when the connection ends, between reads.
  const goaway = frames.find(({ type }) => type === 7);
  t.equal(goaway?.payload.readUInt32BE(0), 2 ** 31 - 1);
  const reset = frames.filter(({ type }) => type === 3).map(({ stream, payload }) => [stream, payload.readUInt32BE(0)]);
  t.same(reset[0], [3, 7], 'REFUSED_STREAM: the client may retry it elsewhere');
}); // prettier-ignore

const H2 = { ALPNProtocols: ['h2'] };

interface Frame {
  readonly type: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** Returns the frames of a connection, up to its end by the server. */
async function framesOf(url: string, bytes: string): Promise<Frame[]> {
  const client = openRaw(url, { bytes, tls: H2 });
  await client.closed;
  if (client.error !== undefined) throw client.error;
  const received = client.bytes();
  const frames: Frame[] = [];
  for (let at = 0; at + 9 <= received.length;) {
    const length = received.readUIntBE(at, 3);
    frames.push({ type: received[at + 3] as number, stream: received.readUInt32BE(at + 5), payload: received.subarray(at + 9, at + 9 + length) });
    at += 9 + length;
  }
  return frames;
} // prettier-ignore

function sendAndReset(url: string, bytes: string, afterMs: number): Promise<unknown> {
  const { socket, closed } = openRaw(url, { bytes, tls: H2 });
  socket.once('secureConnect', () => setTimeout(() => socket.destroy(), afterMs));
  return closed;
}
