import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { makeClock } from '../helpers/clock.js';
import { client, directory, otpAt, PASSWORD } from '../helpers/fixture.js';
import { send, serveTcp, startUpstream } from '../helpers/http.js';
import { INSTALLED, type StartOptions, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { freePort } from '../helpers/free-port.mjs';
import { nightly } from '../helpers/nightly.js';
import { fillDisk, mountSmallDisk, NO_SMALL_DISK } from '../helpers/small-disk.js';
import { matchLog, until } from '../helpers/until.js';
import { WebhookReceiver } from '../helpers/webhook-receiver.js';

const CLI = resolve(import.meta.dirname, '../../bin/latchkey.js');

type Test = { teardown: (fn: () => void | Promise<void>) => void };

async function serve(t: Test, config: object, options: StartOptions = {}) {
  const folder = temporaryFolder(t);
  const upstream = await startUpstream(t);
  const file = writeConfig(folder, { upstream: upstream.url, ...config }, await directory());
  const server = await start(t, file, { isolated: true, ...options });
  return { server, folder, file, ...client(server.url) };
}

t.test('workers that cannot serve end the process instead of restarting forever', async (t) => {
  const { server } = await serve(t, { workers: 2 });
  const killed = setInterval(() => {
    const file = `/proc/${server.pid}/task/${server.pid}/children`;
    const children = existsSync(file) ? readFileSync(file, 'utf8').trim().split(' ') : [];
    for (const pid of children) if (pid !== '') spawnSync('kill', ['-9', pid]);
  }, 50);
  t.teardown(() => clearInterval(killed));
  await until(() => server.stdout().includes('workers keep dying; giving up'), 'it gives up', 60_000).catch(
    () => undefined,
  );
  clearInterval(killed);
  const { code } = await Promise.race([
    server.stop('SIGCONT'),
    sleep(10_000, { code: 'it still runs' }, { ref: false }),
  ]);
  t.equal(code, 1);
});

t.test(
  'a full disk: cached credentials are served, revoking works, other writes fail',
  { skip: NO_SMALL_DISK },
  async (t) => {
    const disk = mountSmallDisk(t, '24m');
    const { server, url, token, create, login } = await serve(t, {
      store: { type: 'lmdb', path: join(disk, 'store'), min_free: '8MiB' },
      // It has no effect: the embedded store has no cache.
      on_store_failure: { serve_cached_for: '60s' },
    });
    const known = { 'Service-Key': await token('superuser') };
    const leaked = { 'Service-Key': await token('engineer') };
    const session = { Cookie: await login('superuser') };
    const filler = fillDisk(disk, 4 * 1024 * 1024);
    t.equal((await send(url, '/x', { headers: known })).status, 200);
    t.equal((await send(url, '/x', { headers: session })).status, 200);
    t.match(await create('superuser'), { status: 503, headers: { 'retry-after': '1' } });
    await until(async () => (await send(server.admin, '/readyz')).status === 503, 'not ready');
    t.equal((await send(url, '/tokens/self', { method: 'DELETE', headers: leaked })).status, 204);
    t.equal((await send(url, '/x', { headers: leaked })).status, 401);
    // Fills the rest as well, so that not even a removal can be written.
    spawnSync('dd', ['if=/dev/zero', `of=${join(disk, 'rest')}`, 'bs=64k']);
    t.equal(
      (await send(url, '/tokens/self', { method: 'DELETE', headers: known })).status,
      503,
      'not acknowledged',
    );
    t.equal((await send(url, '/x', { headers: known })).status, 200, 'the token is still valid');
    await matchLog(t, server, /the disk of .* is nearly full/);
    spawnSync('rm', [filler, join(disk, 'rest')]);
    await until(async () => (await create('superuser')).status === 200, 'writes work again');
    t.notMatch(server.stdout(), /"level":60/);
  },
);

t.test('a log that nobody reads blocks nothing', nightly, async (t) => {
  const folder = temporaryFolder(t);
  const upstream = await startUpstream(t);
  const [port, admin] = [await freePort(), await freePort()];
  const config = { upstream: upstream.url, listen: { host: '127.0.0.1', port }, admin: { port: admin } };
  const file = writeConfig(folder, config, await directory());
  const child = spawn(process.execPath, [CLI, 'serve', '--config', file], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => void child.kill('SIGKILL'));
  // A paused stream soon means a full pipe.
  child.stdout.pause();
  const [url, adminUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${admin}`];
  await until(async () => (await send(adminUrl, '/readyz').catch(() => null))?.status === 200, 'it serves');
  const headers = { 'Service-Key': await client(url).token('superuser') };
  for (let i = 0; i < 1_500; i++)
    if ((await send(url, '/x', { headers })).status !== 200) t.fail('a request');
  const stoppedAt = Date.now();
  const ended = new Promise((done) => child.once('exit', done));
  child.kill('SIGTERM');
  t.equal(await ended, 0);
  t.ok(Date.now() - stoppedAt < 20_000, 'it still exits');
});

t.test('a clock that is set back or forward', async (t) => {
  const { env, set, stop } = makeClock(temporaryFolder(t));
  const { url, token, login, server } = await serve(
    t,
    { sessions: { idle_timeout: '30m', absolute_timeout: '2h' } },
    { env },
  );
  const withCode = (code: string) =>
    send(url, '/login', {
      body: new URLSearchParams({ user: 'twofactor@example.com', password: PASSWORD }),
      headers: { 'Service-OTP': code },
    });
  const get = async (headers: Record<string, string>) => (await send(url, '/x', { headers })).status;
  const code = otpAt(Date.now());
  t.equal((await withCode(code)).status, 200);
  const session = { Cookie: await login('superuser') };
  const plain = { 'Service-Key': await token('superuser') };
  const expiring = {
    'Service-Key': await token('superuser', { expires_at: new Date(Date.now() + 600_000).toISOString() }),
  };

  set('-90s');
  t.equal((await withCode(code)).status, 400, 'a used code is not accepted again');
  t.equal((await withCode(otpAt(Date.now() - 90_000))).status, 400, 'nor an earlier one');
  t.same([await get(session), await get(plain), await get(expiring)], [200, 200, 200]);

  set('+2s');
  t.same(
    [await get(session), await get(plain), await get(expiring)],
    [200, 200, 200],
    'a small step ends nothing',
  );

  set('+11m');
  t.same([await get(session), await get(plain), await get(expiring)], [200, 200, 401]);
  set('+3h');
  t.same([await get(session), await get(plain)], [401, 200]);
  const wrong = () =>
    send(url, '/login', { body: new URLSearchParams({ user: 'engineer@example.com', password: 'wrong' }) });
  for (let i = 0; i < 6; i++) await wrong();
  // The wait after the next failure would otherwise be over soon.
  stop();
  t.equal((await wrong()).status, 401, 'failures of three hours from now block nobody until then');
  const throttled = await wrong();
  t.equal(throttled.status, 429);
  t.ok(Number(throttled.headers['retry-after']) <= 900, 'no wait exceeds the lockout');
  t.notMatch(server.stdout(), /"level":[56]0/);
});

t.test('50 slow readers of 100 MiB each with a small heap', nightly, async (t) => {
  const size = 100 * 1024 * 1024;
  const { url: upstreamUrl } = await serveTcp(t, (socket) => {
    socket.once('data', () => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
      const chunk = Buffer.alloc(256 * 1024);
      const more = () => {
        while (!socket.destroyed && socket.write(chunk));
        socket.once('drain', more);
      };
      more();
    });
  });
  const { server, url, token } = await serve(
    t,
    { upstream: upstreamUrl },
    { env: { NODE_OPTIONS: '--max-old-space-size=96' } },
  );
  const key = await token('superuser');
  const rss = () =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1]) / 1024;
  const before = rss();
  const sockets = Array.from({ length: 50 }, () => {
    const bytes = `GET /x HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\n\r\n`;
    return openRaw(url, { reads: false, bytes }).socket;
  });
  await sleep(1_500);
  const grown = rss() - before;
  t.equal((await send(server.admin, '/healthz')).status, 200);
  for (const socket of sockets) socket.destroy();
  t.ok(grown < 100, `${Math.round(grown)} MiB`);
});

t.test('without file descriptors, logins wait, and what first loads later works', nightly, async (t) => {
  const receiver = await WebhookReceiver.start(t);
  const webhooks = [receiver.settings({ events: ['token.created'] })];
  const { server, url, create } = await serve(t, { webhooks }, { program: INSTALLED });
  const open = () => readdirSync(`/proc/${server.pid}/fd`).map(Number);
  const limit = (files: number) => spawnSync('prlimit', ['--pid', String(server.pid), `--nofile=${files}:`]);
  /** Connects until no file descriptor is left, those below the highest that are free included. */
  const exhaust = async () => {
    const files = open().length;
    limit(files);
    const held = Array.from({ length: files }, () => openRaw(url));
    // At the limit, libuv frees the descriptor that it keeps in reserve, and closes what it accepts.
    const isFull = () => open().filter((file) => file < files).length === files;
    await until(() => isFull() || (held.push(openRaw(url)), false), 'none is left');
    return held;
  };
  const kept = openRaw(url);
  /** Sends a request on a connection that is open already. */
  const post = async (path: string, headers: string, fields: Record<string, string>) => {
    const body = new URLSearchParams(fields).toString();
    const from = kept.text().length;
    kept.write(`POST ${path} HTTP/1.1\r\nHost: a\r\n${headers}Content-Length: ${body.length}\r\n`);
    kept.write(`Content-Type: application/x-www-form-urlencoded\r\n\r\n${body}`);
    await until(() => /\r\n\r\n.+\n$/s.test(kept.text().slice(from)), 'it responds, body included');
    return kept.text().slice(from + 9, from + 12);
  };
  t.equal(await post('/logout', '', {}), '401');
  const held = await exhaust();
  t.equal(await post('/login', '', { user: 'user@example.com', password: PASSWORD }), '503');
  await matchLog(t, server, '"code":"EMFILE"');
  limit(4_096);
  for (const { socket } of held) socket.destroy();
  t.equal((await create('user')).status, 200, 'passwords are hashed');
  const refused = await exhaust();
  const second = `Service-OTP: ${otpAt(Date.now())}\r\n`;
  const given = { username: 'twofactor@example.com', password: PASSWORD };
  t.equal(await post('/tokens', second, given), '200', 'one-time passwords can be checked');
  const { id } = JSON.parse(kept.text().trimEnd().split('\n').at(-1) ?? '') as { id: string };
  limit(4_096);
  for (const { socket } of [kept, ...refused]) socket.destroy();
  await until(() => receiver.of(id).length > 0, 'its webhook is sent later', 120_000);
  t.notMatch(server.stdout(), '"level":50');
});
