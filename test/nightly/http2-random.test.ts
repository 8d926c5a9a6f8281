import { createServer, type ServerHttp2Stream } from 'node:http2';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { LEGACY_KEY } from '../helpers/fixture.js';
import { ACK, frame, GOAWAY, PING, RST_STREAM, SETTINGS, uint32, WINDOW_UPDATE } from '../helpers/frames.js';
import { serveHttp } from '../helpers/http.js';
import { createRandom, type Random } from '../helpers/random.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { startBoth } from '../hostile/both-protocols.js';
import { makeRequest, type SentRequest } from '../hostile/http2-requests.js';

/*
 * Random frames of HTTP/2, of several streams at once, in pieces, ended or reset at any moment:
 * what upstreams of both protocols receive is what was sent, complete only if its end was sent, and
 * never what may not be forwarded.
 */

const CLIENTS = 6;
const CONNECTIONS = 40;
const ENOUGH = 100;
/** Time for the last requests to arrive. */
const SETTLE_MS = 500;
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');
const [PRIORITY, PUSH_PROMISE, UNKNOWN] = [2, 5, 10];

interface Received {
  readonly path: string;
  readonly method: string;
  readonly body: string;
  readonly isWhole: boolean;
  readonly names: readonly string[];
}

const sent = new Map<string, SentRequest>();
const received: Received[] = [];

const one = await serveHttp(t, (req: IncomingMessage, res: ServerResponse) => {
  let body = '';
  req.on('data', (chunk: Buffer) => (body += chunk.toString('latin1'))).on('error', () => undefined);
  req.on('end', () => {
    if (body.length % 3 === 0) res.setHeader('Connection', 'close');
    res.end('x'.repeat(body.length));
  });
  req.on('close', () => {
    const { url: path = '', method = '', complete: isWhole, headers } = req;
    received.push({ path, method, body, isWhole, names: Object.keys(headers) });
  });
});
const two = createServer();
two.on('stream', (stream: ServerHttp2Stream, headers) => {
  let body = '';
  let hasEnded = false;
  stream.on('data', (chunk: Buffer) => (body += chunk.toString('latin1'))).on('error', () => undefined);
  stream.on('end', () => {
    hasEnded = true;
    if (stream.aborted || stream.destroyed) return;
    stream.respond({ ':status': 200 });
    stream.end('x'.repeat(body.length));
  });
  stream.on('close', () => {
    const isWhole = hasEnded && !stream.aborted && stream.rstCode === 0;
    const { ':path': path, ':method': method } = headers;
    received.push({ path: String(path), method: String(method), body, isWhole, names: Object.keys(headers) });
  });
});
two.on('session', (session) => {
  session.on('error', () => undefined);
  t.teardown(() => session.destroy());
});
const { overTls } = await startBoth(t, one.url, two, 20);

/** Frames that are no part of a request. */
const OTHERS: readonly ((random: Random, stream: number) => Buffer)[] = [
  (random) => frame(PING, random.pick([0, ACK]), 0, Buffer.alloc(random.pick([8, 8, 7]))),
  (random) => frame(WINDOW_UPDATE, 0, random.pick([0, 1, 99]), uint32(random.pick([0, 1, 1_000, 2 ** 31 - 1]))),
  (random) => frame(SETTINGS, random.pick([0, ACK]), 0, Buffer.concat([Buffer.from([0, random.below(8)]), uint32(random.pick([0, 1, 16_384, 2 ** 24, 2 ** 31]))])),
  (random, stream) => frame(PRIORITY, 0, stream, Buffer.from([0, 0, 0, random.below(9), 5])),
  (random) => frame(UNKNOWN + random.below(200), random.below(256), random.below(9), Buffer.alloc(random.below(50))),
  (random, stream) => frame(RST_STREAM, 0, random.pick([1, stream, stream + 2]), uint32(8)),
  () => frame(GOAWAY, 0, 0, Buffer.alloc(8)),
  (random) => Buffer.from(Array.from({ length: random.below(40) }, () => random.below(256))),
  () => frame(PUSH_PROMISE, 4, 2, Buffer.alloc(8)),
]; // prettier-ignore

/** Makes what a connection sends, with requests whose frames alternate. */
function makeBytes(random: Random, name: string): Buffer {
  const parts = [PREFACE, frame(SETTINGS, 0, 0)];
  let streams: Buffer[][] = [];
  let stream = 1;
  for (let i = 0, count = 1 + random.below(8); i < count; i++) {
    if (random.oneIn(10)) {
      parts.push(random.pick(OTHERS)(random, stream));
      continue;
    }
    const path = `/${random.pick(['one', 'two'])}/${name}-${stream}`;
    const request = makeRequest(random, stream, path, LEGACY_KEY);
    stream += random.pick([2, 2, 2, 4]);
    sent.set(path, request);
    const heads = request.frames.findIndex((each) => each[3] !== 1 && each[3] !== 9);
    const rest = heads < 0 ? [] : request.frames.slice(heads);
    parts.push(...request.frames.slice(0, request.frames.length - rest.length));
    streams.push(rest);
  }
  while ((streams = streams.filter(({ length }) => length > 0)).length > 0)
    parts.push(random.pick(streams).shift() as Buffer);
  return Buffer.concat(parts);
}

/** Sends bytes in pieces, and then waits, ends or resets. */
async function send(random: Random, bytes: Buffer): Promise<void> {
  const client = openRaw(overTls.url, { tls: { ALPNProtocols: ['h2'] } });
  for (let at = 0; at < bytes.length;) {
    const length = random.pick([1, 7, 100, 5_000, 100_000]);
    client.write(bytes.subarray(at, at + length));
    at += length;
    if (random.oneIn(20)) await sleep(random.below(3));
  }
  if (random.oneIn(2)) await Promise.race([client.closed, sleep(random.pick([1, 20, 100]))]);
  if (random.oneIn(3)) client.socket.end();
  await Promise.race([client.closed, sleep(random.pick([0, 50]))]);
  client.socket.destroy();
}

/** Returns what is wrong with a received request. */
function faultOf({ path, method, body, isWhole, names }: Received): string | undefined {
  const request = sent.get(path);
  if (request === undefined) return 'it was not sent';
  if (request.isForbidden) return 'it may not be forwarded';
  if (method !== request.method || !request.body.startsWith(body)) return 'it was changed';
  if (isWhole && (body !== request.body || !request.isWhole)) return 'it is complete, but was not sent so';
  const unsafe = names.filter((name) => /[^!-~]|[A-Z]|^x.auth|^b$|^$|bad/.test(name));
  return unsafe.length > 0 ? `it has the fields ${unsafe.join()}` : undefined;
}

t.test('upstreams receive what was sent, whatever frames surround it', async (t) => {
  await Promise.all(
    Array.from({ length: CLIENTS }, async (_, client) => {
      const random = createRandom(client);
      // On a busy machine, fewer requests are forwarded before their connection ends.
      for (let i = 0; i < CONNECTIONS || received.length <= ENOUGH; i++)
        await send(random, makeBytes(random, `${client}-${i}`));
    }),
  );
  await sleep(SETTLE_MS);
  const faults = received.map((each) => [each.path, faultOf(each)]).filter(([, fault]) => fault !== undefined);
  t.same(faults, []);
  t.ok(received.length > ENOUGH, `${received.length} of ${sent.size} requests were forwarded`);
  t.equal(overTls.server.stderr(), '');
  t.notMatch(overTls.server.stdout(), /"level":[56]0/, 'no error is logged');
}); // prettier-ignore
