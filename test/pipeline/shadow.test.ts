import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { stringify } from 'yaml';
import { withShadow } from '../../src/config/load.js';
import type { Verdict } from '../../src/gate/gate.js';
import type { RequestHead } from '../../src/http/head.js';
import {
  describeDifferences,
  mergeDifferences,
  Shadow,
  ShadowDifferences,
} from '../../src/pipeline/shadow.js';
import type { Services } from '../../src/pipeline/services.js';
import { createLog } from '../../src/observe/log.js';
import { createRuntime } from '../../src/server/runtime.js';
import type { OpenedStore } from '../../src/server/stores/open-store.js';
import { LEGACY_KEY } from '../helpers/fixture.js';
import { startInProcess } from '../helpers/in-process.js';
import { temporaryFolder } from '../helpers/latchkey.js';

const LIVE = {
  policy: {
    roles: {
      superuser: { allow: ['*'] },
      engineer: { allow: ['*'], deny: ['billing:*'] },
      billing: { allow: ['*:read', 'billing:*'] },
      user: { allow: ['*:read'], deny: ['token:*'] },
    },
  },
  routes: [
    { path: '/service/:service_id', action: 'service', service: 'service_id' },
    { path: '/by-header', action: 'service', service: 'header:X-Service' },
    { path: '/billing/*', action: 'billing' },
    { path: '/open', auth: 'none' },
    { path: '/closing', auth: 'none' },
    { path: '/opening', action: 'api' },
    { path: '/hidden', auth: 'deny' },
    { path: '/dropped', action: 'api' },
    { path: '/search', action: 'api' },
    { path: '/worker.js', action: 'api', service_worker: 'allow' },
    { path: '/user/:user_id', methods: ['DELETE'], action: 'user' },
    { path: '/member/:user_id', methods: ['DELETE'], action: 'user', refuse_if_active_tokens: 'user_id' },
  ],
  default_route: { auth: 'deny' },
};

/**
 * Differs from the running policy wherever it can: roles, scopes, services, and each part of a
 * route.
 */
const NEXT = {
  policy: {
    roles: {
      superuser: { allow: ['*'], deny: ['customer_token:*'] },
      engineer: { allow: ['*:read', 'service:*'] },
      user: { allow: ['*'] },
    },
    scopes: {
      global: { allow: ['*'] },
      'global:read': { allow: ['service:read', 'token:read'] },
      purge_all: { allow: ['purge:*', 'api:read'] },
    },
    service_limited: { deny: ['service:write'] },
  },
  routes: [
    { path: '/service/:service_id', action: 'service' },
    { path: '/by-header', action: 'service', service: 'header:X-Other' },
    { path: '/billing/*', action: 'service' },
    { path: '/open', auth: 'none' },
    { path: '/closing', action: 'api' },
    { path: '/opening', auth: 'none' },
    { path: '/hidden', action: 'api' },
    { path: '/dropped', auth: 'deny' },
    { path: '/search', action: 'api', body_on_read: 'allow' },
    { path: '/worker.js', action: 'api' },
    { path: '/new', action: 'purge:all' },
    { path: '/user/:user_id', methods: ['DELETE'], action: 'user', refuse_if_active_tokens: 'user_id' },
    { path: '/member/:user_id', methods: ['DELETE'], action: 'user' },
  ],
  default_route: { auth: 'deny' },
};

/** Counts calls of the store's methods. */
function counted(store: OpenedStore['store']) {
  const calls = { count: 0 };
  const watch = (part: object): object =>
    new Proxy(part, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return typeof value === 'object' && value !== null ? watch(value) : value;
        return (...args: unknown[]): unknown => {
          calls.count += 1;
          return Reflect.apply(value, target, args) as unknown;
        };
      },
    });
  return { calls, store: watch(store) as OpenedStore['store'] };
} // prettier-ignore

interface Judged {
  readonly head: RequestHead;
  readonly live: Verdict;
  /** Store calls during the shadow evaluation, up to its first wait. */
  readonly calls: number;
}

async function startShadowed(test: Test, live: object, next: object) {
  const file = join(temporaryFolder(test), 'next-policy.yaml');
  writeFileSync(file, stringify(next));
  const judged: Judged[] = [];
  let calls = { count: 0 };
  const server = await startInProcess(
    test,
    { ...live, policy_shadow: file },
    {
      opened: (found) => {
        const watched = counted(found.store);
        ({ calls } = watched);
        return { store: watched.store };
      },
      services: ({ shadow }: Services) => ({
        shadow: shadow && {
          compare: (head, verdict, id) => {
            const before = calls.count;
            shadow.compare(head, verdict, id);
            judged.push({ head, live: verdict, calls: calls.count - before });
          },
        },
      }),
    },
  );
  return { ...server, judged, file };
}

