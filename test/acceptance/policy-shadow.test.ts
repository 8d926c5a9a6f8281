import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { parse, stringify } from 'yaml';
import { selfSigned } from '../helpers/certificates.js';
import { entrancesOf } from '../helpers/entrances.js';
import { client, directory } from '../helpers/fixture.js';
import { send, startUpstream } from '../helpers/http.js';
import { openHttp2 } from '../helpers/http2.js';
import { run, start, temporaryFolder, workerOf, workersOf, writeConfig } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

/** One server with two workers, whose shadow policy differs from its policy in known ways. */
const LIVE = {
  policy: { roles: { superuser: { allow: ['*'] }, engineer: { allow: ['*'] }, billing: {}, user: {} } },
  routes: [
    { path: '/billing/*', action: 'billing' },
    { path: '/closing', auth: 'none' },
    { path: '/same', action: 'api' },
  ],
  default_route: { auth: 'deny' },
};
const NEXT = {
  policy: { roles: { superuser: { allow: ['*'] }, engineer: { allow: ['*'], deny: ['billing:*'] } } },
  routes: [
    { path: '/billing/*', action: 'billing' },
    { path: '/closing', action: 'api' },
    { path: '/same', action: 'api' },
    { path: '/new', action: 'api' },
  ],
};

const folder = temporaryFolder(t);
const upstream = await startUpstream(t);
const shadowFile = join(folder, 'next-policy.yaml');
writeFileSync(shadowFile, stringify(NEXT));
const config = {
  upstream: upstream.url,
  workers: 2,
  listen: { host: '127.0.0.1', port: 0, tls: selfSigned(folder, 'localhost') },
  decision: { host: '127.0.0.1', port: 0, grpc: { port: 0 } },
  audit: { to: './audit.jsonl' },
  policy_shadow: './next-policy.yaml',
};
const configFile = writeConfig(folder, { ...config, ...LIVE }, await directory());
const server = await start(t, configFile);
const { url, create } = client(server.url);
const http2 = await openHttp2(t, server.url);
const entrances = Object.entries(entrancesOf(server, http2));
const token = (await create('engineer')).json as { id: string; access_token: string };
const headers = { 'Service-Key': token.access_token };

const report = async () => (await send(server.admin, '/-/shadow')).json;
/** Returns a report once it is as wanted: a busy worker may be missing in one. */
const reported = async (wanted: object) => {
  await until(async () => isDeepStrictEqual(await report(), wanted), 'this report').catch(() => undefined);
  return report();
};
const decisions = async () => {
  const { text } = await send(server.admin, '/metrics');
  const found = text.matchAll(/^latchkey_shadow_decisions_total\{route="(.*?)",change="(.*?)"\} ([1-9]\d*)$/gm);
  return Object.fromEntries([...found].map(([, route, change, count]) => [`${route} ${change}`, Number(count)]));
}; // prettier-ignore
const rewrite = (more: object) => {
  const before = parse(readFileSync(configFile, 'utf8')) as object;
  writeFileSync(configFile, stringify({ ...before, ...more }));
};
const reload = () => send(server.admin, '/-/reload', { method: 'POST' });
const audited = () => readFileSync(join(folder, 'audit.jsonl'), 'utf8').trim().split('\n').length;

t.test('every entrance evaluates both policies and answers by one', async (t) => {
  const asked = [
    { path: '/billing/a', headers: { ...headers, 'User-Agent': `teller lk${'A'.repeat(38)}` } },
    { path: '/closing', headers: { 'User-Agent': 'probe/1' } },
    { path: '/new', headers },
    { path: '/same', headers },
    { path: '/nowhere', headers },
    { path: '/billing/a', headers: { 'Service-Key': 'lk0000000000000000000000000000000000000' } },
  ];
  const before = audited();
  const statuses: Record<string, number[]> = {};
  for (const [name, ask] of entrances)
    for (const each of asked)
      (statuses[name] ??= []).push(
        await ask({ method: 'GET', ...each }).then(
          ({ status }) => status,
          () => 0,
        ),
      );
  t.same(statuses['HTTP/1.1'], [200, 200, 404, 200, 404, 401], 'the live policy decides');
  t.same(statuses['HTTP/2'], statuses['HTTP/1.1']);
  t.same(statuses['forward-auth'], [200, 200, 403, 200, 403, 401]);
  t.equal(audited(), before, 'no additional audit entries');

  await until(async () => (await report()).requests.compared >= asked.length * entrances.length, 'all count');
  const count = entrances.length;
  t.same(await decisions(), {
    '/billing/* would_refuse': count,
    '/closing would_refuse': count,
    '/ would_allow': count,
  });
  const caller = { credential: 'token', token_id: token.id, user_id: 'engineer', customer_id: 'C1' };
  const { casualties, ...rest } = await report();
  t.match(rest, {
    policy_shadow: shadowFile,
    is_same: false,
    requests: { not_compared: 0, would_refuse: 2 * count, would_allow: count },
  });
  const byRoute = (route: string) =>
    casualties.find((each: { live: { route: string } }) => each.live.route === route);
  t.equal(casualties.length, 3, 'one entry for both workers');
  t.match(byRoute('/billing/*'), {
    ...caller,
    change: 'would_refuse',
    count,
    live: { outcome: 'allowed', action: 'billing:read', rule: /^policy\.roles\.engineer\.allow\.0, line \d+$/ },
    shadow: {
      outcome: 'role',
      route: '/billing/*',
      action: 'billing:read',
      rule: 'policy.roles.engineer.deny.0, line 10',
    },
    user_agent: /^teller lk\*+$/,
  }); // prettier-ignore
  t.match(byRoute('/closing'), {
    credential: null,
    token_id: null,
    count,
    live: { outcome: 'allowed', rule: /^routes\.1, line/ },
    shadow: { outcome: 'unauthenticated', rule: /^routes\.1, line/ },
    user_agent: 'probe/1',
  });
  t.match(byRoute('/'), {
    ...caller,
    change: 'would_allow',
    live: { outcome: 'not_found', rule: /^default_route, line/ },
    shadow: { outcome: 'allowed', route: '/new', action: 'api:read' },
  });
});

