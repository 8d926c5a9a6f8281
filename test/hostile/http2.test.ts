import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { LEGACY_KEY, startFixture } from '../helpers/fixture.js';
import { send, sendRaw } from '../helpers/http.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { ACK, block, CONTINUATION, DATA, END_HEADERS, END_STREAM, frame, FrameConnection, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, uint32, WINDOW_UPDATE } from '../helpers/frames.js'; // prettier-ignore
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

type Field = readonly [string, string];

const tls = selfSigned(temporaryFolder(t), 'one');
const listen = { host: '127.0.0.1', port: 0, tls };
const { url, server, upstream } = await startFixture(t, {
  listen,
  // Node sends GOAWAY on invalid HTTP/2 but leaves the connection open; it ends as one without
  // requests.
  limits: { head_timeout: '5s', keep_alive: '10s' },
});

const METHOD: Field = [':method', 'GET'];
const SCHEME: Field = [':scheme', 'https'];
const PATH: Field = [':path', '/a'];
const AUTHORITY: Field = [':authority', 'a'];
const KEY: Field = ['service-key', LEGACY_KEY];
const whole = (...more: Field[]) => [METHOD, SCHEME, PATH, AUTHORITY, KEY, ...more];

/** The default maximum frame size. */
const FRAME_SIZE = 16_384;

/** Encodes a request as one frame, or two. */
const request = (stream: number, fields: readonly Field[], flags = END_STREAM) => {
  const bytes = block(fields);
  if (bytes.length <= FRAME_SIZE) return frame(HEADERS, flags | END_HEADERS, stream, bytes);
  return Buffer.concat([
    frame(HEADERS, flags, stream, bytes.subarray(0, FRAME_SIZE)),
    frame(CONTINUATION, END_HEADERS, stream, bytes.subarray(FRAME_SIZE)),
  ]);
};

const PROTOCOL_ERROR = 'reset 1';
const MALFORMED = [400, PROTOCOL_ERROR];
/** Node's HTTP/2 drops such a field before Latchkey sees it. */
const LEFT_OUT = [200, PROTOCOL_ERROR];

