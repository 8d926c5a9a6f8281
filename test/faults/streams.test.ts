import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { send, serveHttp } from '../helpers/http.js';
import { startRedis } from '../helpers/redis.js';
import { openBoth, startStreams } from '../helpers/streams.js';
import { until } from '../helpers/until.js';

/** The stream_recheck set here, and the additional time that the machine may need. */
const BOUND_MS = 1_000;
const SLACK_MS = 4_000;

t.test('streams end when their credential becomes invalid', async (t) => {
  const upstream = await startStreams(t);
  const { url, server, token, login } = await startFixture(t, {
    upstream,
    proxy: { stream_recheck: `${BOUND_MS}ms` },
    audit: { to: 'audit.jsonl' },
  });
  const lasting = openBoth(url, { 'Service-Key': await token('engineer') });
  t.teardown(lasting.end);
  const revoked = await token('superuser');
  const session = await login('billing');
  const revokes = async () => ({ 'Service-Key': revoked });
  let expiresAt = 0;
  const expires = async () => {
    expiresAt = Date.now() + 5_000;
    return { 'Service-Key': await token('superuser', { expires_at: new Date(expiresAt).toISOString() }) };
  };
  const cases: [string, () => Promise<Record<string, string>>, () => Promise<unknown>][] = [
    [
      'a revoked token',
      revokes,
      () => send(url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': revoked } }),
    ],
    [
      'an expired token',
      expires,
      () => sleep(Math.max(0, expiresAt - 1_000 - Date.now())),
    ],
    ['an ended session', async () => ({ Cookie: session }), () => send(url, '/logout', { method: 'POST', headers: { Cookie: session } })],
  ];
  for (const [name, headers, end] of cases) {
    const opened = openBoth(url, await headers());
    await until(() => opened.open() === 2, `${name}: both are open`);
    t.equal(opened.over(), 0, `${name}: both are still open`);
    await end();
    const endedAt = Date.now();
    const events = await opened.events;
    await opened.tunnel;
    t.ok(Date.now() - endedAt < 1_000 + BOUND_MS + SLACK_MS, name);
    t.notOk(events.whole, `${name}: the client sees an error`);
  }
  t.equal(lasting.over(), 0, 'another one stays open');
  const { text } = await send(server.admin, '/metrics');
  t.match(text, /^latchkey_requests_total\{route="\/",outcome="ended_by_recheck",status_class="2xx"\} 3$/m);
}); // prettier-ignore

t.test('requests without a response when their credential becomes invalid', async (t) => {
  const methods: string[] = [];
  const upstream = await serveHttp(t, (req) => void methods.push(req.method ?? ''));
  const { url, server, token } = await startFixture(t, { upstream: upstream.url });
  const key = { 'Service-Key': await token('superuser') };
  const paths = ['/1', '/2'];
  const reads = paths.map((path) => send(url, path, { headers: key }));
  const writes = paths.map((path) => send(url, path, { method: 'POST', headers: key, body: 'x' }));
  const broken = writes.map((write) =>
    t.rejects(write, { message: 'socket hang up' }, 'it may have been executed'),
  );
  await until(() => methods.length === 4, 'the upstream has all of them');
  t.equal((await send(url, '/tokens/self', { method: 'DELETE', headers: key })).status, 204);
  const after = await send(url, '/1', { headers: key });
  for (const { status, headers, text } of await Promise.all(reads)) {
    t.match(
      { status, headers, text },
      { status: 401, headers: { 'www-authenticate': /^Basic realm/ }, text: after.text },
    );
  }
  await Promise.all(broken);
  const { text } = await send(server.admin, '/metrics');
  t.match(text, /outcome="unauthenticated",status_class="4xx"\} 3$/m);
  t.match(text, /outcome="ended_by_recheck",status_class="none"\} 2$/m);
});

t.test('a restricted policy ends streams that it no longer allows', async (t) => {
  const upstream = await startStreams(t);
  const { url, server, token, configFile } = await startFixture(t, {
    upstream,
    proxy: { stream_recheck: `${BOUND_MS}ms` },
  });
  const headers = { 'Service-Key': await token('engineer') };
  const text = readFileSync(configFile, 'utf8');
  const reload = async (routes: string) => {
    writeFileSync(configFile, `${text}routes:\n${routes}`);
    t.equal((await send(server.admin, '/-/reload', { method: 'POST' })).status, 200);
    return Date.now();
  };
  const publicRoute = '  - { path: "/public/*", auth: none }\n';
  await reload(publicRoute);
  const opened = openBoth(url, headers);
  const anonymous = openBoth(`${url}/public`, {});
  t.teardown(anonymous.end);
  await until(() => opened.open() + anonymous.open() === 4, 'all are open');
  const closed = '  - { path: "/*", auth: deny }\n';
  const narrowedAt = await reload(`${publicRoute}${closed}`);
  await Promise.all([opened.events, opened.tunnel]);
  t.ok(Date.now() - narrowedAt < BOUND_MS + SLACK_MS);
  t.equal(anonymous.over(), 0, 'those that are still allowed stay open');
  await reload(closed);
  await until(() => anonymous.over() === 2, 'streams that began without a credential');
});

t.test('an unavailable store ends streams only if it was unavailable for the whole interval', async (t) => {
  const upstream = await startStreams(t);
  const redis = await startRedis(t);
  const { url, token } = await startFixture(t, {
    upstream,
    store: { type: 'redis', url: redis.url, sealing_key: '00'.repeat(32), command_timeout: '250ms' },
    cache: { size: 0 },
    proxy: { stream_recheck: '6s' },
  });
  const opened = openBoth(url, { 'Service-Key': await token('superuser') });
  await until(() => opened.open() === 2, 'both are open');
  redis.signal('SIGSTOP');
  // It is unavailable at the recheck, after half of the interval, and available before the end.
  await sleep(4_000);
  redis.signal('SIGCONT');
  await sleep(4_000);
  t.equal(opened.over(), 0, 'a short outage ends nothing');
  redis.signal('SIGSTOP');
  const stoppedAt = Date.now();
  await Promise.all([opened.events, opened.tunnel]);
  t.ok(Date.now() - stoppedAt < 6_000 + SLACK_MS, 'a long one does');
  redis.signal('SIGCONT');
});
