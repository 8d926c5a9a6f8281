import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { stringify } from 'yaml';
import { client, directory, startFixture } from '../helpers/fixture.js';
import { type Reply, send } from '../helpers/http.js';
import { run, start, temporaryFolder, workerOf, writeConfig } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { startProxy } from '../helpers/proxy.js';
import { startRedis } from '../helpers/redis.js';
import { rememberSecret } from '../helpers/secrets.js';
import { openBoth, startStreams } from '../helpers/streams.js';
import { matchLog, until } from '../helpers/until.js';

const SEALING_KEY = 'a1'.repeat(32);
/** With this interval, the recheck cannot be what ends the streams. */
const proxy = { stream_recheck: '10m' };
/** Far below the time for which a response waits for the last sidecar. */
const PROMPT_MS = 4_000;

type Caller = Awaited<ReturnType<typeof startFixture>> | ReturnType<typeof client>;

const portOf = (url: string) => url.slice(url.lastIndexOf(':') + 1);
const namesOf = (reply: Reply) =>
  (reply.json.missing as { name: string }[] | undefined)?.map(({ name }) => portOf(name));

/** Creates a token; returns its id, and its secret as a header. */
async function newToken(caller: Caller) {
  const { json } = await caller.create('superuser');
  return { id: json.id as string, headers: { 'Service-Key': json.access_token as string } };
}

async function revoke(caller: Caller, path: string, more: object = {}) {
  const Cookie = await caller.login('superuser');
  return send(caller.url, path, { method: 'DELETE', headers: { Cookie }, ...more });
}

/** Opens streams with one token on several servers; resolves when all are open. */
async function openOn(t: Test, callers: readonly Caller[], headers: Record<string, string>) {
  const opened = callers.map(({ url }) => openBoth(url, headers));
  for (const each of opened) {
    t.teardown(each.end);
    each.events.catch(() => undefined);
    each.tunnel.catch(() => undefined);
  }
  await until(() => opened.every((each) => each.open() === 2), 'all are open');
  return { over: () => opened.reduce((sum, each) => sum + each.over(), 0), all: 2 * opened.length };
}

/** Starts three sidecars on one Redis, the third one through a link that can be cut. */
async function startThree(t: Test) {
  const redis = await startRedis(t);
  const link = await startProxy(t, redis.port);
  const upstream = await startStreams(t);
  const settings = (url: string) => ({ upstream, proxy, store: { type: 'redis', url, sealing_key: SEALING_KEY, command_timeout: '500ms' } });
  const first = await startFixture(t, settings(redis.url));
  const others = [];
  for (const url of [redis.url, link.url]) {
    const server = await start(t, writeConfig(temporaryFolder(t), settings(url)), { isolated: true });
    others.push({ ...client(server.url), server });
  }
  const [second, third] = others;
  if (second === undefined || third === undefined) throw new Error('not started');
  return { first, second, third, link, redis };
} // prettier-ignore

