import { makeClock } from '../helpers/clock.js';
import { execFileSync, spawn } from 'node:child_process';
import type { ServerResponse } from 'node:http';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse, stringify } from 'yaml';
import { client, directory, PASSWORD, startFixture } from '../helpers/fixture.js';
import { exchange } from '../helpers/exchange.js';
import { send, serveHttp } from '../helpers/http.js';
import { start, temporaryFolder, workerOf, workersOf, writeConfig } from '../helpers/latchkey.js';
import { freePort } from '../helpers/free-port.mjs';
import { nightly } from '../helpers/nightly.js';
import { until } from '../helpers/until.js';

const wait = (ms: number) => new Promise((done) => setTimeout(done, ms));

t.test('two workers on one port and one folder', async (t) => {
  const { url, server, create, login, token } = await startFixture(t, { workers: 2 });
  t.equal(workersOf(server.pid).length, 2);

  await t.test('the next request to any worker sees a revocation', async (t) => {
    let wrong = 0;
    for (let i = 0; i < 15; i++) {
      const headers = { 'Service-Key': await token('superuser') };
      // Workers get connections in turn, so the next two requests reach both.
      const before = [await send(url, '/a', { headers }), await send(url, '/a', { headers })];
      if (before.some(({ status }) => status !== 200)) wrong += 1;
      await send(url, '/tokens/self', { method: 'DELETE', headers });
      const after = [await send(url, '/a', { headers }), await send(url, '/a', { headers })];
      if (after.some(({ status }) => status !== 401)) wrong += 1;
    }
    t.equal(wrong, 0);
  });

  await t.test('the last use seen by one worker is shown by the other within the interval', async (t) => {
    const made = (await create('superuser')).json;
    await send(url, '/a', { headers: { 'Service-Key': made.access_token, 'User-Agent': 'probe/2' } });
    await wait(1_300);
    const headers = { Cookie: await login('superuser') };
    for (let i = 0; i < 2; i++) {
      const shown = (await send(url, `/tokens/${made.id}`, { headers })).json;
      t.match(shown, { user_agent: 'probe/2', ip: '127.0.0.1', last_seen_at: /^20/ });
    }
  });

  await t.test('a worker that dies is replaced, and requests do not wait for it', async (t) => {
    const victim = workerOf(server.pid);
    const headers = { 'Service-Key': await token('superuser') };
    process.kill(victim, 'SIGKILL');
    // A connection handed over at the moment of its death is lost.
    for (let i = 0; i < 100 && !server.stdout().includes('worker died'); i++) await wait(10);
    for (let i = 0; i < 10; i++) t.equal((await send(url, '/a', { headers })).status, 200);
    for (let i = 0; i < 100 && workersOf(server.pid).length < 2; i++) await wait(50);
    const now = workersOf(server.pid);
    t.equal(now.length, 2);
    t.notOk(now.includes(victim));
  });

  await t.test('metrics are summed over the workers', async (t) => {
    // The replacement is included once it serves.
    let reply = await send(server.admin, '/metrics');
    for (let i = 0; i < 400 && !/^latchkey_workers 2$/m.test(reply.text); i++) {
      await wait(50);
      reply = await send(server.admin, '/metrics');
    }
    const { text, headers } = reply;
    t.match(headers['content-type'], /^text\/plain/);
    const counts = [...text.matchAll(/^latchkey_requests_total\{.*\} (\d+)/gm)].map(([, n]) => Number(n));
    t.ok(counts.reduce((a, b) => a + b, 0) > 50, text.slice(0, 300));
    t.match(text, /^latchkey_workers 2$/m);
    t.notMatch(text, /lk[0-9A-Za-z]{38}/);
  });

  const { code } = await server.stop();
  t.equal(code, 0);
  t.notMatch(server.stdout(), /lk[0-9A-Za-z]{38}|correct horse/, 'no secret in the log');
});

t.test('a hanging worker is eventually killed', nightly, async (t) => {
  const hang = async (t: Parameters<typeof startFixture>[0]) => {
    const { server } = await startFixture(t, { workers: 2, limits: { drain_timeout: '1s' } });
    const victim = workerOf(server.pid);
    process.kill(victim, 'SIGSTOP');
    return { server, victim };
  };
  // Each waits for the same timeout, so they run in parallel.
  t.jobs = 3;
  t.test('during a drain', async (t) => {
    const { server, victim } = await hang(t);
    t.equal((await server.stop()).code, 0);
    t.notOk(isThere(victim));
  });
  t.test('at the second signal', async (t) => {
    const { server, victim } = await hang(t);
    process.kill(server.pid, 'SIGTERM');
    await wait(200);
    await server.stop();
    for (let i = 0; i < 50 && isThere(victim); i++) await wait(20);
    t.notOk(isThere(victim), 'no worker outlives the process');
  });
});

