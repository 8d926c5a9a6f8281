import { once } from 'node:events';
import t from 'tap';
import type { Refusal } from '../../src/domain/refusal.js';
import { createPublicServer, listen } from '../../src/listeners/server.js';
import type { UnreadableInput } from '../../src/pipeline/access-log.js';
import {
  block,
  END_HEADERS,
  END_STREAM,
  frame,
  FrameConnection,
  HEADERS,
  SETTINGS,
} from '../helpers/frames.js';
import { HTTP2_LIMITS } from '../helpers/in-process-http2.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const GET = block([
  [':method', 'GET'],
  [':scheme', 'http'],
  [':authority', 'a'],
  [':path', '/'],
]);
const CONVERSATION = Buffer.concat([
  PREFACE,
  frame(SETTINGS, 0, 0),
  frame(HEADERS, END_HEADERS | END_STREAM, 1, GET),
]);
/** The start of a ClientHello. */
const HELLO = Buffer.from([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]);

/** Starts a plain port that responds to everything. */
async function start(h2c: boolean) {
  const refusals: (Refusal & { readonly detail?: string })[] = [];
  const server = createPublicServer(HTTP2_LIMITS, null, {
    serve: (_req, res) => {
      res.writeHead(200, 'OK', ['Content-Length', '2']);
      res.end('ok');
    },
    upgrade: null,
    unreadable: ({ refusal }: UnreadableInput) => refusals.push(refusal),
    fault: (error) => t.error(error),
  }, h2c); // prettier-ignore
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { server, refusals, url: await listen(server, { host: '127.0.0.1', port: 0 }) };
}

const on = await start(true);
const off = await start(false);

t.test('HTTP/2 begins with its preface, in one piece or in several', async (t) => {
  for (const size of [1, 3, 4, 23, 24, 40, CONVERSATION.length]) {
    const client = openRaw(on.url);
    await once(client.socket, 'connect');
    for (let at = 0; at < CONVERSATION.length; at += size) {
      client.write(CONVERSATION.subarray(at, at + size));
      await new Promise(setImmediate);
    }
    await until(() => client.text().endsWith('ok'), `a response, after pieces of ${size} bytes`);
    client.socket.destroy();
  }
  t.same(on.refusals, []);
});

const refused: [name: string, port: typeof on, bytes: Buffer, detail: RegExp][] = [
  ['HTTP/2 with h2c: false', off, CONVERSATION, /^HTTP\/2 without TLS, .* listen\.h2c: true/],
  ['TLS', on, HELLO, /^TLS on a port without TLS; .* listen\.tls/],
  ['TLS, its first byte', on, HELLO.subarray(0, 1), /^TLS on a port without TLS/],
  ['HTTP/2 after an empty line', on, Buffer.concat([Buffer.from('\r\n'), PREFACE]), /HTTP\/1\.1: version/],
  ['HTTP/2 after a request', on, Buffer.concat([Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n'), PREFACE]), /HTTP\/1\.1: version/],
]; // prettier-ignore
for (const [name, { url, refusals }, bytes, detail] of refused)
  t.test(`refused, and named: ${name}`, async (t) => {
    refusals.length = 0;
    const client = openRaw(url, { bytes });
    await client.closed;
    t.match(client.text(), /^(HTTP\/1\.1 200 OK\r\n[^]*ok)?HTTP\/1\.1 400 /);
    t.match(refusals, [{ refusal: 'malformed', detail }]);
    t.ok(client.text().includes(refusals[0]?.detail ?? 'none'), 'the client is told the same');
  });

t.test('what follows "PRI " is left to HTTP/2, which ends the connection', async () => {
  const client = openRaw(on.url, { bytes: 'PRI ' });
  await once(client.socket, 'data');
  client.write('and this is no preface at all');
  await client.closed;
});

t.test('a drain ends these connections too', async (t) => {
  const client = await FrameConnection.open(t, on.url);
  await until(() => client.find(SETTINGS) !== undefined, 'the start');
  const closed = once(on.server, 'close');
  on.server.close();
  await closed;
  t.ok(client.ended);
});