/** By then, the embedded store has responded. */
const settled = () => new Promise((done) => setImmediate(done));

t.test('the shadow policy predicts what the gate decides once it is in effect', async (t) => {
  const { request, token, login, create, shadow, judged, loaded, opened } = await startShadowed(
    t,
    LIVE,
    NEXT,
  );
  const promoted = withShadow(loaded);
  if (promoted === null) throw new Error('there is no shadow policy');
  const after = createRuntime(
    { ...loaded, ...promoted, shadow: null },
    opened,
    createLog({ level: 'fatal', levelFormat: 'number', configHash: 'none' }).log,
    undefined,
    undefined,
    () => ({ html: {} as never, assets: new Map() }),
  );
  t.teardown(() => after.close());
  const { gate } = after.services;

  const own = await create('engineer');
  const callers: Record<string, Record<string, string>> = {
    nobody: {},
    'an unknown key': { 'Service-Key': 'lk00000000000000000000000000000000000000' },
    'a legacy key': { 'Service-Key': LEGACY_KEY },
    'a session': { Cookie: await login('engineer'), Origin: 'https://elsewhere.example' },
    'a session of billing, a removed role': { Cookie: await login('billing') },
    'a session of superuser': { Cookie: await login('superuser') },
    superuser: { 'Service-Key': await token('superuser') },
    engineer: { 'Service-Key': own.json.access_token as string },
    user: { 'Service-Key': await token('user') },
    'global:read': { 'Service-Key': await token('superuser', { scope: 'global:read' }) },
    purge_all: { 'Service-Key': await token('superuser', { scope: 'purge_all' }) },
    'limited to SVC1': { 'Service-Key': await token('superuser', { 'services[]': 'SVC1' }) },
    'with another origin': { 'Service-Key': await token('superuser', { addresses: '192.0.2.0/24' }) },
  };
  const paths = [
    '/service/SVC1', '/service/SVC2', '/by-header', '/billing/a', '/open', '/closing', '/opening', '/hidden', '/dropped',
    '/search', '/worker.js', '/new', '/new%2f', '/nowhere', '/user/engineer', '/user/nobody', '/member/engineer',
    `/tokens/${own.json.id}`, '/tokens/self', '/tokens/unknown', '/tokens/customer/C1', '/tokens', '/login',
  ]; // prettier-ignore
  const seen = new Map<string, number>();
  for (const [caller, headers] of Object.entries(callers)) {
    for (const path of paths) {
      for (const method of ['GET', 'PUT', 'DELETE']) {
        // Changes that a built-in endpoint makes to tokens are out of scope.
        if (method === 'DELETE' && path.startsWith('/tokens') && path !== '/tokens/unknown') continue;
        const before = changesOf(shadow());
        judged.length = 0;
        const extra = {
          ...(path === '/worker.js' ? { 'Service-Worker': 'script', 'Sec-Fetch-Dest': 'serviceworker' } : {}),
          ...(path === '/search' && method === 'GET' ? { 'Content-Length': '0' } : {}),
          'X-Service': 'SVC1',
          'X-Other': 'SVC2',
        };
        await request(path, { method, headers: { ...headers, ...extra } });
        await settled();
        const what = `${method} ${path} as ${caller}`;
        const [first] = judged;
        if (first === undefined || judged.length > 1) {
          t.fail(`${what}: judged ${judged.length} times`);
          continue;
        }
        const { live } = first;
        const then = await gate.evaluate(first.head, Date.now());
        const expected =
          (live.refusal === undefined) === (then.refusal === undefined)
            ? 'none'
            : then.refusal === undefined
              ? 'would_allow'
              : 'would_refuse';
        const now = changesOf(shadow());
        const changed = Object.entries(now).filter(
          ([name, count]) => count !== before[name as keyof typeof before],
        );
        const got = changed.map(([name]) => name).join();
        if (got !== (expected === 'none' ? 'compared' : `compared,${expected}`))
          t.fail(
            `${what}: ${got}, expected ${expected}: ${live.refusal?.refusal} then ${then.refusal?.refusal}`,
          );
        if (
          live.subject !== null &&
          first.calls > (live.guarded === undefined && path.startsWith('/user/') ? 1 : 0)
        )
          t.fail(`${what}: asks the store ${first.calls} times for what is known`);
        const key = `${expected}: ${live.refusal?.refusal ?? 'allowed'}, ${then.refusal?.refusal ?? 'allowed'}`;
        seen.set(key, (seen.get(key) ?? 0) + 1);
      }
    }
  }
  for (const each of [
    'would_allow: not_found, allowed', 'would_allow: role, allowed', 'would_allow: scope, allowed', 'would_allow: service, allowed',
    'would_allow: unauthenticated, allowed', 'would_allow: address, allowed', 'would_allow: active_tokens, allowed', 'would_allow: cross_origin, allowed',
    'would_refuse: allowed, role', 'would_refuse: allowed, scope', 'would_refuse: allowed, service', 'would_refuse: allowed, service_limited',
    'would_refuse: allowed, not_found', 'would_refuse: allowed, unauthenticated', 'would_refuse: allowed, active_tokens', 'would_refuse: allowed, service_worker',
  ]) t.ok(seen.has(each), each); // prettier-ignore
  const report = shadow();
  if (!('casualties' in report)) throw new Error('no casualties');
  const { would_refuse: refused, would_allow: allowed } = report.requests;
  t.equal(
    report.casualties.reduce((sum, { count }) => sum + count, 0),
    refused + allowed,
    'each is in the list',
  );
  t.notMatch(JSON.stringify(report), /lk[0-9A-Za-z]{20}/);
});

