import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { parse, stringify } from 'yaml';
import { type Fixture, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { workersOf } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

/*
 * Whatever ends workers: afterwards there are exactly as many as configured, and none serves or
 * finishes a request with an earlier configuration.
 */

const COUNT = 2;

const pids = ({ server }: Fixture): number[] => workersOf(server.pid);

/** Checks that the number of workers is the configured one, and stays that longer than a respawn takes. */
async function settles(t: Test, fixture: Fixture, about: string): Promise<void> {
  await until(() => pids(fixture).length === COUNT, about);
  await sleep(400);
  t.equal(pids(fixture).length, COUNT, about);
  await until(async () => (await send(fixture.server.admin, '/readyz')).status === 200, 'ready');
}

/** Sends requests without the end of their bodies, two for each worker. @param bytes of each */
async function hold({ url, server }: Fixture, bytes: string) {
  const requests = Array.from({ length: 2 * COUNT }, () => openRaw(url, { bytes }));
  const all = new RegExp(`^latchkey_requests_in_flight ${requests.length}$`, 'm');
  await until(
    async () => all.test((await send(server.admin, '/metrics')).text),
    'the workers have the heads',
  );
  return requests;
}

/** The status codes of held requests, as text. */
const statusesOf = (requests: Awaited<ReturnType<typeof hold>>): string[] =>
  requests.map((each) => each.text().slice(9, 12));

/** Holds requests, and returns how to complete them, with a check that each gets its response. */
async function inFlight(t: Test, fixture: Fixture) {
  const field = `Service-Key: ${await fixture.token('superuser')}`;
  const head = `POST /service/SVC1 HTTP/1.1\r\nHost: a\r\n${field}\r\nContent-Length: 4\r\nContent-Type: text/plain\r\n\r\n`;
  const requests = await hold(fixture, `${head}bo`);
  return async () => {
    for (const { write } of requests) write('dy');
    await until(() => requests.every(({ ended }) => ended), 'the connections close');
    t.same(statusesOf(requests), Array(2 * COUNT).fill('200'));
  };
} // prettier-ignore

/** Sends SIGTERM to the workers, and waits until none of them accepts connections. */
async function endWorkers(fixture: Fixture): Promise<void> {
  for (const pid of pids(fixture)) process.kill(pid, 'SIGTERM');
  // A connection handed to a worker that ends before it takes it is never answered.
  const refuses = async () => Promise.race([send(fixture.url, '/').then(() => false, () => true), sleep(1_000, false)]); // prettier-ignore
  await until(refuses, 'no worker accepts connections');
}

t.test('SIGTERM to all processes breaks off no request in flight', nightly, async (t) => {
  const fixture = await startFixture(t, { workers: COUNT });
  const complete = await inFlight(t, fixture);
  await endWorkers(fixture);
  const stopped = fixture.server.stop();
  await until(() => fixture.server.stdout().includes('"msg":"draining"'), 'it drains');
  await sleep(100);
  await complete();
  t.same(await stopped, { code: 0, signal: null });
});

t.test('workers that end by themselves are replaced while they finish their requests', nightly, async (t) => {
  const fixture = await startFixture(t, { workers: COUNT });
  const before = pids(fixture);
  const complete = await inFlight(t, fixture);
  await endWorkers(fixture);
  await until(() => pids(fixture).length === 2 * COUNT, 'others start');
  await until(async () => (await send(fixture.server.admin, '/readyz')).status === 200, 'ready');
  t.ok(before.every((pid) => pids(fixture).includes(pid)), 'the first ones wait for their requests');
  await complete();
  await settles(t, fixture, 'after their end');
  t.notOk(pids(fixture).some((pid) => before.includes(pid)), 'every worker was replaced');
  t.equal(fixture.server.stdout().match(/"msg":"worker died"/g)?.length, COUNT);
}); // prettier-ignore

t.test('a worker that is ending judges its last requests under the current configuration', async (t) => {
  const fixture = await startFixture(t, { workers: COUNT, interface: { token_endpoints: 'session_or_token' } });
  const { server, configFile } = fixture;
  const { json } = await fixture.create('superuser');
  const field = `Cookie: ${await fixture.login('superuser')}`;
  const head = `PATCH /tokens/${json.id} HTTP/1.1\r\nHost: a\r\n${field}\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n`;
  const requests = await hold(fixture, head);
  t.same(requests.map((each) => each.text()), Array(2 * COUNT).fill(''), 'they wait for their bodies');
  await endWorkers(fixture);
  const config = parse(readFileSync(configFile, 'utf8')) as object;
  const roles = Object.fromEntries(['superuser', 'billing', 'engineer', 'user'].map((role) => [role, { allow: ['*:read'] }]));
  writeFileSync(configFile, stringify({ ...config, policy: { roles } }));
  t.equal((await send(server.admin, '/-/reload', { method: 'POST' })).status, 200);
  for (const { write } of requests) write('{}');
  await until(() => requests.every((each) => each.text() !== ''), 'all are answered');
  t.same(statusesOf(requests), Array(2 * COUNT).fill('403'));
  for (const { socket } of requests) socket.destroy();
}); // prettier-ignore
