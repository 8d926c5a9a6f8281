import { join } from 'node:path';
import t, { type Test } from 'tap';
import { makeClock } from '../helpers/clock.js';
import { client, directory, otpAt, PASSWORD } from '../helpers/fixture.js';
import { send, startUpstream } from '../helpers/http.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';

async function serve(t: Test, config: object) {
  const folder = temporaryFolder(t);
  const clock = makeClock(folder);
  const upstream = await startUpstream(t);
  const file = writeConfig(folder, { upstream: upstream.url, ...config }, await directory());
  const server = await start(t, file, { env: clock.env });
  const { url } = server;
  const login = (user: string, password: string, headers: Record<string, string> = {}) =>
    send(url, '/login', { body: new URLSearchParams({ user: `${user}@example.com`, password }), headers });
  const readiness = async () => (await send(server.admin, '/readyz')) as { status: number; json: { checks: { store: string } } };
  return { ...client(url), server, login, readiness, file, clock };
} // prettier-ignore

type Served = Awaited<ReturnType<typeof serve>>;

/**
 * While the store is not writable, attempts reveal nothing: every entrance answers 503 to right and
 * wrong passwords.
 */
async function refusesToJudge(t: Test, served: Served, session: Record<string, string>): Promise<void> {
  const { url, login, readiness } = served;
  const body = (params: Record<string, string>) => new URLSearchParams(params);
  const otp = (code: string) => ({ 'Service-OTP': code });
  const entrances: [string, () => Promise<{ status: number }>][] = [];
  for (const password of [PASSWORD, 'wrong']) {
    const who = { username: 'superuser@example.com', password };
    entrances.push(
      [`login ${password}`, () => login('superuser', password)],
      [`unknown ${password}`, () => login('nobody', password)],
      [`locked ${password}`, () => login('locked', password)],
      [`no code ${password}`, () => login('twofactor', password)],
      [`right code ${password}`, () => login('twofactor', password, otp(otpAt(Date.now())))],
      [`wrong code ${password}`, () => login('twofactor', password, otp('000000'))],
      [`tokens ${password}`, () => send(url, '/tokens', { body: body(who) })],
      [`tokens, invalid scope ${password}`, () => send(url, '/tokens', { body: body({ ...who, scope: 'none' }) })],
      [`sudo ${password}`, () => send(url, '/sudo', { body: body(who) })],
      [`sudo by session ${password}`, () => send(url, '/sudo', { body: body({ password }), headers: session })],
    );
  }
  for (const [name, attempt] of entrances) t.equal((await attempt()).status, 503, name);
  await until(async () => (await readiness()).status === 503, 'not ready');
  t.not((await readiness()).json.checks.store, 'ok');
  t.equal((await send(url, '/x', { headers: session })).status, 200, 'cached credentials are served');
} // prettier-ignore

const SEALING_KEY = 'a'.repeat(64);
const ACCOUNT = { interface: { account_endpoints: true } };

t.test('a nearly full disk: checks no password', async (t) => {
  const store = { type: 'lmdb', path: join(temporaryFolder(t), 'store') };
  const before = await serve(t, { ...ACCOUNT, store });
  const session = { Cookie: await before.login('superuser', PASSWORD).then(cookieOf) };
  t.equal((await before.readiness()).status, 200);
  await before.server.stop();
  // This limit stands in for a full disk; test/faults uses one that is really full.
  await refusesToJudge(t, await serve(t, { ...ACCOUNT, store: { ...store, min_free: '1024GiB' } }), session);
});

t.test('Redis without enough replicas: checks no password', async (t) => {
  const { url, cli } = await startRedis(t);
  const served = await serve(t, { ...ACCOUNT, store: { type: 'redis', url, sealing_key: SEALING_KEY } });
  const session = { Cookie: await served.login('superuser', PASSWORD).then(cookieOf) };
  t.equal((await served.readiness()).status, 200);
  t.equal(cli('CONFIG', 'SET', 'min-replicas-to-write', '1'), 'OK');
  await refusesToJudge(t, served, session);
  cli('CONFIG', 'SET', 'min-replicas-to-write', '0');
  await until(async () => (await served.readiness()).status === 200, 'ready again');
  t.equal((await served.login('superuser', PASSWORD)).status, 200, 'no attempt was counted');
});

t.test('Redis that became a replica: checks no password', nightly, async (t) => {
  const { url, cli } = await startRedis(t);
  const served = await serve(t, { ...ACCOUNT, store: { type: 'redis', url, sealing_key: SEALING_KEY } });
  const session = { Cookie: await served.login('superuser', PASSWORD).then(cookieOf) };
  cli('CONFIG', 'SET', 'replica-serve-stale-data', 'yes');
  cli('REPLICAOF', '127.0.0.1', '1');
  const statuses = new Set<number>();
  for (const password of [PASSWORD, 'wrong'])
    for (let i = 0; i < 5; i++) statuses.add((await served.login('superuser', password)).status);
  t.same([...statuses], [503]);
  t.ok(session.Cookie);
});

t.test('counts wrong one-time passwords separately; a right password does not reset them', async (t) => {
  const { login, file, clock } = await serve(t, {});
  // The wait after failures begins with a second, which a busy machine may take for one login.
  clock.stop();
  const otp = (code: string) => ({ 'Service-OTP': code });
  const wrong = [];
  for (let i = 0; i < 5; i++) {
    wrong.push((await login('twofactor', PASSWORD, otp('000000'))).status);
    // A login without a code is not a guess; it reveals only that the password is right.
    wrong.push((await login('twofactor', PASSWORD)).status);
  }
  t.same(new Set(wrong), new Set([400]));
  t.equal((await login('twofactor', PASSWORD, otp(otpAt(Date.now())))).status, 429);
  for (let i = 0; i < 4; i++) await login('twofactor', 'wrong');
  t.equal((await login('twofactor', 'wrong')).status, 401, 'passwords have a separate count');
  const { code } = await run(['user', 'unlock', 'twofactor@example.com', '--config', file]);
  t.equal(code, 0);
  t.equal((await login('twofactor', PASSWORD, otp(otpAt(Date.now())))).status, 200, 'unlock resets both');
});

t.test('a stranger cannot lock a user out', async (t) => {
  const { url, clock } = await serve(t, {
    listen: { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] },
  });
  clock.stop();
  const from = (address: string, password: string) =>
    send(url, '/login', {
      body: new URLSearchParams({ user: 'superuser@example.com', password }),
      headers: { 'X-Forwarded-For': address },
    });
  t.equal((await from('203.0.113.7:5678', PASSWORD)).status, 200);
  for (let i = 1; i <= 8; i++) await from(`198.51.100.${i}`, 'wrong');
  t.equal((await from('192.0.2.1', PASSWORD)).status, 429, 'an unknown address is throttled');
  t.equal((await from('203.0.113.7', PASSWORD)).status, 200, 'a known address is not');
  for (let i = 0; i < 5; i++) t.equal((await from('203.0.113.7', 'wrong')).status, 401);
  t.equal((await from('203.0.113.7', PASSWORD)).status, 429, 'it has its own count');
});

function cookieOf({ headers, status }: { headers: Record<string, unknown>; status: number }): string {
  const [cookie = ''] = (headers['set-cookie'] as string[] | undefined) ?? [];
  if (cookie === '') throw new Error(`no session: ${status}`);
  return cookie.split(';', 1)[0] ?? '';
}