t.test('three sidecars on one Redis', async (t) => {
  const { first, second, third, link } = await startThree(t);
  const all = [first, second, third];

  await t.test('responds when all sidecars have evicted the token and ended its streams', async (t) => {
    const other = await newToken(first);
    const lasting = await openOn(t, all, other.headers);
    for (const path of ['/tokens/ID', '/tokens', '/tokens/self']) {
      const { id, headers } = await newToken(first);
      const streams = await openOn(t, all, headers);
      const body = JSON.stringify({ data: [{ type: 'token', id }] });
      const askedAt = performance.now();
      const reply =
        path === '/tokens/self'
          ? await send(first.url, '/tokens/self?wait=fleet', { method: 'DELETE', headers })
          : await revoke(first, `${path.replace('ID', id)}?wait=fleet`, path === '/tokens' ? { body, headers: { Cookie: await first.login('superuser'), 'Content-Type': 'application/json' } } : {});
      const ms = performance.now() - askedAt;
      t.same([reply.status, reply.json], [200, { sidecars: 3, slowest_ms: reply.json.slowest_ms }], path);
      t.ok(reply.json.slowest_ms > 0 && reply.json.slowest_ms <= ms + 1, `${reply.json.slowest_ms} of ${ms} ms`);
      t.ok(ms < PROMPT_MS, `${ms.toFixed(1)} ms`);
      await until(() => streams.over() === streams.all, 'the clients see their streams end');
      for (const { url } of all) t.equal((await send(url, '/x', { headers })).status, 401);
    }
    t.equal(lasting.over(), 0, 'streams of another token stay open');
  });

  await t.test('without wait, responds immediately, and streams still end at once', nightly, async (t) => {
    const { id, headers } = await newToken(first);
    const streams = await openOn(t, all, headers);
    const reply = await revoke(first, `/tokens/${id}`);
    t.same([reply.status, reply.text], [204, '']);
    await until(() => streams.over() === streams.all, 'streams end');
  });

  await t.test('refuses an unknown value of wait before revoking anything', async (t) => {
    const { id, headers } = await newToken(first);
    for (const query of ['wait=all', 'wait=', 'wait', 'wait=fleet&wait=fleet', 'wait=FLEET']) {
      const reply = await revoke(first, `/tokens/${id}?${query}`);
      t.match(reply, { status: 422, json: { detail: /^wait must be "fleet"/ } }, query);
    }
    t.equal((await send(second.url, '/tokens/self', { headers })).status, 200);
    t.equal((await revoke(first, `/tokens/${id}?waits=x`)).status, 204, 'other parameters are ignored');
    t.equal((await revoke(first, `/tokens/${id}?wait=fleet`)).status, 404, 'nothing to wait for');
  });

  await t.test('streams of a suspended or narrowed token and of a locked user end at once', async (t) => {
    const limits = [{ suspended: true }, { addresses: ['192.0.2.1'] }];
    for (const change of limits) {
      const { id, headers } = await newToken(first);
      const streams = await openOn(t, all, headers);
      const Cookie = await first.login('superuser');
      const sent = { method: 'PATCH', headers: { Cookie, 'Content-Type': 'application/json' } };
      const unrelated = await send(second.url, `/tokens/${id}`, { ...sent, body: JSON.stringify({ rate: '600/1m' }) });
      t.equal(unrelated.status, 200);
      t.equal(streams.over(), 0, 'a limit that does not affect the streams');
      t.equal((await send(second.url, `/tokens/${id}`, { ...sent, body: JSON.stringify(change) })).status, 200);
      await until(() => streams.over() === streams.all, `streams end: ${JSON.stringify(change)}`);
    }
    const { json } = await first.create('engineer');
    const streams = await openOn(t, all, { 'Service-Key': json.access_token });
    const locked = await run(['user', 'lock', 'engineer@example.com', '--config', first.configFile]);
    t.equal(locked.code, 0);
    await until(() => streams.over() === streams.all, 'streams of a locked user end');
    await run(['user', 'unlock', 'engineer@example.com', '--config', first.configFile]);
  });

  await t.test('streams of a declared token end at once when the file suspends or narrows it', async (t) => {
    const generated = JSON.parse((await run(['token', 'generate', '--user', 'engineer', '--json'])).stdout);
    rememberSecret(generated.access_token);
    const headers = { 'Service-Key': generated.access_token as string };
    const apply = async (more: object) => {
      const file = join(first.folder, 'declared.yaml');
      writeFileSync(file, stringify({ ...(await directory()), tokens: [{ ...generated.entry, ...more }] }, { aliasDuplicateObjects: false }), { mode: 0o600 });
      t.match(await run(['apply', '--config', first.configFile, '-f', file]), { code: 0 });
    };
    for (const change of [{ suspended: true }, { addresses: ['192.0.2.1'] }, { scope: ['purge_all'] }]) {
      await apply({});
      for (const { url } of all) await until(async () => (await send(url, '/tokens/self', { headers })).status === 200, 'accepted');
      const streams = await openOn(t, all, headers);
      await apply(change);
      await until(() => streams.over() === streams.all, `streams end: ${JSON.stringify(change)}`);
    }
  });

  await t.test('latchkey fleet lists the sidecars', async (t) => {
    const { code, stdout } = await run(['fleet', '--json', '--config', first.configFile]);
    const listed = JSON.parse(stdout) as { sidecars: Record<string, unknown>[] };
    t.same(listed.sidecars.map(({ name }) => portOf(String(name))).toSorted(), all.map(({ url }) => portOf(url)).toSorted());
    t.match(listed.sidecars, all.map(() => ({ workers: 1, version: String, config_hash: /^[0-9a-f]{12}$/, started_at: String, heartbeat_age_ms: Number, lag_ms: Number })));
    t.equal(code, 0, 'a warning is not a failure: only the first applies a directory, and the third has another Redis URL');
    const text = await run(['fleet', '--config', first.configFile]);
    t.match(text.stdout, /^NAME +VERSION +CONFIG HASH +WORKERS +STARTED +HEARTBEAT AGE MS +LAG MS\n/);
    t.match(text.stderr, /run different configurations/);
    await until(async () => /^latchkey_fleet_sidecars 3$/m.test((await send(second.server.admin, '/metrics')).text), 'the metric');
    t.match((await send(second.server.admin, '/metrics')).text, /^latchkey_fleet_configurations 3$/m);
  });

  await t.test('names a sidecar that is stopped; it evicts the token when it continues', async (t) => {
    const { id, headers } = await newToken(first);
    const streams = await openOn(t, all, headers);
    process.kill(second.server.pid, 'SIGSTOP');
    t.teardown(() => process.kill(second.server.pid, 'SIGCONT'));
    const reply = await revoke(first, `/tokens/${id}?wait=fleet`);
    t.equal(reply.status, 202);
    t.match(reply.json, { sidecars: 3, slowest_ms: Number, missing: [{ heartbeat_age_ms: Number }] });
    t.same(namesOf(reply), [portOf(second.url)]);
    t.equal(streams.over(), 4, 'the others have ended theirs');
    process.kill(second.server.pid, 'SIGCONT');
    await until(() => streams.over() === streams.all, 'its streams end');
  });

  await t.test('names a sidecar that is cut off from Redis; it evicts the token when it reconnects', nightly, async (t) => {
    const { id, headers } = await newToken(first);
    const streams = await openOn(t, all, headers);
    link.refuse();
    const reply = await revoke(first, `/tokens/${id}?wait=fleet`);
    t.equal(reply.status, 202);
    t.same(namesOf(reply), [portOf(third.url)]);
    link.open();
    await until(() => streams.over() === streams.all, 'its streams end');
    const again = await newToken(first);
    await until(async () => (await send(third.url, '/tokens/self', { headers: again.headers })).status === 200, 'it serves again');
    t.equal((await revoke(first, `/tokens/${again.id}?wait=fleet`)).status, 200);
  });

  await t.test('does not wait for a sidecar that was shut down; names one that is killed during the wait', nightly, async (t) => {
    await third.server.stop('SIGTERM');
    const early = await newToken(first);
    t.match(await revoke(first, `/tokens/${early.id}?wait=fleet`), { status: 200, json: { sidecars: 2 } });
    const { id } = await newToken(first);
    process.kill(second.server.pid, 'SIGSTOP');
    const waiting = revoke(first, `/tokens/${id}?wait=fleet`);
    await second.server.stop('SIGKILL');
    const reply = await waiting;
    t.equal(reply.status, 202);
    t.same(namesOf(reply), [portOf(second.url)]);
    await matchLog(t, first.server, /"event":"token.revoked"/, 'every revocation is in the audit log');
  });
}); // prettier-ignore

