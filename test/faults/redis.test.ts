import { execFileSync, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { client, startFixture } from '../helpers/fixture.js';
import { freshMetrics, send } from '../helpers/http.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { startProxy } from '../helpers/proxy.js';
import { freePort } from '../helpers/free-port.mjs';
import { nightly } from '../helpers/nightly.js';
import { startRedis, startSentinel } from '../helpers/redis.js';
import { matchLog, until } from '../helpers/until.js';

const SEALING_KEY = 'a1'.repeat(32);
/** Far below the cache's ttl of 30 s, after which it would end without the push. */
const PUSHED_MS = 5_000;
const wait = (ms: number) => new Promise((done) => setTimeout(done, ms));

const status = async (url: string, key: string) =>
  (await send(url, '/service/SVC1', { headers: { 'Service-Key': key } })).status;

/** Starts a sidecar that applies the directory, and a second one with settings of its own. */
async function startTwo(t: Test, store: object, beside: object = {}) {
  const common = { type: 'redis', sealing_key: SEALING_KEY, command_timeout: '1s', ...store };
  const first = await startFixture(t, { store: common });
  const { store: other, ...more } = beside as { store?: object };
  const configFile = writeConfig(temporaryFolder(t), {
    upstream: first.upstream.url,
    store: { ...common, ...other },
    ...more,
  });
  const server = await start(t, configFile);
  return { first, second: { ...client(server.url), server } };
}

t.test('FLUSHALL: a valid token gets 503, not 401, until an operator initializes the store', async (t) => {
  const redis = await startRedis(t);
  const { first, second } = await startTwo(t, { url: redis.url });
  const key = await first.token('superuser');
  t.equal(await status(second.url, key), 200);
  redis.cli('FLUSHALL');
  for (const url of [first.url, second.url]) {
    await until(async () => (await status(url, key)) !== 200, 'told', PUSHED_MS);
    t.equal(await status(url, key), 503);
  }
  const login = new URLSearchParams({ user: 'superuser@example.com', password: 'x' });
  t.equal((await send(first.url, '/login', { body: login })).status, 503, 'a login too');
  t.match((await send(first.server.admin, '/readyz')).json.checks.store, /the store is empty: start a server or run "latchkey apply"/); // prettier-ignore
  const applied = await run(['apply', '--config', first.configFile]);
  t.equal(applied.code, 0, 'an operator initializes it');
  t.equal(await status(second.url, key), 401, 'lost tokens are then unknown');
  t.equal(await status(second.url, await first.token('superuser')), 200);
});

t.test('retries a reload by itself if the store could not validate it', nightly, async (t) => {
  const redis = await startRedis(t, '--appendonly', 'yes');
  const server = await startFixture(t, {
    store: { type: 'redis', sealing_key: SEALING_KEY, url: redis.url, command_timeout: '1s' },
  });
  const key = await server.token('engineer');
  const file = join(server.folder, 'directory.yaml');
  const demoted = readFileSync(file, 'utf8').replace('role: engineer', 'role: engineer\n    locked: true');
  await redis.kill();
  writeFileSync(file, demoted);
  const refused = await send(server.server.admin, '/-/reload', { method: 'POST' });
  t.match([refused.status, refused.json.msg], [503, 'Reload postponed']);
  t.match(refused.json.faults[0], /\w/, 'with a reason');
  await redis.restart();
  await until(async () => (await status(server.url, key)) === 401, 'the lock');
  t.pass('the lock in the file applies');
  await until(
    async () => (await freshMetrics(server.server.admin)).includes('last_reload_successful 1'),
    'the metric',
  );
  await matchLog(t, server.server, /"retry_in_ms":1000,"msg":"reload postponed; running configuration kept"/);
  t.equal(server.server.stdout().match(/reload refused/g), null);
});

t.test('a Redis that comes up late with a wrong policy is used once an operator has fixed it', nightly, async (t) => {
  const redis = await startRedis(t);
  await redis.kill();
  const settings = ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'];
  const store = { type: 'redis', sealing_key: SEALING_KEY, url: redis.url };
  // With workers, the process that supervises them initializes the store.
  const server = await startFixture(t, { workers: 2, store });
  const ready = async () => send(server.server.admin, '/readyz');
  t.match((await ready()).json.checks.directory, /^the directory file is not applied yet: Redis is unavailable/);
  const late = spawn('redis-server', ['--port', String(redis.port), '--save', '', ...settings], { stdio: 'ignore' });
  t.teardown(() => void late.kill('SIGKILL'));
  await until(async () => /maxmemory-policy allkeys-lru/.test((await ready()).json.checks.directory), 'the reason');
  // What is applied then is the directory of that time, whichever of the two attempts comes first.
  const file = join(server.folder, 'directory.yaml');
  writeFileSync(file, readFileSync(file, 'utf8').replace('role: engineer', 'role: engineer\n    locked: true'));
  redis.cli('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
  await until(async () => (await ready()).status === 200, 'ready without a restart', 10_000);
  t.equal((await server.create('engineer')).status, 400, 'locked');
  t.equal((await server.create('user')).status, 200);
  const told = server.server.stdout().match(/"msg":"store or directory file cannot be used; retrying"/g);
  t.equal(told?.length, 1, 'logged once');
}); // prettier-ignore

t.test('commands wait for a Redis that stands still longer than command_timeout', nightly, async (t) => {
  const redis = await startRedis(t);
  const { configFile, folder } = await startFixture(t, {
    store: { type: 'redis', sealing_key: SEALING_KEY, url: redis.url, command_timeout: '100ms' },
  });
  for (const command of [
    ['apply'],
    ['token', 'list'],
    ['user', 'lock', 'user@example.com'],
    ['store', 'backup', join(folder, 'backup.jsonl')],
  ]) {
    redis.cli('CLIENT', 'PAUSE', '2000', 'ALL');
    t.match(await run([...command, '--config', configFile]), { code: 0, stderr: '' }, command.join(' '));
  }
});

t.test('an interrupted or silent link: no stale answer, and recovery', async (t) => {
  const redis = await startRedis(t);
  const proxy = await startProxy(t, redis.port);
  const { first, second } = await startTwo(t, { url: redis.url }, { store: { url: proxy.url } });
  const keep = await first.token('superuser');
  const revoke = (key: string) =>
    send(first.url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': key } });
  for (const [fault, heal] of [
    ['cut', 'open'],
    ['refuse', 'open'],
    ['quiet', 'open'],
  ] as const) {
    await t.test(fault, async (t) => {
      const key = await first.token('engineer');
      t.equal(await status(second.url, key), 200);
      proxy[fault]();
      await until(async () => [204, 401].includes((await revoke(key)).status), 'the revocation');
      // Until the silence is noticed, the cache may still be used; after that, never.
      await until(async () => (await status(second.url, key)) !== 200, 'the fault is noticed');
      const later = new Set<number>();
      for (let i = 0; i < 40; i += 1, await wait(20)) later.add(await status(second.url, key));
      t.notOk(later.has(200), [...later].join());
      proxy[heal]();
      await until(async () => (await status(second.url, keep)) === 200, 'recovery');
      t.equal(await status(second.url, key), 401);
    });
  }
  const lost = second.server.stdout().match(/cache invalidation link lost/g) ?? [];
  t.ok(lost.length >= 2 && lost.length <= 6, `${lost.length} lines`);
  const metrics = async () => (await send(second.server.admin, '/metrics')).text;
  await until(async () => /^latchkey_store_links_up 1$/m.test(await metrics()), 'the link is up');
  t.pass('the link is up again');
});

t.test('serve_cached_for: recently used tokens are served that long, others get 503', async (t) => {
  const redis = await startRedis(t, '--appendonly', 'yes');
  const serving = { on_store_failure: { serve_cached_for: '10s' } };
  const { first, second } = await startTwo(t, { url: redis.url }, serving);
  const seen = await first.token('superuser');
  const unseen = await first.token('superuser');
  const soon = new Date(Date.now() + 10_000).toISOString();
  const expiring = await first.token('superuser', { expires_at: soon });
  for (const key of [seen, expiring]) t.equal(await status(second.url, key), 200);
  const readyOf = async ({ server }: Pick<typeof first, 'server'>) => send(server.admin, '/readyz');
  for (const each of [first, second]) t.equal((await readyOf(each)).status, 200);
  const killedAt = Date.now();
  await redis.kill();
  t.equal(await status(second.url, seen), 200);
  const ready = await readyOf(second);
  t.match([ready.status, ready.json.ready], [200, true], 'it serves, so a load balancer keeps it');
  t.match(ready.json.checks.store, /; recently used tokens are served from the cache$/);
  t.equal((await readyOf(first)).status, 503);
  t.equal(await status(second.url, unseen), 503);
  t.equal(await status(first.url, seen), 503, 'the default denies');
  await wait(killedAt + 10_200 - Date.now());
  t.equal(await status(second.url, expiring), 503, 'never beyond its expiry');
  t.equal(await status(second.url, seen), 503, 'nor beyond that time');
  t.equal((await readyOf(second)).status, 503);
  t.match(await freshMetrics(second.server.admin), /^latchkey_stale_tokens_served_total [1-9]/m);
  t.equal(
    (second.server.stdout().match(/serving recently used tokens from the cache/g) ?? []).length,
    1,
    'logged once',
  );
  await redis.restart();
  await until(async () => (await status(second.url, unseen)) === 200, 'recovery');
  const lastUses = async () =>
    JSON.parse(
      (await run(['token', 'list', '--user', 'superuser', '--json', '--config', first.configFile])).stdout,
    ).map((token: { last_seen_at: string | null }) => Date.parse(token.last_seen_at ?? ''));
  await until(
    async () => (await lastUses()).filter((at: number) => at > killedAt - 1_000).length >= 2,
    'uses during the outage are written',
  );
  t.pass('uses during the outage are written afterwards');
});

t.test('a damaged or foreign value denies only itself; a full memory refuses writes', async (t) => {
  const redis = await startRedis(t);
  const { first, second } = await startTwo(t, { url: redis.url });
  const [bad, wrong, good] = [await first.token('user'), await first.token('user'), await first.token('user')];
  const names = redis.cli('--scan', '--pattern', '*token:*').split('\n');
  t.equal(names.length, 4, 'three tokens and the legacy key');
  const { createHash } = await import('node:crypto');
  const name = (key: string) => `{latchkey:}token:${createHash('sha256').update(key).digest('base64url')}`;
  redis.cli('SET', name(bad), 'garbage');
  redis.cli('DEL', name(wrong));
  redis.cli('LPUSH', name(wrong), 'x');
  for (let i = 0; i < 3; i++) {
    t.equal(await status(second.url, bad), 503);
    t.equal(await status(second.url, wrong), 503);
    t.equal(await status(second.url, good), 200);
  }
  const owner = { id: 1, customerId: 'C1', role: 'superuser', locked: false, v: 1 };
  const record = redis.cli('GET', name(good));
  const valueOf = (text: string) => JSON.parse(text.slice(text.indexOf('{'))) as Record<string, unknown>;
  const { userId } = valueOf(record) as { userId: string };
  const user = redis.cli('GET', `{latchkey:}user:${userId}`);
  for (const [key, before, damaged] of [
    [name(good), record, { ...valueOf(record), expiresAt: '2020-01-01T00:00:00Z' }],
    [`{latchkey:}user:${userId}`, user, { ...valueOf(user), ...owner }],
  ] as [string, string, object][]) {
    redis.cli('SET', key, `${before.slice(0, before.indexOf('{'))}${JSON.stringify(damaged)}`);
    await until(async () => (await status(second.url, good)) === 503, 'a damaged record refuses');
    redis.cli('SET', key, before);
    await until(async () => (await status(second.url, good)) === 200, 'a repaired one counts at once', PUSHED_MS);
  }
  redis.cli('CONFIG', 'SET', 'maxmemory', '1mb');
  t.equal((await first.create('superuser')).status, 503, 'out of memory');
  t.equal(await status(second.url, good), 200, 'reads still work');
  redis.cli('CONFIG', 'SET', 'maxmemory', '0');
  t.equal((await first.create('superuser')).status, 200);

  redis.cli('CONFIG', 'SET', 'maxmemory', '100mb');
  redis.cli('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
  const refused = await run(['serve', '--config', first.configFile]);
  t.match(refused, { code: 1, stderr: /maxmemory-policy allkeys-lru\); set it to noeviction/ });
}); // prettier-ignore

t.test('a failover by Sentinel', nightly, async (t) => {
  const { master, cli, nodes } = await startSentinel(t);
  const { first, second } = await startTwo(t, { sentinel: { master: 'm', nodes } });
  const key = await first.token('superuser');
  const gone = await first.token('superuser');
  t.equal(await status(second.url, gone), 200);
  await send(first.url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': gone } });
  t.equal(await status(second.url, key), 200);
  await wait(200);
  await master.kill();
  const wrong = new Set<number>();
  await until(async () => {
    const each = await status(second.url, key);
    if (each !== 200 && each !== 503) wrong.add(each);
    if ((await status(second.url, gone)) === 200) wrong.add(-1);
    return cli('SENTINEL', 'get-master-addr-by-name', 'm').split('\n')[1] !== String(master.port);
  }, 'a new master');
  await until(async () => (await status(first.url, key)) === 200 && (await status(second.url, key)) === 200, 'recovery');
  t.same([...wrong], [], 'only 200 and 503 meanwhile, and the revoked token stays refused');
  // Cached records are still served before a sidecar has reached the new master.
  await until(async () => (await first.create('engineer')).status === 200, 'the first one reaches it');
  const fresh = await first.token('engineer');
  await until(async () => (await status(second.url, fresh)) === 200, 'the second one reaches it');
  await send(first.url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': fresh } });
  await until(async () => (await status(second.url, fresh)) === 401, 'the new master sends invalidations', PUSHED_MS);
}); // prettier-ignore

t.test('TLS, a client certificate, and a Redis user with minimal permissions', async (t) => {
  const folder = temporaryFolder(t);
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'ignore' });
  openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=test', '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', 'key.pem', '-out', 'cert.pem');
  const tlsPort = await freePort();
  const files = (name: string) => join(folder, name);
  const redis = await startRedis(
    t, '--tls-port', String(tlsPort), '--tls-cert-file', files('cert.pem'), '--tls-key-file', files('key.pem'), '--tls-ca-cert-file', files('cert.pem'),
  );
  const [, rules = ''] = /^ACL SETUSER latchkey on >PASSWORD (.*)$/m.exec(readFileSync('docs/storage.md', 'utf8')) ?? [];
  t.equal(redis.cli('ACL', 'SETUSER', 'latchkey', 'on', '>secret-of-redis', ...rules.split(' ')), 'OK', 'the rules in docs/storage.md');
  redis.cli('ACL', 'SETUSER', 'default', 'off');
  const tls = { ca: files('cert.pem'), cert: files('cert.pem'), key: files('key.pem') };
  const { first, second } = await startTwo(t, { url: `rediss://127.0.0.1:${tlsPort}`, username: 'latchkey', password: 'secret-of-redis', tls });
  const key = await first.token('superuser');
  for (let i = 0; i < 3; i++) t.equal(await status(second.url, key), 200);
  await until(async () => /^latchkey_store_links_up 1$/m.test((await send(second.server.admin, '/metrics')).text), 'the link is up');
  await send(first.url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': key } });
  await until(async () => (await status(second.url, key)) === 401, 'told', PUSHED_MS);
  t.match(await run(['token', 'list', '--config', first.configFile]), { code: 0 });
  t.notMatch(first.server.stdout() + second.server.stdout(), /secret-of-redis/);

  const wrong = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1', store: { type: 'redis', url: `rediss://127.0.0.1:${tlsPort}`, username: 'latchkey', password: 'wrong', tls } });
  t.match(await run(['user', 'list', '--config', wrong]), { code: 1, stderr: /^latchkey: Redis is unavailable \(.*WRONGPASS.*\); set store\.username and store\.password in .*\n$/ });
  const untrusted = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1', store: { type: 'redis', url: `rediss://127.0.0.1:${tlsPort}` } });
  t.match(await run(['user', 'list', '--config', untrusted]), { code: 1, stderr: /Redis is unavailable/ });
}); // prettier-ignore

t.test('a revocation during requests over two sidecars with two workers each', nightly, async (t) => {
  const redis = await startRedis(t);
  const store = { type: 'redis', url: redis.url, sealing_key: SEALING_KEY };
  const first = await startFixture(t, { store, workers: 2 });
  const other = await start(t, writeConfig(temporaryFolder(t), { upstream: first.upstream.url, store, workers: 2 }));
  const key = await first.token('superuser');
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  t.teardown(() => agent.destroy());
  const answers: { at: number; status: number }[] = [];
  let sent = 0;
  let revokedAt = Infinity;
  const ask = async (): Promise<void> => {
    while (sent < 2_000) {
      const url = sent++ % 2 === 0 ? first.url : other.url;
      const startedAt = performance.now();
      answers.push({ at: startedAt, status: await statusBy(agent, url, key) });
      if (sent === 1_000) {
        await send(first.url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': key } });
        revokedAt = performance.now();
      }
    }
  };
  await Promise.all(Array.from({ length: 8 }, ask));
  const late = answers.filter(({ at, status }) => status === 200 && at > revokedAt).map(({ at }) => at - revokedAt);
  t.ok(answers.filter(({ status }) => status === 200).length > 800);
  t.ok(answers.filter(({ status }) => status === 401).length > 600);
  t.ok(answers.every(({ status }) => status === 200 || status === 401));
  const last = Math.max(0, ...late);
  // Far below the cache's ttl of 30 s, after which it would end without the push.
  t.ok(last < 5_000, `the last one was accepted ${last.toFixed(1)} ms after the acknowledgement`);
}); // prettier-ignore

function statusBy(agent: Agent, url: string, key: string): Promise<number> {
  return new Promise((resolve, reject) => {
    get(`${url}/service/SVC1`, { agent, headers: { 'Service-Key': key } }, (res) => {
      res.resume();
      res.on('end', () => resolve(res.statusCode ?? 0));
    }).on('error', reject);
  });
}

t.test('a server that is stopped while Redis is down exits in time, with 0', nightly, async (t) => {
  const redis = await startRedis(t);
  const first = await startFixture(t, {
    store: { type: 'redis', sealing_key: SEALING_KEY, command_timeout: '1s', url: redis.url },
    // Otherwise the use may be written before Redis is killed.
    tokens: { last_seen_interval: '1h' },
  });
  const key = await first.token('superuser');
  t.equal(await status(first.url, key), 200);
  await redis.kill();
  await status(first.url, key);
  const startedAt = Date.now();
  t.same(await first.server.stop(), { code: 0, signal: null });
  t.ok(Date.now() - startedAt < 20_000);
  await matchLog(t, first.server, /last-seen data lost/);
});