t.test('replacing a worker and reloading other settings lose no count', async (t) => {
  const before = await report();
  const ending = workerOf(server.pid);
  process.kill(ending, 'SIGTERM');
  await until(() => !workersOf(server.pid).includes(ending), 'it exits');
  await until(() => workersOf(server.pid).length === 2, 'another one starts');
  rewrite({ log: { requests: 'all' } });
  t.equal((await reload()).status, 200);
  t.same(await reported(before), before);
});

t.test('refuses a shadow policy with errors like any other', async (t) => {
  const before = await report();
  const faulty: [string, RegExp][] = [
    [stringify({ ...NEXT, rotes: [] }), /next-policy\.yaml:\d+:1: unknown key "rotes" \(did you mean "routes"\?\)/],
    ['routes:\n  - { path: /a, action: api, upstream: nobody }\n', /next-policy\.yaml:2:\d+: routes\.0\.upstream: no upstream has this name/],
    ['policy: { roles: { engineer: { deny: ["biling:*"] } } }\n', /next-policy\.yaml:1:\d+: .*did you mean "billing:\*"/],
    ['{}', /next-policy\.yaml:1:1: expected policy, routes or default_route/],
  ]; // prettier-ignore
  for (const [text, message] of faulty) {
    writeFileSync(shadowFile, text);
    const { stderr, code } = await run(['check', '--config', configFile]);
    t.equal(code, 1);
    t.match(stderr, message);
    const refused = await reload();
    t.equal(refused.status, 422);
    t.match(refused.json.faults.join('\n'), message);
  }
  rmSync(shadowFile);
  t.match((await reload()).json, { faults: [/latchkey\.yaml:\d+:16: policy_shadow: file not found/] });
  t.same(await reported(before), before, 'the active one is kept');

  writeFileSync(shadowFile, stringify(NEXT));
  t.match(await run(['check', '--config', configFile]), { code: 0, stdout: /latchkey\.yaml: ok/ });
});

t.test('reloads a changed file by itself, and resets the counts', async (t) => {
  const before = await report();
  await reload();
  writeFileSync(shadowFile, stringify({ ...NEXT, default_route: { auth: 'deny' } }));
  await until(async () => (await report()).shadow_policy === before.shadow_policy, 'same rules');
  writeFileSync(shadowFile, stringify({ ...NEXT, default_route: { action: 'api' } }));
  await until(async () => (await report()).shadow_policy !== before.shadow_policy, 'other rules');
  t.match(await report(), { requests: { compared: 0, would_refuse: 0 }, casualties: [] });
  await send(url, '/nowhere', { headers });
  await until(async () => (await report()).requests.would_allow === 1, 'evaluated by the new one');
});

t.test('after promotion by one reload, both are the same and there are no casualties', async (t) => {
  const before = await decisions();
  writeFileSync(shadowFile, stringify(NEXT));
  rewrite(NEXT);
  t.match((await reload()).json, { faults: [/no role has this name/, /no role has this name/] });
  const { engineer, superuser } = NEXT.policy.roles;
  const promoted = { ...NEXT, policy: { roles: { engineer, superuser, billing: {}, user: {} } } };
  writeFileSync(shadowFile, stringify(promoted));
  rewrite(promoted);
  t.same((await reload()).json, { reloaded: true, needs_restart: [] });
  t.match(await report(), {
    is_same: true,
    requests: { compared: 0, would_refuse: 0, would_allow: 0 },
    casualties: [],
  });
  for (const [path, status] of [['/billing/a', 403], ['/new', 200], ['/same', 200], ['/nowhere', 404]] as const)
    t.equal((await send(url, path, { headers })).status, status, `${path} as predicted`);
  t.equal((await send(url, '/closing')).status, 401);
  t.match(await report(), { casualties: [], requests: { compared: 0 } });
  t.same(await decisions(), before, 'counters are kept');

  rewrite({ policy_shadow: null });
  t.equal((await reload()).status, 200);
  t.same(await report(), { policy_shadow: null });
}); // prettier-ignore
