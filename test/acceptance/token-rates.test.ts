import t, { type Test } from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';

const COUNT = 100;
const RATE = `${COUNT}/20s`;
const PER_MS = 20_000;
/** Within which 600 requests are enough traffic for leases to grow. */
const ENOUGH_MS = 3_000;
/** Most permits that one process leases at a time, see docs/limits.md. */
const HELD = Math.floor(COUNT / 50);

/** Sends requests to all addresses until `most` were admitted or 30 were refused. */
async function hammer(urls: readonly string[], key: string, most: number) {
  const begun = performance.now();
  const counts = { admitted: 0, refused: 0, other: 0 };
  const worker = async (i: number) => {
    for (let n = i; counts.admitted < most && counts.refused < 30; n++) {
      const { status, headers } = await send(urls[n % urls.length] as string, '/x', { headers: { 'Service-Key': key, Connection: 'close' } });
      if (status === 200) counts.admitted += 1;
      else if (status === 429 && Number(headers['retry-after']) >= 1) counts.refused += 1;
      else counts.other += 1;
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, i) => worker(i)));
  return { ...counts, took: performance.now() - begun };
} // prettier-ignore

function isWithinBounds(t: Test, { admitted, refused, other, took }: Awaited<ReturnType<typeof hammer>>, processes: number): void {
  const most = COUNT + (COUNT * took) / PER_MS + HELD * processes;
  const least = COUNT - HELD * processes;
  t.comment(`${admitted} admitted and ${refused} refused in ${took.toFixed(0)} ms; at most ${most.toFixed(0)}`);
  t.equal(other, 0);
  t.ok(admitted <= most && admitted >= least, `${admitted} of at least ${least} and at most ${most.toFixed(0)}`);
} // prettier-ignore

t.test('two workers of a process with the embedded store share a rate', async (t) => {
  const { url, token } = await startFixture(t, { workers: 2 });
  isWithinBounds(t, await hammer([url], await token('superuser', { rate: RATE }), 5_000), 2);
});

t.test('three sidecars, one of them with two workers, share a rate', nightly, async (t) => {
  const redis = await startRedis(t);
  const store = { type: 'redis', url: redis.url, sealing_key: 'a1'.repeat(32) };
  const first = await startFixture(t, { store, workers: 2 });
  const config = () => writeConfig(temporaryFolder(t), { upstream: first.upstream.url, store });
  const others = [await start(t, config()), await start(t, config())];
  const urls = [first.url, ...others.map(({ url }) => url)];
  const key = await first.token('superuser', { rate: RATE });
  isWithinBounds(t, await hammer(urls, key, 5_000), 4);

  await t.test('requests over the rate, and those within a lease, cost Redis next to nothing', async (t) => {
    const calls = () => Number(/cmdstat_evalsha:calls=(\d+)/.exec(redis.cli('INFO', 'commandstats'))?.[1]);
    const wide = await first.token('superuser', { rate: '1000000/1h' });
    for (const url of urls) await send(url, '/x', { headers: { 'Service-Key': wide } });
    // Leases grow with the traffic.
    await hammer(urls, wide, 300);
    const before = calls();
    const plain = await hammer(urls, await first.token('superuser'), 600);
    const between = calls();
    const limited = await hammer(urls, wide, 600);
    // Each process writes last uses once a second and sends heartbeats; that share is subtracted.
    const base = ((between - before) * limited.took) / plain.took;
    const scripts = calls() - between - base;
    t.comment(`${scripts.toFixed(0)} scripts more than ${base.toFixed(0)} for ${limited.admitted} requests`);
    // Leases grow with the traffic, see test/accounts. A slow machine leases about once for each request.
    t.ok(scripts < (limited.took < ENOUGH_MS ? 1 : 2) * limited.admitted);
  });

  await t.test('a token suspended or limited on one sidecar is suspended or limited on all', async (t) => {
    const cookie = { Cookie: await first.login('superuser') };
    const { access_token: secret, id } = (await first.create('superuser')).json;
    const statuses = async () => Promise.all(urls.map(async (url) => (await send(url, '/x', { headers: { 'Service-Key': secret } })).status));
    const patch = (json: object) => send(first.url, `/tokens/${id}`, { method: 'PATCH', headers: cookie, json });
    for (const [json, status] of [[{ suspended: true }, 401], [{ suspended: false }, 200], [{ addresses: ['192.0.2.1'] }, 403], [{ addresses: null }, 200]] as const) {
      await statuses();
      t.equal((await patch(json)).status, 200);
      const since = performance.now();
      await until(async () => (await statuses()).every((each) => each === status), `${JSON.stringify(json)} in effect`);
      t.ok(performance.now() - since < 5_000, "far below the cache's ttl");
    }
  });
}); // prettier-ignore