t.test('two workers on the embedded store', nightly, async (t) => {
  const upstream = await startStreams(t);
  const fixture = await startFixture(t, { upstream, proxy, workers: 2 });
  const { server } = fixture;

  await t.test('count as one sidecar, and both end their streams', async (t) => {
    const { id, headers } = await newToken(fixture);
    // Connections are distributed over the workers.
    const streams = await openOn(t, Array.from({ length: 6 }, () => fixture), headers);
    const reply = await revoke(fixture, `/tokens/${id}?wait=fleet`);
    t.same([reply.status, reply.json], [200, { sidecars: 1, slowest_ms: reply.json.slowest_ms }]);
    await until(() => streams.over() === streams.all, 'streams end');
  }); // prettier-ignore

  await t.test('a revocation on the command line ends streams', async (t) => {
    const { id, headers } = await newToken(fixture);
    const streams = await openOn(t, Array.from({ length: 4 }, () => fixture), headers);
    t.equal((await run(['token', 'suspend', id, '--config', fixture.configFile])).code, 0);
    await until(() => streams.over() === streams.all, 'suspended');
    const { code, stdout } = await run(['fleet', '--json', '--config', fixture.configFile]);
    t.match(JSON.parse(stdout), { sidecars: [{ workers: 2, lag_ms: 0 }] });
    t.equal(code, 0, 'a single configuration');
  }); // prettier-ignore

  await t.test('does not wait for a worker that died', async (t) => {
    const worker = workerOf(server.pid);
    process.kill(worker, 'SIGKILL');
    await until(() => server.stdout().includes('"msg":"worker died"'), 'the worker died');
    const { id } = await newToken(fixture);
    t.match(await revoke(fixture, `/tokens/${id}?wait=fleet`), { status: 200, json: { sidecars: 1 } });
  });
});

t.test('two sidecars on one embedded store', nightly, async (t) => {
  const upstream = await startStreams(t);
  const path = join(temporaryFolder(t), 'store');
  const settings = { upstream, proxy, store: { type: 'lmdb', path } };
  const first = await startFixture(t, settings);
  const server = await start(t, writeConfig(temporaryFolder(t), settings), { isolated: true });
  const second = client(server.url);
  const before = await newToken(first);
  const streams = await openOn(t, [first, second], before.headers);
  const reply = await revoke(first, `/tokens/${before.id}?wait=fleet`);
  t.match(reply, { status: 200, json: { sidecars: 2, slowest_ms: Number } });
  await until(() => streams.over() === streams.all, 'streams end');
  const { id, headers } = await newToken(first);
  const last = await openOn(t, [first, second], headers);
  process.kill(server.pid, 'SIGSTOP');
  t.teardown(() => process.kill(server.pid, 'SIGCONT'));
  const waited = await revoke(first, `/tokens/${id}?wait=fleet`);
  t.equal(waited.status, 202);
  t.same(namesOf(waited), [portOf(server.url)]);
  process.kill(server.pid, 'SIGCONT');
  await until(() => last.over() === last.all, 'its streams end when it continues');
});
