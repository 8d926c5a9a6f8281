import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { join } from 'node:path';
import { status as codes } from '@grpc/grpc-js';
import t from 'tap';
import { needPackages, runs } from '../helpers/debian.js';
import { client, directory, startFixture } from '../helpers/fixture.js';
import {
  block,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  frame,
  FrameConnection,
  HEADERS,
  PING,
  RST_STREAM,
  SETTINGS,
  uint32,
} from '../helpers/frames.js';
import {
  askByGrpc,
  CHECK,
  checkBytes,
  GrpcClient,
  grpcReplyOf,
  DEFINITIONS,
  messageOf,
} from '../helpers/grpc.js';
import { send } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { startRedis } from '../helpers/redis.js';
import { matchLog, until } from '../helpers/until.js';

/*
 * The gRPC port as Envoy uses it. test/acceptance/refusals.test.ts and
 * test/properties/grpc-check.test.ts show that it decides like the other entrances.
 */

/** Debian's interpreter, which sees Debian's Python packages. */
const PYTHON = '/usr/bin/python3';

const ON = {
  decision: { host: '127.0.0.1', port: 0, grpc: { host: '127.0.0.1', port: 0 } },
  listen: { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] },
  routes: [{ path: '/open', auth: 'none' }, { path: '/*', action: 'x' }],
  limits: { head_timeout: '1s', keep_alive: '2s', drain_timeout: '3s', connections: 40 },
}; // prettier-ignore
const { server, token, login } = await startFixture(t, ON);
const key = await token('superuser');
const port = new GrpcClient(server.grpc);
t.teardown(() => port.close());
const OPEN = { method: 'GET', target: '/open' };
const isAlive = async () => (await askByGrpc(server.grpc, OPEN)).status === 200;

t.test('describes an allowed user to the API, and denies with the response of the public port', async (t) => {
  const session = await login('superuser');
  const allowed = await port.ask({ method: 'GET', target: '/x?a=b', headers: { 'service-key': key, cookie: `a=1; ${session}; b=2` } });
  t.match(allowed.headers, { 'x-auth-user-id': 'superuser', 'x-auth-credential': 'token', cookie: 'a=1; b=2', 'x-request-id': /^.{10,}$/ });
  for (const name of ['service-key', 'service-otp', 'x-auth-services', 'x-real-ip', 'x-http-method-override'])
    t.ok(allowed.removed.includes(name), name);
  t.notOk(allowed.removed.includes('x-auth-user-id'));
  const denied = await port.ask({ method: 'GET', target: '/x', headers: { 'service-key': 'bad' } });
  const direct = await send(server.url, '/x', { headers: { 'Service-Key': 'bad' } });
  t.match(denied, { status: 401, code: codes.UNAUTHENTICATED, text: direct.text });
  t.match(denied.headers, {
    'content-type': 'application/json', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff',
    'www-authenticate': String(direct.headers['www-authenticate']), 'x-request-id': /^.{10,}$/, 'content-length': undefined,
  });
  const { code } = await port.ask({ method: 'POST', target: '/tokens' });
  t.equal(code, codes.PERMISSION_DENIED, 'a built-in endpoint');
}); // prettier-ignore

t.test('serves only Check, and denies or fails malformed calls', async (t) => {
  const fails = async (code: number, bytes: Buffer, path?: string) => t.rejects(port.call(bytes, path), { code });
  const good = checkBytes(OPEN);
  for (const path of ['/envoy.service.auth.v2.Authorization/Check', '/envoy.service.auth.v3.Authorization/check', '/grpc.health.v1.Health/Check', '/', '/x'])
    await fails(codes.UNIMPLEMENTED, good, path);
  await fails(codes.RESOURCE_EXHAUSTED, Buffer.concat([good, Buffer.alloc(1_100_000)]));
  for (const bytes of [Buffer.alloc(0), Buffer.from('what is this'), Buffer.alloc(1_000, 0xff), good.subarray(0, -1), messageOf({}), messageOf({ request: {} }), messageOf({ source: {} })]) {
    const reply = grpcReplyOf(await port.call(bytes));
    t.match(reply, { status: 403, json: { msg: 'The check request is incomplete' } });
  }
  await matchLog(t, server, /attributes.request.http is missing[^\n]*misconfigured forward-auth proxy/);
  t.ok(await isAlive());
}); // prettier-ignore

/** All frames of a Check call except the last one. */
function headersOf(stream: number, more: readonly (readonly [string, string])[] = [], path = CHECK): Buffer {
  const fields = [[':method', 'POST'], [':scheme', 'http'], [':path', path], [':authority', 'a'], ['content-type', 'application/grpc'], ['te', 'trailers'], ...more] as const;
  return frame(HEADERS, END_HEADERS, stream, block(fields));
} // prettier-ignore