/** Heads that no client library would send, and the allowed outcomes. */
const HEADS: readonly [string, readonly Field[], readonly (number | string)[]][] = [
  ['a request', whole(), [200]],
  ['the scheme http', [METHOD, [':scheme', 'http'], PATH, AUTHORITY, KEY], [200]],
  ['another scheme', [METHOD, [':scheme', 'ftp'], PATH, AUTHORITY, KEY], [400]],
  ['Host instead of :authority', [METHOD, SCHEME, PATH, ['host', 'a'], KEY], [200]],
  ['Host and :authority that match', whole(['host', 'a']), [200]],
  ['Host and :authority that differ', whole(['host', 'b']), [400]],
  ['Host twice', whole(['host', 'a'], ['host', 'a']), MALFORMED],
  ['neither Host nor :authority', [METHOD, SCHEME, PATH, KEY], MALFORMED],
  ['a user in :authority', [METHOD, SCHEME, PATH, [':authority', 'u@a'], KEY], MALFORMED],
  ['an empty :authority', [METHOD, SCHEME, PATH, [':authority', ''], KEY], MALFORMED],
  [':path twice', [METHOD, SCHEME, PATH, PATH, AUTHORITY, KEY], [PROTOCOL_ERROR]],
  [':method twice', [METHOD, METHOD, SCHEME, PATH, AUTHORITY, KEY], [PROTOCOL_ERROR]],
  [':authority twice', [METHOD, SCHEME, PATH, AUTHORITY, AUTHORITY, KEY], [PROTOCOL_ERROR]],
  ['no :path', [METHOD, SCHEME, AUTHORITY, KEY], [PROTOCOL_ERROR]],
  ['no :method', [SCHEME, PATH, AUTHORITY, KEY], [PROTOCOL_ERROR]],
  ['no :scheme', [METHOD, PATH, AUTHORITY, KEY], [PROTOCOL_ERROR]],
  ['an unknown pseudo-header field', [METHOD, SCHEME, PATH, AUTHORITY, [':user', 'a'], KEY], [PROTOCOL_ERROR]],
  ['a pseudo-header field for responses', [METHOD, SCHEME, PATH, AUTHORITY, [':status', '200'], KEY], [PROTOCOL_ERROR]],
  ['a pseudo-header field after others', [METHOD, SCHEME, KEY, PATH, AUTHORITY], [PROTOCOL_ERROR]],
  ['extended CONNECT', [[':method', 'CONNECT'], [':protocol', 'websocket'], SCHEME, PATH, AUTHORITY, KEY], [PROTOCOL_ERROR]],
  ['CONNECT', [[':method', 'CONNECT'], AUTHORITY, KEY], [405]],
  ['an empty :path', [METHOD, SCHEME, [':path', ''], AUTHORITY, KEY], MALFORMED],
  ['a :path without a slash', [METHOD, SCHEME, [':path', 'a'], AUTHORITY, KEY], MALFORMED],
  ['a :path that is a URL', [METHOD, SCHEME, [':path', 'https://b/a'], AUTHORITY, KEY], MALFORMED],
  ['a :path of "*"', [[':method', 'OPTIONS'], SCHEME, [':path', '*'], AUTHORITY, KEY], MALFORMED],
  ['a space in :path', [METHOD, SCHEME, [':path', '/a b'], AUTHORITY, KEY], MALFORMED],
  ['a line end in :path', [METHOD, SCHEME, [':path', '/a HTTP/1.1\r\nX: y'], AUTHORITY, KEY], MALFORMED],
  ['an invalid method', [[':method', 'GET /b HTTP/1.1\r\nX: y'], SCHEME, PATH, AUTHORITY, KEY], [400, 405, PROTOCOL_ERROR]],
  ['a name in upper case', whole(['X-A', '1']), [PROTOCOL_ERROR]],
  ['a name with a space', whole(['x a', 'evil']), LEFT_OUT],
  ['a name with a line end', whole(['x\r\ny', 'evil']), LEFT_OUT],
  ['an empty name', whole(['', 'evil']), LEFT_OUT],
  ['a line end in a value', whole(['x-a', '1\r\nX-Auth-User-Id: evil']), LEFT_OUT],
  ['NUL in a value', whole(['x-a', 'evil\0']), LEFT_OUT],
  ['Connection', whole(['connection', 'keep-alive']), MALFORMED],
  ['Keep-Alive', whole(['keep-alive', '1']), MALFORMED],
  ['Proxy-Connection', whole(['proxy-connection', 'x']), MALFORMED],
  ['Transfer-Encoding', whole(['transfer-encoding', 'chunked']), MALFORMED],
  ['Upgrade', whole(['upgrade', 'websocket']), MALFORMED],
  ['TE other than trailers', whole(['te', 'gzip']), MALFORMED],
  ['TE: trailers', whole(['te', 'trailers']), [200]],
  ['two keys', whole(KEY), [400]],
  ['two session cookies in two fields', [METHOD, SCHEME, PATH, AUTHORITY, ['cookie', 'service.session=a'], ['cookie', 'service.session=b']], [400]],
  ['an empty cookie field after another', whole(['cookie', 'a=b'], ['cookie', '']), [200]],
  ['a length without a body', whole(['content-length', '5']), [PROTOCOL_ERROR]],
  ['two lengths', whole(['content-length', '0'], ['content-length', '0']), MALFORMED],
  ['a length that is not a number', whole(['content-length', '0x0']), MALFORMED],
  ['a head that is slightly too long', whole(['x-a', 'x'.repeat(8_000)], ['x-b', 'x'.repeat(9_000)]), [431]],
]; // prettier-ignore

t.test('handles heads that no client library sends', async (t) => {
  t.ok(HEADS.length > 40);
  for (const [about, fields, allowed] of HEADS) {
    upstream.received.length = 0;
    const connection = await FrameConnection.open(t, url);
    const frames = Buffer.concat([request(1, fields)]);
    connection.write(frames);
    await until(() => connection.outcome() !== undefined, about);
    const outcome = connection.outcome();
    t.ok(allowed.includes(outcome as string), `${about}: ${outcome}`);
    t.equal(upstream.received.length, outcome === 200 ? 1 : 0, about);
    t.notMatch(JSON.stringify(upstream.received), /evil/, about);
    connection.socket.destroy();
  }
});

t.test('never forwards a body that differs from its length as a complete one', async (t) => {
  upstream.received.length = 0;
  const post = (length: string): Field[] => [[':method', 'POST'], SCHEME, PATH, AUTHORITY, KEY, ['content-length', length]];
  for (const [about, ...frames] of [
    ['too short', request(1, post('10'), 0), frame(DATA, END_STREAM, 1, Buffer.from('five!'))],
    ['too long', request(1, post('3'), 0), frame(DATA, END_STREAM, 1, Buffer.from('five!'))],
    ['too long, in the next frame', request(1, post('5'), 0), frame(DATA, 0, 1, Buffer.from('five!')), frame(DATA, END_STREAM, 1, Buffer.from('x'))],
  ] as [string, ...Buffer[]][]) {
    const connection = await FrameConnection.open(t, url);
    connection.write(...frames);
    await until(() => connection.outcome() !== undefined, about);
    // Newer versions of Node end the whole connection for a body that is too long.
    t.match(String(connection.outcome()), /^(reset 1|goaway 2)$/, about);
    connection.socket.destroy();
  }
  await sleep(200);
  t.same(upstream.received, [], 'none of them arrived as a request');
  for (const code of [0, 8]) {
    const connection = await FrameConnection.open(t, url);
    connection.write(request(1, [[':method', 'POST'], SCHEME, PATH, AUTHORITY, KEY], 0), frame(DATA, 0, 1, Buffer.from('half')));
    await sleep(200);
    connection.write(frame(RST_STREAM, 0, 1, uint32(code)));
    await sleep(300);
    t.same(upstream.received, [], `reset with ${code}: never a complete request`);
    connection.socket.destroy();
  }
  // A client's trailers are ignored.
  const connection = await FrameConnection.open(t, url);
  connection.write(request(1, post('5'), 0), frame(DATA, 0, 1, Buffer.from('five!')), request(1, [['x-auth-user-id', 'evil'], ['service-key', 'x']]));
  await until(() => connection.outcome() !== undefined, 'trailers');
  t.equal(connection.outcome(), 200);
  t.equal(upstream.received.at(-1)?.body, 'five!');
  t.notMatch(JSON.stringify(upstream.received), /evil/);
}); // prettier-ignore

