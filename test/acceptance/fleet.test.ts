import { connect } from 'node:net';
import t, { type Test } from 'tap';
import { makeClock } from '../helpers/clock.js';
import { client, directory, otpAt, PASSWORD, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { start, type StartOptions, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';

const SEALING_KEY = 'a1'.repeat(32);
const REVOCATIONS = 50;

/**
 * Far below the cache's ttl of 30 s, after which it would end without the push. `bench/fleet`
 * measures the delay on an idle machine.
 */
const PUSHED_MS = 5_000;

/** Two sidecars that share a store; the first one applies the directory. */
async function startFleet(t: Test, store: object, more: object = {}, options: StartOptions = {}) {
  const settings = { store: { type: 'redis', sealing_key: SEALING_KEY, ...store }, ...more };
  const first = await startFixture(t, settings, options);
  const configFile = writeConfig(temporaryFolder(t), { upstream: first.upstream.url, ...settings });
  const second = await start(t, configFile, options);
  return { first, second: { ...client(second.url), server: second } };
}

const status = async (url: string, key: string) =>
  (await send(url, '/service/SVC1', { headers: { 'Service-Key': key } })).status;

t.test('two sidecars on one Redis', async (t) => {
  const redis = await startRedis(t);
  const clock = makeClock(temporaryFolder(t));
  const { first, second } = await startFleet(t, { url: redis.url }, {}, { env: clock.env });
  const key = await first.token('superuser');
  t.equal(await status(first.url, key), 200);
  t.equal(await status(second.url, key), 200, 'a token of one is valid on the other');

  await t.test('a revocation reaches the other sidecar at once and permanently', async (t) => {
    const delays: number[] = [];
    let back = 0;
    for (let i = 0; i < REVOCATIONS; i++) {
      const secret = await first.token('engineer');
      // The other sidecar now has it in its cache.
      t.equal(await status(second.url, secret), 200);
      await send(first.url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': secret } });
      const revokedAt = performance.now();
      while ((await status(second.url, secret)) === 200);
      delays.push(performance.now() - revokedAt);
      if ((await status(second.url, secret)) !== 401 || (await status(first.url, secret)) !== 401) back += 1;
    }
    t.equal(back, 0);
    t.ok(Math.max(...delays) < PUSHED_MS, `${Math.max(...delays).toFixed(1)} ms at most`);
  });

  await t.test('a token is valid at once after an earlier attempt with an unknown one', async (t) => {
    t.equal(await status(second.url, 'x'.repeat(40)), 401);
    const secret = await first.token('user');
    t.equal(await status(second.url, secret), 200);
  });

  await t.test('serves requests from the cache', async (t) => {
    const hits = async () => {
      const { text } = await send(second.server.admin, '/metrics');
      return Number(/latchkey_cache_lookups_total\{result="hit"\} (\d+)/.exec(text)?.[1]);
    };
    const before = await hits();
    for (let i = 0; i < 100; i++) {
      await status(second.url, key);
      // A change of another token does not evict this one.
      if (i === 50) await first.token('user');
    }
    // Metrics are rendered once a second.
    await t.resolves(until(async () => (await hits()) - before > 90, 'they are counted as hits'));
  });

  await t.test('counts one-time passwords and failed logins across the whole fleet', async (t) => {
    const login = (url: string, user: string, password: string, otp?: string) =>
      send(url, '/login', {
        body: new URLSearchParams({ user: `${user}@example.com`, password }),
        headers: otp === undefined ? {} : { 'Service-OTP': otp },
      });
    const code = otpAt(Date.now());
    const attempts = await Promise.all(
      Array.from({ length: 10 }, (_, i) => login(i % 2 === 0 ? first.url : second.url, 'twofactor', PASSWORD, code)),
    );
    t.equal(attempts.filter((reply) => reply.status === 200).length, 1, 'one code, one login');
    // The wait after the fifth failure is a second, which a busy machine may take for one login.
    clock.stop();
    const wrong = [];
    for (let i = 0; i < 6; i++) wrong.push((await login(i % 2 === 0 ? first.url : second.url, 'billing', 'wrong')).status);
    t.same(wrong, [401, 401, 401, 401, 401, 429]);
    clock.set('+0s');
  }); // prettier-ignore

  await t.test('a rotation reaches the other sidecar at once', async (t) => {
    const secret = await first.token('engineer');
    t.equal(await status(second.url, secret), 200, 'the other sidecar has it in its cache');
    const rotate = async (key: string, overlap: string) =>
      (await send(first.url, '/tokens/self/rotate', { headers: { 'Service-Key': key }, body: new URLSearchParams({ overlap }) })).json;
    const made = await rotate(secret, '60');
    t.equal(await status(second.url, made.access_token), 200, 'the replacement works');
    t.equal(await status(second.url, secret), 200, 'the old one works during the overlap');
    const rest = await rotate(made.access_token, '0');
    await until(async () => (await status(second.url, made.access_token)) === 401, 'the old one is revoked', PUSHED_MS);
    t.equal(await status(second.url, rest.access_token), 200);
    const revoked = await send(first.url, '/tokens/self?wait=fleet', { method: 'DELETE', headers: { 'Service-Key': secret } });
    t.match(revoked, { status: 200, headers: { 'latchkey-further-tokens': '2' }, json: { sidecars: 2 } });
    for (const { access_token: key } of [{ access_token: secret }, made, rest])
      for (const { url } of [first, second]) t.equal(await status(url, key), 401, 'with all that came from it');
  }); // prettier-ignore

  await t.test('a session is valid on both sidecars until it ends', async (t) => {
    const headers = { Cookie: await first.login('superuser') };
    t.equal((await send(second.url, '/tokens', { headers })).status, 200);
    t.equal((await send(second.url, '/logout', { method: 'POST', headers })).status, 204);
    t.equal((await send(first.url, '/tokens', { headers })).status, 401);
  });

  await t.test('Redis holds no secret', async (t) => {
    const all = redis.cli('--scan').split('\n');
    const dump = redis.cli('EVAL', "local all = '' for _, k in ipairs(redis.call('KEYS', '*')) do all = all .. k .. ' ' if redis.call('TYPE', k).ok == 'string' then all = all .. redis.call('GET', k) end end return all", '0'); // prettier-ignore
    t.ok(all.length > 20);
    t.ok(all.every((name) => name.startsWith('{latchkey:}')), 'one hash tag');
    t.notMatch(dump, new RegExp(`${key}|correct horse|JBSWY3DP`));
  }); // prettier-ignore
});

t.test('faults of Redis: no wrong 200, no 401 for a valid token, automatic recovery', async (t) => {
  const redis = await startRedis(t, '--appendonly', 'yes');
  const { first, second } = await startFleet(t, { url: redis.url });
  const key = await first.token('superuser');
  const unseen = await first.token('engineer');
  const seen = async () => [await status(first.url, key), await status(second.url, key)];
  const recovers = () => until(async () => (await seen()).every((each) => each === 200), 'recovery');
  t.same(await seen(), [200, 200]);
  // Opened in advance for the last fault, during which no new connection can be opened to end it.
  let held = connect(redis.port, '127.0.0.1').on('error', () => undefined);
  t.teardown(() => held.destroy());

  for (const [name, fault, heal] of [
    ['killed', () => redis.kill(), () => redis.restart()],
    ['hanging', async () => redis.signal('SIGSTOP'), async () => redis.signal('SIGCONT')],
    [
      'requiring a password',
      async () => void redis.cli('CONFIG', 'SET', 'requirepass', 'x') + redis.cli('-a', 'x', 'CLIENT', 'KILL', 'TYPE', 'normal'),
      async () => void redis.cli('-a', 'x', 'CONFIG', 'SET', 'requirepass', ''),
    ],
    [
      'out of connections',
      async () => {
        held.write('CONFIG SET maxclients 1\r\n');
        redis.cli('CLIENT', 'KILL', 'TYPE', 'pubsub');
        held.write('CLIENT KILL TYPE normal SKIPME yes\r\n');
      },
      async () => void held.write('CONFIG SET maxclients 1000\r\n'),
    ],
  ] as const) {
    await t.test(`Redis ${name}`, async (t) => {
      held = connect(redis.port, '127.0.0.1').on('error', () => undefined);
      await fault();
      await new Promise((wait) => setTimeout(wait, 1_300));
      for (const [who, secret] of [['seen', key], ['unseen', unseen]] as const) {
        const reply = await send(second.url, '/service/SVC1', { headers: { 'Service-Key': secret } });
        t.notOk(reply.status === 401, `${who}: ${reply.status}`);
        if (reply.status !== 200) {
          t.equal(reply.status, 503, who);
          t.equal(reply.headers['retry-after'], '1');
        }
      }
      t.equal((await send(first.url, '/x', { headers: { 'Service-Key': 'x' } })).status === 200, false);
      await heal();
      await recovers();
      t.equal(await status(second.url, unseen), 200);
      const secret = await first.token('superuser');
      t.equal(await status(second.url, secret), 200);
      await send(first.url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': secret } });
      t.ok(await settles(async () => (await status(second.url, secret)) === 401), 'revocations are received again');
    });
  }
  t.notMatch(first.server.stdout(), /internal error/);
  t.ok((first.server.stdout().match(/request refused; something that it needs is unavailable/g) ?? []).length < 12, 'not one line for each request');
  t.same([await first.server.stop(), await second.server.stop()], [{ code: 0, signal: null }, { code: 0, signal: null }]);
}); // prettier-ignore

t.test('starts without Redis as not ready, and recovers by itself', async (t) => {
  const redis = await startRedis(t);
  await redis.kill();
  const folder = temporaryFolder(t);
  const config = writeConfig(
    folder,
    { upstream: 'http://127.0.0.1:1', store: { type: 'redis', url: redis.url, sealing_key: SEALING_KEY } },
    await directory(),
  );
  const server = await start(t, config);
  const ready = await send(server.admin, '/readyz');
  t.equal(ready.status, 503);
  t.match(ready.json.checks, { store: /Redis is unavailable/, directory: /not applied yet/ });
  t.equal(await status(server.url, 'x'.repeat(40)), 503, 'it could be a legacy key');
  t.equal(await status(server.url, `lk${'x'.repeat(38)}`), 401, 'a made-up token needs no store');
  t.equal((await send(server.url, '/service/SVC1')).status, 401, 'a missing credential needs no store');
  await redis.restart();
  await until(async () => (await send(server.admin, '/readyz')).status === 200, 'ready');
  t.ok(await client(server.url).token('superuser'));
});

async function settles(holds: () => Promise<boolean>, ms = 10_000): Promise<boolean> {
  return until(holds, 'the condition holds', ms).then(
    () => true,
    () => false,
  );
}
