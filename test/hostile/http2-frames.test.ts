import { connect } from 'node:tls';
import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { LEGACY_KEY, startFixture } from '../helpers/fixture.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';

const ROUNDS = 12;
const CONNECTIONS = 16;
const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0';
/** Collects garbage all the time: what nghttp2 leaked ends the process then. */
const COLLECT = `import v8 from 'node:v8'; import vm from 'node:vm';
v8.setFlagsFromString('--expose-gc'); setInterval(vm.runInNewContext('gc'), 60).unref();`;

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

t.test('a wrong frame behind requests, and a reset at once, leak nothing that ends the process', async (t) => {
  const tls = selfSigned(temporaryFolder(t), 'frames');
  const { server } = await startFixture(
    t,
    { listen: { host: '127.0.0.1', port: 0, tls } },
    { env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(COLLECT)}` } },
  );
  const fields = { ':method': 'POST', ':scheme': 'https', ':path': '/service/SVC1', ':authority': 'a' };
  const body = 'x'.repeat(16_000);
  const wrong = {
    'a window that is too large': frame(4, 0, 0, `\0\x04${uint32(2 ** 32 - 1)}`),
    'a stream that is none': frame(0, 0, 9, 'x'),
    'PRIORITY of a wrong length': frame(2, 0, 1, 'x'),
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
      await Promise.all(Array.from({ length: CONNECTIONS }, () => sendAndReset(server.url, bytes, round % 12)));
    const { status } = await sendHttp2(await openHttp2(t, server.url), '/service/SVC1', { headers: { 'Service-Key': LEGACY_KEY } });
    t.equal(status, 200, name);
  }
  t.equal(server.stderr(), '');
}); // prettier-ignore

function sendAndReset(url: string, bytes: string, afterMs: number): Promise<void> {
  return new Promise((resolve) => {
    const to = { host: '127.0.0.1', port: Number(new URL(url).port), rejectUnauthorized: false, ALPNProtocols: ['h2'] };
    const socket = connect(to, () => {
      socket.write(Buffer.from(bytes, 'latin1'));
      setTimeout(() => socket.destroy(), afterMs);
    });
    socket.on('error', () => undefined).on('close', () => resolve()).resume();
  });
} // prettier-ignore