t.test('a body that ends without data completes its request, whenever it is read', async (t) => {
  const post = (path: string, stream: number) => [
    request(stream, [[':method', 'POST'], SCHEME, [':path', path], AUTHORITY, KEY], 0),
    frame(DATA, END_STREAM, stream),
  ];
  const connection = await FrameConnection.open(t, url);
  // Each needs its own connection to the upstream, and most of these are not open yet.
  const streams = Array.from({ length: 20 }, (_, i) => 2 * i + 1);
  connection.write(...streams.flatMap((stream) => post('/a', stream)), ...post('/login', 41));
  await until(() => [...streams, 41].every((stream) => connection.outcome(stream) !== undefined), 'answers');
  t.same(
    streams.map((stream) => connection.outcome(stream)),
    streams.map(() => 200),
  );
  t.equal(connection.outcome(41), 400);
  connection.socket.destroy();
});

/** Floods a connection until the server closes it. Returns how it ended. */
async function ends(connection: FrameConnection, flood: () => Buffer): Promise<string> {
  for (let i = 0; i < 5_000 && !connection.ended && connection.find(GOAWAY) === undefined; i++) {
    connection.write(flood());
    if (i % 20 === 0) await sleep(1);
  }
  await until(() => connection.ended, 'the connection ends');
  const goaway = connection.find(GOAWAY);
  return goaway === undefined ? 'closed' : `goaway ${goaway.payload.readUInt32BE(4)}`;
}

t.test('a flood ends its own connection and affects no other', async (t) => {
  const open = () => FrameConnection.open(t, url);
  let stream = 1;
  const next = () => (stream += 2);

  const resets = await open();
  // Node has a limit of its own, which may apply first (INTERNAL_ERROR). If the client sends more,
  // the connection may be reset before the client has read the reason.
  t.match(await ends(resets, () => {
    const id = next();
    return Buffer.concat([request(id, whole()), frame(RST_STREAM, 0, id, uint32(8))]);
  }), /^goaway (11|2)$|^closed$/, 'rapid reset: ENHANCE_YOUR_CALM');

  stream = 1;
  const made = await open();
  t.match(await ends(made, () => {
    const id = next();
    // A window update by zero makes the server reset the stream.
    return Buffer.concat([request(id, whole()), frame(WINDOW_UPDATE, 0, id, uint32(0))]);
  }), /goaway|closed/, 'resets sent by the server');

  const continued = await open();
  continued.write(frame(HEADERS, END_STREAM, 1, block(whole())));
  t.match(await ends(continued, () => frame(CONTINUATION, 0, 1)), /goaway|closed/, 'endless CONTINUATION');

  const long = await open();
  long.write(frame(HEADERS, END_STREAM, 1, block(whole())));
  t.match(await ends(long, () => frame(CONTINUATION, 0, 1, block([['x-a', 'x'.repeat(10_000)]]))), /goaway|closed/, 'endless head');

  const empty = await open();
  empty.write(request(1, [[':method', 'POST'], SCHEME, PATH, AUTHORITY, KEY], 0));
  t.match(await ends(empty, () => Buffer.concat(Array.from({ length: 100 }, () => frame(DATA, 0, 1)))), /goaway|closed/, 'empty DATA');

  for (const [about, flood] of [
    ['PING', frame(PING, 0, 0, Buffer.alloc(8))],
    ['SETTINGS', frame(SETTINGS, 0, 0)],
  ] as const) {
    const other = await openHttp2(t, url);
    const deaf = await open();
    deaf.socket.pause();
    for (let i = 0; i < 200 && !deaf.ended; i++) deaf.write(Buffer.concat(Array.from({ length: 500 }, () => flood)));
    t.equal((await sendHttp2(other, '/a', { headers: { 'Service-Key': LEGACY_KEY } })).status, 200, `${about}: other clients are served`);
    deaf.socket.resume();
    await until(() => deaf.ended || deaf.frames.length > 1, about);
    deaf.socket.destroy();
  }
  const rss = Number(/^latchkey_process_resident_memory_bytes (\S+)/m.exec((await send(server.admin, '/metrics')).text)?.[1]);
  t.ok(rss < 600 * 1024 * 1024, `${rss} bytes`);
  t.notMatch(server.stdout(), /"level":[56]0/, 'no fault');
  t.equal(server.stderr(), '');
}); // prettier-ignore