/** True if a process runs; false for a zombie that its parent has not yet waited for. */
function isThere(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

t.test('the admin port serves health and readiness only, and the public port neither', async (t) => {
  const { server, url } = await startFixture(t);
  t.same((await send(server.admin, '/healthz')).json, { status: 'ok' });
  const ready = await send(server.admin, '/readyz');
  t.equal(ready.status, 200);
  t.match(ready.json, { ready: true, checks: { store: 'ok', config: 'ok', draining: 'ok' } });
  t.equal((await send(server.admin, '/other')).status, 404);
  for (const [method, path, allow] of [
    ['POST', '/healthz', 'GET, HEAD'],
    ['GET', '/-/reload', 'POST'],
  ] as const) {
    const refused = await send(server.admin, path, { method });
    t.match([refused.status, refused.headers.allow], [405, allow], `${method} ${path}`);
  }
  const withBody = await exchange(
    server.admin,
    'GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx',
  );
  t.match(withBody, { status: 400, body: /must not have a body/ });
  const ids = await Promise.all(
    ['/healthz', '/other'].map(async (path) => (await send(server.admin, path)).headers['x-request-id']),
  );
  t.equal(new Set(ids.filter((id) => id !== undefined)).size, 2, 'each response has a request id');
  for (const path of ['/metrics', '/healthz', '/readyz']) t.equal((await send(url, path)).status, 401, path);
});

t.test(
  'SIGTERM: not ready at once, finishes requests in flight, writes last uses, exits with 0',
  async (t) => {
    let held: ServerResponse | undefined;
    const { url: slowUrl } = await serveHttp(t, (_req, res) => void (held = res));
    const { url, server, create, configFile } = await startFixture(t, {
      upstream: slowUrl,
      tokens: { last_seen_interval: '1h' },
    });
    const made = (await create('superuser')).json;
    const pending = send(url, '/slow', {
      headers: { 'Service-Key': made.access_token, 'User-Agent': 'last' },
    });
    await until(() => held !== undefined, 'in flight');
    const stopped = server.stop('SIGTERM');
    await until(async () => (await send(server.admin, '/readyz')).status === 503, 'not ready');
    await t.rejects(send(url, '/x'), 'no new connection');
    held?.end('finished');
    t.equal((await pending).text, 'finished');
    t.same(await stopped, { code: 0, signal: null });

    const again = await start(t, configFile);
    const headers = { Cookie: await client(again.url).login('superuser') };
    t.match((await send(again.url, `/tokens/${made.id}`, { headers })).json, { user_agent: 'last' });
  },
);
t.test('a changed directory applies to existing tokens and sessions', async (t) => {
  const { server, token, login, folder, configFile, url } = await startFixture(t);
  const file = join(folder, 'directory.yaml');
  const [engineer, other] = [await token('engineer'), await token('user')];
  const cookie = await login('billing');
  t.equal(
    (await send(url, '/service/SVC1', { method: 'PUT', headers: { 'Service-Key': engineer } })).status,
    200,
  );
  await server.stop();

  const changed = parse(readFileSync(file, 'utf8')) as {
    users: { id: string; role: string; locked?: boolean }[];
  };
  for (const user of changed.users) {
    if (user.id === 'engineer') user.role = 'user';
    if (user.id === 'user' || user.id === 'billing') user.locked = true;
  }
  writeFileSync(file, stringify(changed));
  const again = await start(t, configFile);
  const demoted = await send(again.url, '/service/SVC1', {
    method: 'PUT',
    headers: { 'Service-Key': engineer },
  });
  t.equal(demoted.status, 403);
  t.match(demoted.json.detail, /role user/);
  t.equal(
    (await send(again.url, '/service/SVC1', { headers: { 'Service-Key': other } })).status,
    401,
    'locked owner',
  );
  t.equal((await send(again.url, '/tokens', { headers: { Cookie: cookie } })).status, 401, 'locked session');
  await again.stop();

  changed.users = changed.users.filter(({ id }) => id !== 'engineer');
  writeFileSync(file, stringify(changed));
  const third = await start(t, configFile);
  const left = { method: 'GET', headers: { 'Service-Key': engineer } };
  t.equal((await send(third.url, '/service/SVC1', left)).status, 401, 'an undeclared user is locked');
});

t.test('idle and absolute timeouts end a session; activity does not extend the absolute one', async (t) => {
  const clock = makeClock(temporaryFolder(t));
  const sessions = { idle_timeout: '2m', absolute_timeout: '4m' };
  const { url, login } = await startFixture(t, { sessions }, { env: clock.env });
  const [active, idle] = [await login('superuser'), await login('superuser')];
  const status = async (Cookie: string) => (await send(url, '/tokens', { headers: { Cookie } })).status;
  for (const offset of ['+80s', '+160s']) {
    clock.set(offset);
    t.equal(await status(active), 200, `used at ${offset}`);
  }
  t.equal(await status(idle), 401, 'idle');
  clock.set('+245s');
  t.equal(await status(active), 401, 'absolute');
});

t.test('kill -9 loses no acknowledged change and revives no revoked token', nightly, async (t) => {
  const folder = temporaryFolder(t);
  const config = writeConfig(folder, { upstream: 'http://127.0.0.1:9' }, await directory());
  const kept: string[] = [];
  const revoked: string[] = [];
  for (let round = 0; round < 3; round++) {
    const server = await start(t, config, { isolated: true });
    const { token } = client(server.url);
    const works = async (secret: string) =>
      (await send(server.url, '/tokens/self', { headers: { 'Service-Key': secret } })).status;
    for (const secret of kept) t.equal(await works(secret), 200, 'kept');
    for (const secret of revoked) t.equal(await works(secret), 401, 'revoked');
    kept.push(await token('superuser'));
    const secret = await token('superuser');
    const reply = await send(server.url, '/tokens/self', {
      method: 'DELETE',
      headers: { 'Service-Key': secret },
    });
    await server.stop('SIGKILL');
    t.equal(reply.status, 204);
    revoked.push(secret);
  }
});

t.test('the store holds no secret, and only digests of tokens and sessions', async (t) => {
  const { server, token, login, folder } = await startFixture(t);
  const secrets = [
    await token('superuser'),
    (await login('superuser')).split('=')[1] ?? '',
    PASSWORD,
    'my-old/key',
    'JBSWY3DPEHPK3PXP',
  ];
  await server.stop();
  const bytes = readFileSync(join(folder, 'data', 'data.mdb')).toString('latin1');
  for (const secret of secrets) t.notOk(bytes.includes(secret), secret.slice(0, 6));
});

t.test('nginx as the upstream', nightly, async (t) => {
  const folder = temporaryFolder(t);
  const port = await freePort();
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off; user root; pid ${folder}/pid; error_log ${folder}/error.log; worker_processes 1;
     events {} http { access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/p; fastcgi_temp_path ${folder}/f;
     uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s; client_max_body_size 20m;
     server { listen 127.0.0.1:${port}; location / { return 200 "$request_method $request_uri user=$http_x_auth_user_id key=$http_service_key\\n"; }
     location /files/ { alias ${folder}/; } } }`,
  );
  writeFileSync(join(folder, 'large'), Buffer.alloc(3_000_000, 'x'));
  const nginx = startNginx(t, folder);
  t.ok(nginx);
  const { url, token } = await startFixture(t, { upstream: `http://127.0.0.1:${port}` });
  const headers = { 'Service-Key': await token('engineer') };
  for (let i = 0; i < 50 && (await send(url, '/x', { headers })).status !== 200; i++) await wait(50);
  t.equal((await send(url, '/a/b?c=d', { headers })).text, 'GET /a/b?c=d user=engineer key=\n');
  t.equal(
    (await send(url, '/a', { method: 'PUT', body: 'x'.repeat(100_000), headers })).text,
    'PUT /a user=engineer key=\n',
  );
  t.equal((await send(url, '/files/large', { headers })).text.length, 3_000_000);
  t.equal(
    (await send(url, '/files/large', { method: 'HEAD', headers })).headers['content-length'],
    '3000000',
  );
  t.equal(
    (await send(url, '/files/none', { headers })).status,
    404,
    'an error from the upstream is forwarded',
  );
});

/** Starts nginx from Debian's packages; installs it if it is missing and that is allowed. */
function startNginx(t: { teardown: (fn: () => void) => void }, folder: string): boolean {
  try {
    execFileSync('nginx', ['-v'], { stdio: 'ignore' });
  } catch {
    try {
      execFileSync('sh', ['-c', 'apt-get update -qq && apt-get install -y -qq nginx-light'], {
        stdio: 'ignore',
      });
    } catch {
      throw new Error('this test needs nginx: apt-get install nginx-light');
    }
  }
  const child = spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf')], { stdio: 'ignore' });
  t.teardown(() => void child.kill('SIGTERM'));
  return child.pid !== undefined;
}
