import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { type Reply, send } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { startRedis } from '../helpers/redis.js';

const LIMIT = { rate_limit: { writes_per_hour: 5 } };
const left = (reply: Reply) => reply.headers['service-ratelimit-remaining'];

for (const kind of ['lmdb', 'redis']) {
  t.test(`writes are limited by user and clock hour: ${kind}`, async (t) => {
    // A test that crosses the hour would see two of them.
    const untilHour = 3_600_000 - (Date.now() % 3_600_000);
    if (untilHour < 15_000) await new Promise((wait) => setTimeout(wait, untilHour + 100));
    const store =
      kind === 'lmdb'
        ? {}
        : { store: { type: 'redis', url: (await startRedis(t)).url, sealing_key: 'a1'.repeat(32) } };
    const { url, token, create, login, upstream } = await startFixture(t, { ...store, ...LIMIT });
    const key = await token('superuser');
    const ask = (method: string, path: string, headers: Record<string, string> = { 'Service-Key': key }, at = url) =>
      send(at, path, { method, headers });

    const first = await ask('PUT', '/service/SVC1');
    t.equal(left(first), '4');
    const reset = Number(first.headers['service-ratelimit-reset']);
    t.equal(reset % 3_600, 0, 'the top of an hour');
    t.ok(reset * 1000 > Date.now() && reset * 1000 <= Date.now() + 3_600_000);
    for (const [method, path] of [['GET', '/x'], ['HEAD', '/x'], ['OPTIONS', '/x'], ['POST', '/service/SVC1/purge/a'], ['PURGE', '/a'], ['POST', '/purge/a']] as const) {
      const free = await ask(method, path);
      t.same([free.status, left(free)], [200, undefined], `${method} ${path} is free`);
    }
    t.equal(left(await ask('POST', '/service/SVC1/purge_all')), '3', 'purge-all counts');
    t.equal(left(await ask('DELETE', '/x', { Cookie: await login('superuser') })), '2', 'the session of the user as well');
    const other = kind === 'lmdb' ? url : (await start(t, writeConfig(temporaryFolder(t), { upstream: upstream.url, ...store, ...LIMIT }))).url;
    t.equal(left(await ask('POST', '/x', undefined, other)), '1', 'another sidecar counts on');
    t.equal((await ask('PUT', '/billing/x', { 'Service-Key': await token('engineer') })).status, 403);
    t.equal(left(await ask('PATCH', '/x')), '0');
    const before = upstream.received.length;
    const over = await ask('POST', '/x');
    t.equal(over.status, 429);
    t.same(over.json, { msg: 'Too many requests', detail: 'The writes of this hour are used up' });
    t.equal(left(over), '0');
    t.equal(over.headers['service-ratelimit-reset'], String(reset));
    t.ok(Number(over.headers['retry-after']) > 0);
    t.equal(upstream.received.length, before, 'the upstream was not asked');
    t.equal((await ask('GET', '/x')).status, 200, 'reading goes on');
    t.equal(left(await ask('POST', '/x', { 'Service-Key': await token('engineer') })), '4', 'each user has its own');
    const made = (await create('superuser')).json;
    t.equal((await ask('DELETE', '/tokens/self', { 'Service-Key': made.access_token })).status, 204, 'nobody is kept from revoking');
  }); // prettier-ignore
}

t.test('without the setting nothing is counted', async (t) => {
  const { url, token } = await startFixture(t);
  t.equal(left(await send(url, '/x', { method: 'POST', headers: { 'Service-Key': await token('superuser') } })), undefined); // prettier-ignore
});