t.test('bytes that no gRPC client sends end at most their own connection', async (t) => {
  const message = checkBytes(OPEN);
  const data = Buffer.concat([Buffer.from([0]), uint32(message.length), message]);
  const call = (more: Parameters<typeof headersOf>[1], path?: string) => [headersOf(1, more, path), frame(DATA, END_STREAM, 1, data)];
  const odd: [string, Buffer[]][] = [
    ['a path with non-ASCII bytes', call([], '/\u00e9\u0001')],
    ['a path with a line break', call([], '/a\r\nb')],
    ['a long path', call([], `/${'x'.repeat(10_000)}`)],
    ['another content type', [frame(HEADERS, END_HEADERS | END_STREAM, 1, block([[':method', 'POST'], [':scheme', 'http'], [':path', CHECK], ['content-type', 'x']]))]],
    ['GET', [frame(HEADERS, END_HEADERS | END_STREAM, 1, block([[':method', 'GET'], [':scheme', 'http'], [':path', CHECK]]))]],
    ['malformed metadata', call([['x-bin', '%%%'], ['x', '\u00ff'], ['grpc-timeout', 'never'], ['grpc-timeout', '99999999H']])],
    ['an expired deadline', call([['grpc-timeout', '0n']])],
    ['an unknown encoding', call([['grpc-encoding', 'snappy']])],
    ['an invalid compressed message', [headersOf(1, [['grpc-encoding', 'gzip']]), frame(DATA, END_STREAM, 1, Buffer.concat([Buffer.from([1]), uint32(3), Buffer.from('abc')]))]],
    ['a truncated message', [headersOf(1), frame(DATA, END_STREAM, 1, data.subarray(0, -1))]],
    ['two messages', [headersOf(1), frame(DATA, END_STREAM, 1, Buffer.concat([data, data]))]],
    ['a length of 4 GiB', [headersOf(1), frame(DATA, 0, 1, Buffer.from([0, 255, 255, 255, 255]))]],
    ['a cancelled call', [headersOf(1), frame(DATA, 0, 1, data), frame(RST_STREAM, 0, 1, uint32(8))]],
    ['many cancelled calls', Array.from({ length: 1_500 }, (_, i) => [headersOf(2 * i + 1), frame(RST_STREAM, 0, 2 * i + 1, uint32(8))]).flat()],
    ['pings', Array.from({ length: 20_000 }, () => frame(PING, 0, 0, Buffer.alloc(8)))],
    ['settings', Array.from({ length: 5_000 }, () => frame(SETTINGS, 0, 0))],
    ['a header block without an end', [frame(HEADERS, 0, 1, block([['x', 'y']])), ...Array.from({ length: 2_000 }, () => frame(CONTINUATION, 0, 1, block([['x', 'y'.repeat(100)]])))]],
    ['a frame for an unknown stream', [frame(DATA, 0, 9, data)]],
    ['frames of an unknown type', Array.from({ length: 500 }, (_, i) => frame(200, 255, i))],
  ];
  for (const [what, frames] of odd) {
    const connection = await FrameConnection.open(t, server.grpc);
    connection.write(...frames);
    await until(async () => isAlive(), what);
    connection.socket.destroy();
  }
  for (const bytes of ['GET / HTTP/1.1\r\nHost: a\r\n\r\n', 'what is this\r\n\r\n', '\0'.repeat(1_000), 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n']) {
    const raw = openRaw(server.grpc, { bytes });
    await until(() => raw.ended, `${bytes.slice(0, 20)}: closed`);
  }
  t.equal(server.stderr(), '', 'nothing on stderr');
  t.notMatch(server.stdout(), /"level":(?:50|60)/);
  t.ok(await isAlive());
}); // prettier-ignore

t.test('closes in time what a client leaves open', async (t) => {
  const silent = openRaw(server.grpc);
  const half = await FrameConnection.open(t, server.grpc);
  half.write(headersOf(1));
  const idle = await FrameConnection.open(t, server.grpc);
  const message = checkBytes(OPEN);
  idle.write(headersOf(1), frame(DATA, END_STREAM, 1, Buffer.concat([Buffer.from([0]), uint32(message.length), message])));
  await until(() => idle.outcome() === 200, 'its response');
  await until(() => half.outcome() === 'reset 8', 'a call without a message is cancelled');
  await until(() => silent.ended && half.ended && idle.ended, 'connections without a call are closed');
}); // prettier-ignore

t.test('limits connections across all ports', async () => {
  const held = Array.from({ length: 60 }, () =>
    openRaw(server.grpc, { bytes: 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' }),
  );
  await until(() => held.filter(({ ended }) => ended).length >= 20, 'excess connections are closed');
  for (const { socket } of held) socket.destroy();
  await until(async () => isAlive().catch(() => false), 'connections are accepted again');
});

t.test('enforces the deadline, and denies while the store is unavailable', async (t) => {
  const redis = await startRedis(t);
  const store = { store: { type: 'redis', url: redis.url, sealing_key: 'a1'.repeat(32), command_timeout: '250ms' }, rate_limit: { writes_per_hour: 4 } };
  const { server, token } = await startFixture(t, { ...ON, ...store });
  const headers = { 'service-key': await token('engineer') };
  const port = new GrpcClient(server.grpc);
  t.teardown(() => port.close());
  const write = await port.ask({ method: 'POST', target: '/x', headers });
  t.match(write.added, { 'service-ratelimit-remaining': '3', 'service-ratelimit-reset': /^\d+$/ });
  redis.signal('SIGSTOP');
  const other = checkBytes({ method: 'GET', target: '/x', headers: { 'service-key': await token('engineer').catch(() => 'x'.repeat(20)) } });
  await t.rejects(port.call(other, CHECK, 200), { code: codes.DEADLINE_EXCEEDED });
  redis.signal('SIGCONT');
  await redis.kill();
  await until(async () => (await port.ask({ method: 'GET', target: '/x', headers })).status === 503, 'refused');
  const away = await port.ask({ method: 'GET', target: '/x', headers });
  t.match(away, { code: codes.UNAVAILABLE, json: { msg: 'Service unavailable' }, headers: { 'retry-after': '1' } });
  t.equal((await port.ask(OPEN)).status, 200, 'a route without authentication needs no store');
}); // prettier-ignore

t.test('workers share the port; a reload changes decisions; a drain closes the port', nightly, async (t) => {
  const folder = temporaryFolder(t);
  const base = { upstream: 'http://127.0.0.1:9', workers: 2, decision: ON.decision };
  const users = await directory();
  const server = await start(t, writeConfig(folder, base, users));
  const headers = { 'service-key': await client(server.url).token('engineer') };
  const statuses = async () => {
    const replies = [];
    for (let i = 0; i < 8; i++) replies.push((await askByGrpc(server.grpc, { method: 'GET', target: '/new', headers })).status);
    return replies.join();
  };
  t.equal(new Set([server.url, server.decision, server.grpc]).size, 3);
  t.equal(await statuses(), Array(8).fill(200).join());
  const answered = () => new Set(server.stdout().match(/"pid":\d+[^\n]*"outcome":"allowed"/g)?.map((line) => /\d+/.exec(line)?.[0]));
  await until(() => answered().size === 2, 'both workers answer');
  const other = { ...base, decision: { ...ON.decision, grpc: { port: 9 } }, routes: [{ path: '/new', auth: 'deny' }] };
  writeConfig(folder, other, users);
  const reloaded = await send(server.admin, '/-/reload', { method: 'POST' });
  t.same(reloaded.json, { reloaded: true, needs_restart: ['decision'] });
  t.equal(await statuses(), Array(8).fill(403).join());
  const idle = await FrameConnection.open(t, server.grpc);
  t.same(await server.stop(), { code: 0, signal: null });
  await until(() => idle.ended, 'the idle connection closes');
  await t.rejects(askByGrpc(server.grpc, { method: 'GET', target: '/new' }), { code: codes.UNAVAILABLE });
}); // prettier-ignore

t.test('works without an HTTP decision port, with one worker and with two', nightly, async (t) => {
  for (const workers of [1, 2]) {
    const { server } = await startFixture(t, { ...ON, workers, decision: { grpc: { port: 0 } } });
    const ready = JSON.parse(server.stdout().split('\n').find((line) => line.includes('"msg":"ready"')) ?? '{}');
    t.match(ready, { decision_grpc: /^http:\/\/127\.0\.0\.1:\d+$/, decision: undefined });
    t.equal((await askByGrpc(ready.decision_grpc, OPEN)).status, 200);
  }
}); // prettier-ignore

t.test("gRPC's own core (from Python) understands the responses", async (t) => {
  const isThere = () => runs(PYTHON, '-c', 'import grpc, google.protobuf');
  needPackages(isThere, 'python3-grpcio', 'python3-protobuf');
  const program = join(import.meta.dirname, '../helpers/check.py');
  const asked = await promisify(execFile)(PYTHON, [program, DEFINITIONS, new URL(server.grpc).host, key]);
  const [allowed, denied] = JSON.parse(asked.stdout);
  t.match(allowed.okResponse.headers.find((each: { header: { key: string } }) => each.header.key === 'x-auth-user-id'), {
    header: { value: 'superuser' }, appendAction: 'OVERWRITE_IF_EXISTS_OR_ADD',
  });
  t.ok(allowed.okResponse.headersToRemove.includes('service-key'));
  t.match(denied, { status: { code: codes.UNAUTHENTICATED }, deniedResponse: { status: { code: 'Unauthorized' }, body: /missing or invalid/ } });
}); // prettier-ignore