t.test('does not serve more streams than allowed', async (t) => {
  const post: Field[] = [[':method', 'POST'], SCHEME, PATH, AUTHORITY, KEY];
  const requests = Array.from({ length: 120 }, (_, i) => request(i * 2 + 1, post, 0));
  upstream.received.length = 0;
  const late = await FrameConnection.open(t, url);
  await until(() => late.frames.some(({ type, flags }) => type === SETTINGS && flags === ACK), 'settings');
  await sleep(100);
  late.write(...requests);
  await until(
    () => late.ended || late.find(GOAWAY) !== undefined || late.find(RST_STREAM, 239) !== undefined,
    'an end',
  );
  t.equal(upstream.received.length, 0);
  t.equal(late.outcome(239) === 200, false);
  late.socket.destroy();
});

t.test('a head that is far too long resets its stream', async (t) => {
  const connection = await FrameConnection.open(t, url);
  const parts = block(whole(...Array.from({ length: 5 }, (_, i) => [`x-${i}`, 'x'.repeat(9_000)] as const)));
  connection.write(
    frame(HEADERS, END_STREAM, 1, parts.subarray(0, 16_000)),
    frame(CONTINUATION, 0, 1, parts.subarray(16_000, 32_000)),
    frame(CONTINUATION, END_HEADERS, 1, parts.subarray(32_000)),
  );
  await until(() => connection.outcome() !== undefined, 'an end');
  t.match(String(connection.outcome()), /^(reset 11|431)$/);
});

t.test('connections without requests end by their timeouts', async (t) => {
  const limits = { head_timeout: '1s', keep_alive: '2s' };
  const { url, server } = await startFixture(t, { listen, limits });
  const silent = await FrameConnection.open(t, url);
  const pinging = await FrameConnection.open(t, url);
  const half = await FrameConnection.open(t, url);
  half.write(frame(HEADERS, END_STREAM, 1, block([METHOD, SCHEME])));
  const pings = setInterval(() => pinging.write(frame(PING, 0, 0, Buffer.alloc(8))), 100);
  t.teardown(() => clearInterval(pings));
  for (const [about, connection] of [
    ['silent', silent],
    ['pings only', pinging],
    ['half a head', half],
  ] as const)
    await until(() => connection.ended, about);
  const kept = await FrameConnection.open(t, url);
  kept.write(request(1, whole()));
  await until(() => kept.outcome() === 200, 'an answer');
  const answeredAt = Date.now();
  await until(() => kept.find(GOAWAY) !== undefined && kept.ended, 'an end');
  t.ok(Date.now() - answeredAt > 1_000, 'not before the timeout');
  t.match(kept.find(GOAWAY)?.payload.readUInt32BE(4), 0);
  // The client keeps its window closed, so it never receives the response body.
  const closed = await FrameConnection.open(t, url, Buffer.concat([Buffer.from([0, 4]), uint32(0)]));
  closed.write(request(1, [METHOD, SCHEME, PATH, AUTHORITY]));
  await until(() => closed.outcome() === 401, 'the head of an answer');
  await until(() => closed.ended, 'an answer that nobody takes holds no connection');
  await until(
    async () => /^latchkey_connections 0$/m.test((await send(server.admin, '/metrics')).text),
    'all are gone',
  );
});

t.test('a request line with HTTP/2.0 is refused, and its body is not read as a second request', async (t) => {
  for (const framing of ['Content-Length: 30\r\n\r\n', 'Transfer-Encoding: chunked\r\n\r\n1e\r\n']) {
    const plain = await startFixture(t);
    const smuggled = `GET /smuggled HTTP/1.1\r\nHost: a\r\nService-Key: ${LEGACY_KEY}\r\n\r\n`;
    const bytes = `POST /a HTTP/2.0\r\nHost: a\r\nService-Key: ${LEGACY_KEY}\r\n${framing}${smuggled}`;
    const got = await sendRaw(plain.url, bytes, 2_000);
    t.match(got, /^HTTP\/1\.1 400 /);
    t.equal(got.match(/^HTTP\/1\.1 /gm)?.length, 1, 'one response, then the end');
    t.match(got, /^Connection: close\r$/m);
    t.same(plain.upstream.received, []);
  }
});
