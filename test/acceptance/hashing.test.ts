import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import t from 'tap';
import { PASSWORD, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { INSTALLED, workerOf, workersOf } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { matchLog, until } from '../helpers/until.js';

const isAlive = (pid: number) => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
};

async function serve(t: Parameters<typeof startFixture>[0], config: object = {}) {
  const fixture = await startFixture(t, config, { program: INSTALLED });
  const post = (user: string, password = PASSWORD) =>
    send(fixture.url, '/login', { body: new URLSearchParams({ user: `${user}@example.com`, password }) });
  return { ...fixture, post };
}

t.test('hashes passwords in a separate process with the lowest priority', async (t) => {
  const { server, post, url } = await serve(t);
  t.same(workersOf(server.pid), [], 'none before the first password');
  t.equal((await send(url, '/x')).status, 401);
  t.equal((await post('superuser')).status, 200);
  const [pid = 0, ...others] = workersOf(server.pid);
  t.same(others, [], 'one for all logins');
  t.equal(getPriority(pid), 10);
  t.equal(getPriority(server.pid), getPriority(), 'the server keeps its own priority');
  const nice = readdirSync(`/proc/${pid}/task`).map((thread) => getPriority(Number(thread)));
  t.same(new Set(nice), new Set([10]), 'every thread');
  await post('superuser', 'a wrong one 4711');
  for (const file of ['cmdline', 'environ']) {
    const text = readFileSync(`/proc/${pid}/${file}`, 'latin1');
    t.notMatch(text, PASSWORD);
  }
  t.notMatch(server.stdout() + server.stderr(), '4711');
});

t.test('after it is killed, logins fail briefly and then work', async (t) => {
  const { server, post } = await serve(t);
  for (let i = 0; i < 3; i++) {
    t.equal((await post('superuser')).status, 200);
    const pid = workerOf(server.pid);
    const underWay = Promise.all(Array.from({ length: 6 }, (_, i) => post('superuser', `wrong ${i}`)));
    process.kill(pid, 'SIGKILL');
    for (const { status, headers } of await underWay) {
      t.ok([401, 429, 503].includes(status), `${status}`);
      if (status !== 401) t.match(headers['retry-after'], /^\d+$/);
    }
    await until(async () => (await post('billing')).status === 200, 'logins work again');
    await until(async () => (await post('superuser')).status === 200, 'the throttled account too', 40_000);
  }
  await matchLog(t, server, '"msg":"password hashing process exited; the next login starts a new one"');
  await matchLog(t, server, '"signal":"SIGKILL"');
});

t.test('does not count an attempt that could not be checked', nightly, async (t) => {
  const { server, post } = await serve(t);
  t.equal((await post('user')).status, 200);
  const pid = workerOf(server.pid);
  process.kill(pid, 'SIGSTOP');
  const waiting = post('user', 'wrong');
  await new Promise((wait) => setTimeout(wait, 200));
  process.kill(pid, 'SIGKILL');
  t.equal((await waiting).status, 503);
  const statuses = [];
  for (let i = 0; i < 5; i++) statuses.push((await post('user', 'wrong')).status);
  t.same(statuses, [401, 401, 401, 401, 401]);
  // On a busy machine, the wait of a second is over before the next attempt. It doubles each time.
  await until(async () => (await post('user', 'wrong')).status === 429, 'further attempts have to wait');
});

t.test(
  'exits with its parent, however that ends, and ignores signals to the process group',
  nightly,
  async (t) => {
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      const { server, post } = await serve(t);
      t.equal((await post('user')).status, 200);
      const pid = workerOf(server.pid);
      process.kill(pid, 'SIGTERM');
      process.kill(pid, 'SIGINT');
      t.equal((await post('user')).status, 200);
      t.equal(workersOf(server.pid)[0], pid);
      await server.stop(signal);
      await until(() => !isAlive(pid), `exited after ${signal}`);
      t.notOk(isAlive(pid));
    }
  },
);

t.test('each worker has its own process, and logins beyond the queue are refused', nightly, async (t) => {
  const { server, url } = await serve(t, { workers: 2, login: { max_concurrent_hashes: 1, max_failures: 100 } });
  const flood = Array.from({ length: 300 }, (_, i) =>
    send(url, '/login', { body: new URLSearchParams({ user: `nobody${i}@example.com`, password: 'x' }) }),
  );
  const replies = await Promise.all(flood);
  const statuses = new Map<number, number>();
  for (const { status } of replies) statuses.set(status, (statuses.get(status) ?? 0) + 1);
  t.same(new Set(statuses.keys()), new Set([401, 503]), JSON.stringify([...statuses]));
  for (const { status, headers } of replies) if (status === 503 && headers['retry-after'] === undefined) t.fail('no Retry-After');
  const hashing = workersOf(server.pid).flatMap((worker) => workersOf(worker));
  t.ok(hashing.length >= 1 && hashing.length <= 2, `${hashing.length} processes`);
}); // prettier-ignore
