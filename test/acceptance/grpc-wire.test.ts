import { readFileSync } from 'node:fs';
import { createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import {
  compressionAlgorithms,
  credentials,
  ServerCredentials,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { LEGACY_KEY, startFixture } from '../helpers/fixture.js';
import {
  type EchoHandlers,
  ended,
  type Message,
  metadataOf,
  openGrpc,
  said,
  startGrpc,
} from '../helpers/grpc-echo.js';
import { send } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

const TEXT = 'compressible '.repeat(20_000);
const encodings: unknown[] = [];

const handlers: EchoHandlers = {
  Say: (call, callback) => callback(null, call.request),
  Count: (call) => call.end(),
  Collect: (call, callback) => {
    let number = 0;
    call
      .on('data', ({ text = '' }: Message) => (number += text.length))
      .on('end', () => callback(null, { number }));
  },
  Chat: (call) => {
    call.on('data', (message: Message) => call.write(message)).on('end', () => call.end());
  },
};

/** An HTTP/2 server that treats each call as its method name says. */
const METHODS: Record<string, (stream: ServerHttp2Stream) => void> = {
  Say: (stream) => {
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk)).on('end', () => {
      const message = gunzipSync(Buffer.concat(chunks).subarray(5));
      const bytes = gzipSync(message);
      // HTTP/2 allows trailers after a body of known length.
      stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-encoding': 'gzip', 'content-length': 5 + bytes.length }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
      const head = Buffer.from([1, 0, 0, 0, 0]);
      head.writeUInt32BE(bytes.length, 1);
      stream.end(Buffer.concat([head, bytes]));
    });
  },
  Count: (stream) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
    stream.write(Buffer.from([0, 0, 0, 0, 2, 0x10, 1]));
    setTimeout(() => stream.destroy(new Error("broken")), 100);
  },
  Collect: (stream) => {
    // Trailers-only, with a gRPC status that has no HTTP counterpart.
    stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto', 'grpc-status': '10', 'grpc-message': 'abgebrochen %F0%9F%92%A5' }, { endStream: true });
  },
  Chat: (stream) => void stream.on('error', () => undefined),
}; // prettier-ignore

const folder = temporaryFolder(t);
const tls = selfSigned(folder, 'one');
const ca = readFileSync(tls.cert);
const socket = join(folder, 'api.sock');
await startGrpc(t, handlers, ServerCredentials.createInsecure(), undefined, `unix:${socket}`);
const raw = createServer();
raw.on('stream', (stream, headers) => {
  encodings.push(headers['grpc-encoding'], headers['grpc-accept-encoding']);
  stream.on('error', () => undefined);
  METHODS[String(headers[':path']).split('/').at(-1) ?? '']?.(stream);
});
await new Promise<void>((done) => raw.listen(0, '127.0.0.1', done));
t.teardown(() => raw.close());
const { url, server } = await startFixture(t, {
  upstream: undefined,
  upstreams: {
    unix: { url: `unix://${socket}`, protocol: 'h2c' },
    raw: { url: `http://127.0.0.1:${(raw.address() as AddressInfo).port}`, protocol: 'h2c' },
  },
  listen: { host: '127.0.0.1', port: 0, tls },
  routes: [{ path: '/raw/*', action: 'api', upstream: 'raw', strip_prefix: '/raw' }],
  default_route: { action: 'api', upstream: 'unix' },
});
const address = url.replace('127.0.0.1', 'localhost');
const GZIP = { 'grpc.default_compression_algorithm': compressionAlgorithms.gzip } as const;
const open = (path = '', options = {}) => openGrpc(t, address, credentials.createSsl(ca), path, options);
const key = () => metadataOf({ 'service-key': LEGACY_KEY });
const logged = (path: string) => server.stdout().split('\n').filter((line) => line.includes(`"path":"${path}"`)).map((line) => JSON.parse(line)); // prettier-ignore

t.test('all kinds of calls over a Unix socket', async (t) => {
  const client = open();
  t.same(await said(client, { text: TEXT }, key()), { text: TEXT });
  const call = client.Chat(key());
  const over = ended(call);
  for (const text of ['one', 'two']) call.write({ text });
  call.end();
  const { messages, status: end } = await over;
  t.same([messages, end.code], [[{ text: 'one' }, { text: 'two' }], status.OK]);
});

t.test('compressed messages', async (t) => {
  const client = open('', GZIP);
  t.same(await said(client, { text: TEXT }, key()), { text: TEXT }, 'to a server of the same library');
  const collected = await new Promise<Message | ServiceError>((done) => {
    const call = client.Collect(key(), {}, (error, answer) => done(error ?? answer ?? {}));
    for (let i = 0; i < 5; i++) call.write({ text: TEXT });
    call.end();
  });
  t.match(collected, { number: 5 * TEXT.length });
  t.same(await said(open('/raw', GZIP), { text: TEXT }, key()), { text: TEXT }, 'in both directions');
  t.same(encodings[0], 'gzip');
  t.match(encodings[1], /gzip/);
});

t.test('the client sees how the server ended the call', async (t) => {
  const client = open('/raw');
  const aborted = await new Promise<ServiceError | null>((done) => client.Collect(key(), {}, (error) => done(error)).end());
  t.match(aborted, { code: status.ABORTED, details: 'abgebrochen 💥' }, 'trailers-only');
  const { messages, status: end } = await ended(client.Count({ number: 1 }, key()));
  t.equal(messages.length, 1);
  t.equal(end.code, status.UNAVAILABLE, 'by a reset');
  await until(() => logged('/raw/test.v1.Echo/Count').length === 1, 'its record');
  t.match(logged('/raw/test.v1.Echo/Count'), [{ status: 200, outcome: 'aborted_by_upstream' }]);
}); // prettier-ignore

t.test('a call that exceeds its deadline is logged as cancelled by the client', async (t) => {
  const call = open('/raw').Chat(key(), { deadline: Date.now() + 400 });
  call.write({ text: 'x' });
  t.equal((await ended(call)).status.code, status.DEADLINE_EXCEEDED);
  await until(() => logged('/raw/test.v1.Echo/Chat').length === 1, 'its record');
  t.match(logged('/raw/test.v1.Echo/Chat'), [
    { status: null, decision: 'allowed', outcome: 'aborted_by_client' },
  ]);
});

t.test('over HTTP/1.1, refusals use HTTP and not gRPC', async (t) => {
  const headers = { 'Content-Type': 'application/grpc' };
  const reply = await send(url, '/test.v1.Echo/Say', { method: 'POST', headers });
  t.match(reply, { status: 401, headers: { 'content-type': 'application/json', 'grpc-status': undefined } });
});
