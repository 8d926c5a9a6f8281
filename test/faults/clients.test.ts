import type { Socket } from 'node:net';
import { hash } from '@node-rs/argon2';
import t from 'tap';
import { client, directory, PASSWORD } from '../helpers/fixture.js';
import { send, sendRaw, startUpstream } from '../helpers/http.js';
import { type Running, start, type StartOptions, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { matchLog, until } from '../helpers/until.js';

type Test = { teardown: (fn: () => void | Promise<void>) => void };

async function serve(t: Test, config: object, options: StartOptions = {}, accounts?: object) {
  const upstream = await startUpstream(t);
  const whole = { upstream: upstream.url, ...config };
  const file = writeConfig(temporaryFolder(t), whole, accounts ?? (await directory()));
  const server = await start(t, file, options);
  return { server, upstream, ...client(server.url) };
}

/** Opens connections and sends the same bytes on each. */
function open(url: string, count: number, bytes: string) {
  const closed = { count: 0, answers: [] as string[] };
  const clients = Array.from({ length: count }, () => {
    const client = openRaw(url, { bytes });
    client.socket.on('close', () => {
      closed.count += 1;
      closed.answers.push(client.text());
    });
    return client;
  });
  const sockets = clients.map(({ socket }) => socket);
  /** Whether every one has received a response. */
  const answered = () => clients.every(({ text }) => /^HTTP\/1\.1 .*\r\n\r\n./s.test(text()));
  return { sockets, closed, answered, end: () => sockets.forEach((socket: Socket) => socket.destroy()) };
}

/**
 * Far more than the pauses of a busy machine, and far less than queueing behind the whole flood.
 */
const HELD_UP_MS = 15_000;

/** Milliseconds of the slowest of several sequential requests. */
async function slowest(url: string, key: string, count: number): Promise<number> {
  let worst = 0;
  for (let i = 0; i < count; i++) {
    const startedAt = performance.now();
    const reply = await send(url, '/x', { headers: { 'Service-Key': key } });
    if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
    worst = Math.max(worst, performance.now() - startedAt);
  }
  return worst;
}

const metric = async (server: Running, name: string) =>
  Number(new RegExp(`^${name} (\\S+)$`, 'm').exec((await send(server.admin, '/metrics')).text)?.[1]);

const MANY = EVERY_CASE ? 1_000 : 300;
t.test('many clients that never finish their head get 408 and are closed; others are served', async (t) => {
  const { server, url, token } = await serve(t, { limits: { head_timeout: '2s' } });
  const key = await token('superuser');
  const { closed } = open(url, MANY, 'GET /x HTTP/1.1\r\nHost: a\r\nX-Slow: ');
  // On a busy machine, the first ones time out before the last ones connect.
  await until(async () => (await metric(server, 'latchkey_connections')) + closed.count >= MANY, 'connected');
  t.ok((await slowest(url, key, 50)) < HELD_UP_MS, 'requests in between');
  await until(() => closed.count === MANY, 'all are closed', 20_000);
  t.ok(closed.answers.every((answer) => answer.startsWith('HTTP/1.1 408 ')));
}); // prettier-ignore

t.test('closes connections over the limit, keeps requests in flight, and closes idle ones first', async (t) => {
  const { server, url, token } = await serve(t, { limits: { connections: 20 } });
  const key = await token('superuser');
  const busy = open(url, 10, `POST /x HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\nContent-Length: 4\r\n\r\nab`);
  const idle = open(url, 10, `GET /x HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\n\r\n`);
  await until(async () => (await metric(server, 'latchkey_connections')) === 20, 'twenty are open');
  await until(async () => (await metric(server, 'latchkey_requests_in_flight')) === 10, 'ten wait for their bodies');
  await until(idle.answered, 'the others are idle');
  t.equal((await send(url, '/x', { headers: { 'Service-Key': key } })).status, 200, 'a new one is served');
  await until(() => idle.closed.count === 10, 'idle ones were closed for it');
  t.equal(busy.closed.count, 0);
  const flood = open(url, 200, 'GET /x HTTP/1.1\r\nHost: a\r\nX-Slow: ');
  await until(() => flood.closed.count >= 190, 'excess connections are closed');
  await until(async () => (await metric(server, 'latchkey_connections_refused_total')) >= 190, 'they are counted');
  for (const socket of busy.sockets) socket.write('cd');
  flood.end();
  await until(busy.answered, 'they are answered');
  busy.end();
  await until(() => busy.closed.count === 10, 'they end');
  t.ok(busy.closed.answers.every((answer) => answer.startsWith('HTTP/1.1 200 ')), 'requests in flight were answered');
  t.equal(server.stdout().match(/limits.connections reached/g)?.length, 1, 'logged once');
  await until(async () => (await metric(server, 'latchkey_connections')) === 0, 'none left open');
}); // prettier-ignore

t.test('with few file descriptors the limit is lower, and the admin port still answers', async (t) => {
  const { server, url, token } = await serve(t, {}, { via: ['prlimit', '--nofile=200'] });
  await matchLog(t, server, /"level":40,.*limits.connections reduced/);
  const key = await token('superuser');
  const flood = open(url, 400, 'GET /x HTTP/1.1\r\nHost: a\r\nX-Slow: ');
  await until(() => flood.closed.count >= 300, 'most are closed');
  t.equal((await send(server.admin, '/readyz')).status, 200);
  flood.end();
  await until(async () => (await metric(server, 'latchkey_connections')) === 0, 'all are closed');
  t.ok((await slowest(url, key, 20)) < HELD_UP_MS, 'it serves again');
  t.notMatch(server.stdout(), /EMFILE|"level":[56]0/);
}); // prettier-ignore

t.test('heads over the limits: many fields, long fields, long targets', async (t) => {
  const { url, token, upstream } = await serve(t, { limits: { head_fields: 20, head_size: '4KiB', target_size: '512B' } });
  const key = await token('superuser');
  const head = `Host: a\r\nService-Key: ${key}\r\nConnection: close\r\n`;
  const status = async (bytes: string) => (await sendRaw(url, bytes)).slice(9, 12);
  t.equal(await status(`GET /x HTTP/1.1\r\n${head}${'A: b\r\n'.repeat(18)}\r\n`), '431');
  t.equal(await status(`GET /x HTTP/1.1\r\n${head}${'A: b\r\n'.repeat(17)}\r\n`), '200');
  t.equal(await status(`GET /x HTTP/1.1\r\n${head}A: ${'b'.repeat(5_000)}\r\n\r\n`), '431');
  for (const size of [600, 1_100, 5_000]) t.equal(await status(`GET /${'x'.repeat(size)} HTTP/1.1\r\n${head}\r\n`), '414');
  t.equal(upstream.received.length, 1);
}); // prettier-ignore

t.test('thousands of fields close the connection, which would otherwise keep them in memory', async (t) => {
  const { server, url } = await serve(t, {});
  const before = await metric(server, 'latchkey_process_resident_memory_bytes');
  const names = Array.from({ length: 2_500 }, (_, i) => `${i}:\r\n`).join('');
  const { closed } = open(url, 300, `GET /x HTTP/1.1\r\nHost: a\r\n${names}\r\n`);
  await until(() => closed.count === 300, 'all are closed');
  t.ok(closed.answers.every((answer) => answer.startsWith('HTTP/1.1 431 ')));
  const grown = (await metric(server, 'latchkey_process_resident_memory_bytes')) - before;
  t.ok(grown < 100 * 2 ** 20, `grew by ${Math.round(grown / 2 ** 20)} MiB`);
});

t.test('a body of a built-in endpoint: too long, too slow', async (t) => {
  const { url } = await serve(t, { limits: { body_size: '1KiB', body_timeout: '300ms' } });
  t.equal((await send(url, '/login', { body: new URLSearchParams({ user: 'u'.repeat(2_000) }) })).status, 413);
  const slow = 'POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nuser=';
  t.match(await sendRaw(url, slow, 1_500), /^HTTP\/1\.1 408 /);
}); // prettier-ignore

t.test('an idle connection is closed after limits.keep_alive', async (t) => {
  const { url, token } = await serve(t, { limits: { keep_alive: '500ms' } });
  const key = await token('superuser');
  const { closed } = open(url, 1, `GET /x HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\n\r\n`);
  await until(() => closed.count === 1, 'closed', 15_000);
  t.match(closed.answers[0], /^HTTP\/1\.1 200 /);
});

t.test('a login flood has a bounded queue and leaves capacity for requests', async (t) => {
  const accounts = await directory();
  // As expensive as a hash from `latchkey hash-password`.
  const password_hash = await hash(PASSWORD, { memoryCost: 47_104, timeCost: 1, parallelism: 1 });
  const users = accounts.users.map((user) => ({ ...user, password_hash }));
  const { url, token } = await serve(
    t,
    { login: { max_failures: 100 } },
    { isolated: true },
    { ...accounts, users },
  );
  const key = await token('superuser');
  // On a busy machine, the requests wait for a processor together with the hashes.
  const before = await slowest(url, key, 30);
  const logins = Array.from({ length: 200 }, (_, i) =>
    send(url, '/login', { body: new URLSearchParams({ user: `nobody${i}@example.com`, password: 'x' }) }),
  );
  const during = await slowest(url, key, 30);
  t.ok(
    during < Math.max(HELD_UP_MS, 10 * before),
    `no request waits for the hashes: ${before} ms, ${during} ms`,
  );
  const statuses = (await Promise.all(logins)).map(({ status, headers }) =>
    status === 503 ? `503 ${headers['retry-after']}` : String(status),
  );
  t.same(new Set(statuses), new Set(['401', '503 1']), 'answered, or told to retry');
});