function changesOf(report: object) {
  const { requests } = report as ReturnType<typeof describeDifferences>;
  const { compared, would_refuse, would_allow } = requests;
  return { compared, would_refuse, would_allow };
}

t.test('the report has one order, whichever process counted a difference', async (t) => {
  const live: Verdict = { refusal: { refusal: 'unauthenticated' }, route: null, action: null, subject: null, decision: null };
  const counted = (paths: string[]) => {
    const differences = new ShadowDifferences('1');
    for (const path of paths) {
      const shadow = { route: { path, endpoint: null, position: null }, path, action: null, subject: null, decision: null } as unknown as Verdict;
      const evaluator = new Shadow({ evaluate: () => shadow }, differences, (error) => t.error(error));
      evaluator.compare({ userAgent: undefined } as RequestHead, live, 'r1');
    }
    return differences.counts();
  };
  const processes = [counted(['/b', '/a', '/c', '/c']), counted(['/a', '/b']), counted(['/d'])];
  const orderOf = (some: typeof processes) => describeDifferences(mergeDifferences(some, '1')).casualties.map(({ shadow, count }) => `${shadow.route} ${count}`);
  const expected = orderOf(processes);
  t.same(expected.toSorted(), ['/a 2', '/b 2', '/c 2', '/d 1']);
  t.equal(expected.at(-1), '/d 1');
  for (const others of [processes.toReversed(), [...processes.slice(1), ...processes.slice(0, 1)]]) t.same(orderOf(others), expected);
}); // prettier-ignore

t.test('the response stays the same, whatever the shadow policy does', async (t) => {
  const head = { userAgent: undefined } as RequestHead;
  const live: Verdict = { refusal: { refusal: 'unauthenticated' }, route: null, action: null, subject: null, decision: null };
  const allowed = { route: { path: '/a', endpoint: null, position: null }, path: '/a', action: null, subject: null, decision: null } as unknown as Verdict;
  const faults: unknown[] = [];
  const begin = (evaluate: (mayAsk: boolean) => Verdict | Promise<Verdict>) => {
    const casualties = new ShadowDifferences('1');
    const shadow = new Shadow({ evaluate: (_head, _live, mayAsk) => evaluate(mayAsk) }, casualties, (error) => faults.push(error));
    return { judge: () => shadow.compare(head, live, 'r1'), told: () => describeDifferences(casualties.counts()) };
  };
  const throwing = begin(() => {
    throw new Error('thrown');
  });
  throwing.judge();
  t.match(throwing.told(), { requests: { compared: 0, not_compared: 1 } });
  const rejecting = begin(async () => Promise.reject(new Error('rejected')));
  rejecting.judge();
  await settled();
  t.match(rejecting.told(), { requests: { compared: 0, not_compared: 1 } });
  t.match(faults, [{ message: 'thrown' }, { message: 'rejected' }], 'each is logged');

  const answers: (() => void)[] = [];
  const asked: boolean[] = [];
  const slow = begin((mayAsk) => {
    asked.push(mayAsk);
    return new Promise((resolve) => answers.push(() => resolve(allowed)));
  });
  for (let i = 0; i < 102; i++) slow.judge();
  t.same([asked.indexOf(false), asked.lastIndexOf(true)], [100, 99], 'at most a hundred wait');
  answers.forEach((answer) => answer());
  await settled();
  slow.judge();
  t.equal(asked.at(-1), true, 'then others may');
  t.match(slow.told(), { requests: { compared: 102, would_allow: 102 } });
}); // prettier-ignore

