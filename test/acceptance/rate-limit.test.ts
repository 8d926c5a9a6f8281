import t from 'tap';
import { makeClock } from '../helpers/clock.js';
import { startFixture } from '../helpers/fixture.js';
import { type Reply, send } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { startRedis } from '../helpers/redis.js';

const HOUR_MS = 3_600_000;
const LIMIT = { rate_limit: { writes_per_hour: 5 } };
const left = (reply: Reply) => reply.headers['service-ratelimit-remaining'];

for (const kind of ['lmdb', 'redis']) {
  t.test(`limits writes by user and clock hour: ${kind}`, async (t) => {
    // The clock is set to half past, whatever the time is.
    const clock = makeClock(temporaryFolder(t));
    const toHalfPast = HOUR_MS - (Date.now() % HOUR_MS) + HOUR_MS / 2;
    const time = () => Date.now() + toHalfPast;
    const setTime = (ms: number) => clock.set(`+${(ms - Date.now()) / 1000}s`);
    setTime(time());
    const store =
      kind === 'lmdb'
        ? {}
        : { store: { type: 'redis', url: (await startRedis(t)).url, sealing_key: 'a1'.repeat(32) } };
    const { url, token, create, login, upstream } = await startFixture(t, { ...store, ...LIMIT }, clock);
    const key = await token('superuser');
    const ask = (method: string, path: string, headers: Record<string, string> = { 'Service-Key': key }, at = url) =>
      send(at, path, { method, headers });

    const first = await ask('PUT', '/service/SVC1');
    t.equal(left(first), '4');
    const reset = Number(first.headers['service-ratelimit-reset']);
    t.equal(reset % 3_600, 0, 'the top of an hour');
    t.ok(reset * 1000 > time() && reset * 1000 <= time() + HOUR_MS);
    for (const [method, path] of [['GET', '/x'], ['HEAD', '/x'], ['OPTIONS', '/x'], ['POST', '/service/SVC1/purge/a'], ['PURGE', '/a'], ['POST', '/purge/a']] as const) {
      const free = await ask(method, path);
      t.same([free.status, left(free)], [200, undefined], `${method} ${path} is not counted`);
    }
    t.equal(left(await ask('POST', '/service/SVC1/purge_all')), '3', 'purge_all is counted');
    t.equal(left(await ask('DELETE', '/x', { Cookie: await login('superuser') })), '2', 'a session of the same user too');
    const other = kind === 'lmdb' ? url : (await start(t, writeConfig(temporaryFolder(t), { upstream: upstream.url, ...store, ...LIMIT }), clock)).url;
    t.equal(left(await ask('POST', '/x', undefined, other)), '1', 'another sidecar continues the count');
    t.equal((await ask('PUT', '/billing/x', { 'Service-Key': await token('engineer') })).status, 403);
    t.equal(left(await ask('PATCH', '/x')), '0');
    const before = upstream.received.length;
    const over = await ask('POST', '/x');
    t.equal(over.status, 429);
    t.same(over.json, { msg: 'Too many requests', detail: 'The hourly limit of writes is reached' });
    t.equal(left(over), '0');
    t.equal(over.headers['service-ratelimit-reset'], String(reset));
    t.ok(Math.abs(Number(over.headers['retry-after']) - (reset - time() / 1000)) < 60, 'until the end of the hour');
    t.equal(upstream.received.length, before, 'no request to the upstream');
    t.equal((await ask('GET', '/x')).status, 200, 'reads are not limited');
    t.equal(left(await ask('POST', '/x', { 'Service-Key': await token('engineer') })), '4', 'each user has a separate count');
    const made = (await create('superuser')).json;
    t.equal((await ask('DELETE', '/tokens/self', { 'Service-Key': made.access_token })).status, 204, 'revoking is never limited');

    // The window follows the clock hour, not the first write.
    setTime(reset * 1000 - 60_000);
    const lastMinute = await ask('POST', '/x');
    t.equal(lastMinute.status, 429, 'same hour');
    t.ok(Number(lastMinute.headers['retry-after']) <= 60);
    setTime(reset * 1000 + 1_000);
    const next = await ask('POST', '/x', undefined, other);
    t.same([next.status, left(next), next.headers['service-ratelimit-reset']], [200, '4', String(reset + 3_600)], 'a new hour');
    t.equal(left(await ask('POST', '/x')), '3', 'for every sidecar');
    // A sidecar whose clock is a few seconds behind does not restart the old hour.
    setTime(reset * 1000 - 5_000);
    t.equal(left(await ask('POST', '/x')), '2', 'the new hour continues');
  }); // prettier-ignore
}

t.test('counts nothing without the setting', async (t) => {
  const { url, token } = await startFixture(t);
  t.equal(left(await send(url, '/x', { method: 'POST', headers: { 'Service-Key': await token('superuser') } })), undefined); // prettier-ignore
});
