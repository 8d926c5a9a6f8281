import { readFileSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { parse, stringify } from 'yaml';
import { startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { workersOf } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { until } from '../helpers/until.js';

/** Between two requests of a client: more of them would only take processor time. */
const PAUSE_MS = 20;

/** Sends requests continuously, on kept and on new connections; records the failures. */
function load(url: string, key: string) {
  const failures: string[] = [];
  let answered = 0;
  const going = new AbortController();
  const ask = (agent: Agent | false, method: string) =>
    new Promise<void>((done) => {
      const fail = (reason: string) => {
        failures.push(`${method} ${agent === false ? 'new' : 'kept'}: ${reason}`);
        done();
      };
      const headers = { 'Service-Key': key };
      request(`${url}/service/SVC1`, { method, agent, headers }, (res) => {
        let size = 0;
        res.on('data', (chunk: Buffer) => (size += chunk.length));
        res.on('error', (error) => fail(error.message));
        res.on('end', () => {
          answered += 1;
          if (res.statusCode === 200 && size > 0) done();
          else fail(`${res.statusCode}, ${size} bytes`);
        });
      })
        .on('error', (error: NodeJS.ErrnoException) => fail(error.code ?? error.message))
        .end(method === 'POST' ? 'x'.repeat(20_000) : undefined);
    });
  const agent = new Agent({ keepAlive: true, maxSockets: 6 });
  const loop = async (kept: boolean, method: string) => {
    while (!going.signal.aborted) {
      await ask(kept ? agent : false, method);
      await sleep(PAUSE_MS);
    }
  };
  const loops = [
    ...Array.from({ length: 4 }, () => loop(true, 'GET')),
    ...Array.from({ length: 2 }, () => loop(true, 'POST')),
    loop(false, 'GET'),
    loop(false, 'POST'),
  ];
  return {
    answered: () => answered,
    end: async () => {
      going.abort();
      await Promise.all(loops);
      agent.destroy();
      return failures;
    },
  };
}

const RELOADS = 3;

const linesWith = (text: string, pattern: RegExp) => text.split('\n').filter((line) => pattern.test(line));

t.test('reloads under load fail no request, and a worker that ends keeps its counts', async (t) => {
  const { url, server, token, configFile } = await startFixture(t, { workers: 2 });
  const traffic = load(url, await token('superuser'));
  const config = parse(readFileSync(configFile, 'utf8')) as object;
  for (let i = 0; i < RELOADS; i++) {
    const before = traffic.answered();
    writeFileSync(
      configFile,
      stringify({ ...config, routes: [{ path: `/other/${i}`, auth: 'none' }, { path: '/service/*', action: 'api' }] }),
    );
    t.equal((await send(server.admin, '/-/reload', { method: 'POST' })).status, 200);
    t.equal((await send(url, `/other/${i}`)).status, 200, 'the new configuration is active');
    await until(() => traffic.answered() > before, 'requests continue');
  }
  const answered = traffic.answered();
  t.same(await traffic.end(), []);
  for (const pid of workersOf(server.pid)) process.kill(pid, 'SIGTERM');
  await until(() => linesWith(server.stdout(), /worker died/).length === 2, 'they exit');
  const counted = async () => {
    const { text } = await send(server.admin, '/metrics');
    const counts = [...text.matchAll(/^latchkey_requests_total\{.*outcome="forwarded".*\} (\d+)$/gm)];
    return counts.reduce((sum, [, count]) => sum + Number(count), 0);
  };
  await until(async () => (await counted()) >= answered, 'counts of exited workers are kept');
  t.ok((await counted()) < answered + 100, 'and counted once');
  t.ok(answered > 0, `${answered} requests`);
  t.same(linesWith(server.stdout(), /did not reload|"level":60/), []);
  t.same(await server.stop(), { code: 0, signal: null });
}); // prettier-ignore

/** Sends `count` requests, each on a new connection. @returns the status or error code of each */
function askAnew(url: string, key: string, count: number): Promise<number | string | undefined>[] {
  const ask = () =>
    new Promise<number | string | undefined>((done) => {
      const headers = { 'Service-Key': key };
      request(`${url}/service/SVC1`, { agent: false, headers, timeout: 10_000 }, (res) =>
        res.resume().on('end', () => done(res.statusCode)),
      )
        .on('timeout', () => done('no answer'))
        .on('error', (error: NodeJS.ErrnoException) => done(error.code))
        .end();
    });
  return Array.from({ length: count }, ask);
}

t.test('connections handed to a worker that no longer accepts go to another one', nightly, async (t) => {
  const { url, server, token } = await startFixture(t, { workers: 3 });
  const key = await token('superuser');
  for (const leaving of workersOf(server.pid).slice(1)) {
    process.kill(server.pid, 'SIGSTOP');
    const asked = askAnew(url, key, 16);
    await sleep(100);
    process.kill(leaving, 'SIGTERM');
    await sleep(300);
    process.kill(server.pid, 'SIGCONT');
    t.same(await Promise.all(asked), Array(16).fill(200));
    await until(() => server.stdout().includes(`"worker_pid":${leaving},"code":0`), 'it exits');
  }
}); // prettier-ignore

t.test('a connection returned to a primary that drains does not end it while another worker is busy', nightly, async (t) => {
  const { url, server, token } = await startFixture(t, { workers: 2 });
  const key = await token('superuser');
  const [leaving, busy] = workersOf(server.pid);
  if (leaving === undefined || busy === undefined) throw new Error('there are not two workers');
  for (const each of [leaving, busy]) process.kill(each, 'SIGSTOP');
  const taken = askAnew(url, key, 2);
  await sleep(100);
  process.kill(leaving, 'SIGCONT');
  await Promise.race(taken);
  process.kill(server.pid, 'SIGSTOP');
  const returned = askAnew(url, key, 1);
  await sleep(100);
  process.kill(leaving, 'SIGTERM');
  await sleep(300);
  const stopped = server.stop('SIGTERM');
  process.kill(server.pid, 'SIGCONT');
  await until(() => server.stdout().includes('"msg":"draining"'), 'it drains');
  await sleep(100);
  process.kill(busy, 'SIGCONT');
  t.same(await stopped, { code: 0, signal: null });
  t.notOk((await Promise.all([...taken, ...returned])).includes('no answer'));
}); // prettier-ignore

t.test('a server stopped by SIGTERM under load fails no request on kept connections', async (t) => {
  const { url, server, token } = await startFixture(t, {}, { isolated: true });
  const key = await token('superuser');
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ask = () =>
    new Promise<{ status: number; close: boolean }>((resolve, reject) => {
      request(`${url}/service/SVC1`, { agent, headers: { 'Service-Key': key } }, (res) => {
        res.resume().on('end', () =>
          resolve({ status: res.statusCode ?? 0, close: res.headers.connection === 'close' }),
        );
      }).on('error', reject).end();
    });
  t.same(await ask(), { status: 200, close: false });
  const stopped = server.stop('SIGTERM');
  await until(() => server.stdout().includes('"msg":"draining"'), 'it drains');
  await sleep(20);
  t.same(await ask(), { status: 200, close: true }, 'the next request is answered with Connection: close');
  t.same(await stopped, { code: 0, signal: null });
}); // prettier-ignore

t.test('/-/config shows the running configuration without secrets', async (t) => {
  const { server } = await startFixture(t, {
    upstreams: { api: { url: 'http://127.0.0.1:9', max_connections: 7 } },
    upstream: undefined,
    directory: { http: { url: 'http://127.0.0.1:9/accounts?key=hidden-query' } },
  });
  const { status, json, text } = await send(server.admin, '/-/config');
  t.equal(status, 200);
  t.match(json, { upstreams: { api: { max_connections: 7, connect_timeout: 2_000 } }, admin: { port: 0 } });
  t.equal(json.directory.http.url, 'http://127.0.0.1:9/accounts?***');
  t.notMatch(text, /hidden/);
});