t.test('the limits for writes and tokens apply under both policies', async (t) => {
  const server = await startShadowed(
    t,
    { routes: [{ path: '/a', action: 'api' }, { path: '/b', action: 'api' }], rate_limit: { writes_per_hour: 1 } },
    { routes: [{ path: '/a', action: 'api' }, { path: '/b', auth: 'none' }] },
  );
  const { request, token, shadow } = server;
  const spent = { 'Service-Key': await token('superuser', { rate: '3/1d' }) };
  const outcomes: (number | string)[] = [];
  for (const path of ['/a', '/a', '/b', '/a', '/b']) {
    const before = changesOf(shadow());
    const { status } = await request(path, { method: 'PUT', headers: spent });
    const now = changesOf(shadow());
    outcomes.push(status, now.would_allow - before.would_allow, now.would_refuse - before.would_refuse);
  }
  t.same(outcomes, [200, 0, 0, 429, 0, 0, 429, 1, 0, 429, 0, 0, 429, 1, 0], 'only a request without a credential has no limits');
  const { log } = await request('/a', { headers: spent });
  t.match(log.at(-1), { outcome: 'token_rate' }, "the last ones, by the token's rate limit");
}); // prettier-ignore

t.test('reports callers and user agents without secrets, bounded and printable', async (t) => {
  const { request, login, token, shadow } = await startShadowed(
    t,
    { routes: [{ path: '/a', action: 'api' }] },
    { routes: [{ path: '/a', auth: 'deny' }] },
  );
  const fake = `lk${'A'.repeat(38)}`;
  await request('/a', { headers: { Cookie: await login('engineer'), 'User-Agent': `${'x'.repeat(190)}${fake}` } });
  await request('/a', { headers: { Cookie: await login('engineer'), 'User-Agent': 'first\u0085' } });
  await request('/a', { headers: { 'Service-Key': LEGACY_KEY, 'User-Agent': 'y'.repeat(5_000) } });
  await request('/a', { headers: { 'Service-Key': await token('user') } });
  await request('/a', { headers: { Cookie: await login('engineer') } });
  const report = shadow();
  if (!('casualties' in report)) throw new Error('no casualties');
  t.equal(report.casualties[0]?.count, 3, 'most frequent first');
  const byCredential = report.casualties.toSorted((a, b) => String(a.credential).localeCompare(String(b.credential)));
  t.match(byCredential, [
    { credential: 'legacy_key', token_id: /./, count: 1, user_agent: 'y'.repeat(200) },
    { credential: 'session', user_id: 'engineer', token_id: null, count: 3, user_agent: 'first\\u0085' },
    { credential: 'token', user_id: 'user', token_id: /./, count: 1, user_agent: null },
  ]);
  t.notMatch(JSON.stringify(report), /AAAA/);
}); // prettier-ignore

t.test('does not compare what an entrance refuses by its own rules', async (t) => {
  const rule = { policy: { roles: { superuser: { allow: ['*'] }, billing: {}, engineer: {}, user: {} } } };
  const next = { policy: { roles: { superuser: { allow: ['api:*'] }, billing: {}, engineer: {}, user: {} } } };
  const live = { ...rule, interface: { token_endpoints: 'session_or_token' } };
  const { request, decide, token, shadow } = await startShadowed(t, live, next);
  const headers = { 'Service-Key': await token('superuser') };
  const before = changesOf(shadow());
  const asked = { ...headers, 'X-Original-Method': 'GET', 'X-Original-URI': '/tokens' };
  const refused = await decide('/auth-request', { headers: asked });
  t.match([refused.status, refused.log.at(-1)], [403, { outcome: 'own_endpoint' }]);
  t.same(changesOf(shadow()), before, 'a proxy may not forward it under any policy');
  t.equal((await request('/tokens', { headers })).status, 200);
  t.match(changesOf(shadow()), { would_refuse: before.would_refuse + 1 });
}); // prettier-ignore
