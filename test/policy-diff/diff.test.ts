import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { stringify } from 'yaml';
import { loadCandidate, loadConfig } from '../../src/config/load.js';
import type { ConfigError } from '../../src/config/fault.js';
import { diffPolicies } from '../../src/policy-diff/compare.js';
import { uncomparedKeys } from '../../src/policy-diff/uncompared.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { EVERY_CASE } from '../helpers/nightly.js';

const folder = temporaryFolder(t);
let count = 0;

function write(content: object): string {
  const file = join(folder, `${(count += 1)}.yaml`);
  writeFileSync(file, stringify(content));
  return file;
}

const upstream = 'http://127.0.0.1:1';
const policy = {
  roles: { admin: { allow: ['*'] }, reader: { allow: ['*:read'] } },
  scopes: { global: { allow: ['*'] }, small: { allow: ['a:read'] } },
};

/** Compares two configurations. */
async function diff(running: object, against: object) {
  const loaded = loadConfig(write({ upstream, ...running }), {});
  const candidate = loadCandidate(write(against), loaded, {});
  return { ...(await diffPolicies(loaded, candidate)).diff, file: candidate.loaded.file };
}

t.test('a role that gains actions: who, where, and by which rules', async (t) => {
  const wider = { ...policy, roles: { ...policy.roles, reader: { allow: ['*:read', 'a:write'] } } };
  const routes = [{ path: '/a/:id', action: 'a' }];
  const { newly_allowed, newly_refused, file } = await diff(
    { policy, routes },
    { upstream, policy: wider, routes },
  );
  t.same(newly_refused, []);
  t.equal(newly_allowed.length, 1);
  t.match(newly_allowed[0], {
    everybody: false,
    roles: ['reader'],
    sessions: true,
    scopes: ['global'],
    service_limits: ['none', 'any'],
    conditions: [],
    rule: { check: 'role', text: 'no pattern allows it', path: 'policy.roles.reader' },
    against_rule: { check: 'role', text: 'allowed by "a:write"', path: 'policy.roles.reader.allow.1', file },
    routes: [
      { examples: { POST: '/a/any2', PURGE: '/a/any2' }, config: { path: '/a/:id', action: 'a:write' } },
    ],
  });
  t.type(newly_allowed[0]?.against_rule.line, 'number');
});

t.test('a route that no longer needs a credential changes for everyone', async (t) => {
  const { newly_allowed } = await diff(
    { policy, routes: [{ path: '/a', action: 'a' }] },
    { upstream, policy, routes: [{ path: '/a', auth: 'none' }] },
  );
  t.match(newly_allowed, [
    { everybody: true, routes: [{ config: { path: '/a' }, against: { path: '/a' } }, {}] },
  ]);
});

t.test("access to other users' tokens", async (t) => {
  const withReader = (...allow: string[]) => ({ ...policy, roles: { ...policy.roles, reader: { allow } } });
  const { newly_allowed } = await diff(
    { policy: withReader('token:*') },
    { upstream, policy: withReader('token:*', 'customer_token:*') },
  );
  const words = newly_allowed.flatMap(({ conditions }) => conditions);
  t.ok(words.includes("another user's token"), JSON.stringify(newly_allowed));
});

t.test('a file with policy, routes or default_route takes the rest from the running configuration', async (t) => {
  const routes = [{ path: '/a', action: 'a' }];
  const { newly_refused, newly_allowed, file } = await diff(
    { policy, routes },
    { default_route: { auth: 'deny' } },
  );
  t.same(newly_allowed, []);
  t.match(newly_refused[0]?.routes[0], { config: { path: '*' }, against: { path: '*', file, line: 1 } });
  const faults = async (against: object) => diff({ policy, routes }, against).then(() => [], (error: unknown) => (error as ConfigError).faults);
  t.match(await faults({ routes: [{ path: '/a', action: 'a', upstream: 'b' }] }), [{ message: /upstream/ }]);
  t.match(await faults({ routes: [{ path: '/a', actoin: 'a' }] }), [{ message: /unknown key "actoin"/, line: 3 }]);
  t.match(await faults({ routes, policies: {} }), [{ message: /unknown key "policies"/ }]);
}); // prettier-ignore

t.test('every key that differs is either compared or listed', async (t) => {
  const keysOf = (a: object, b: object, allow?: readonly string[]) =>
    uncomparedKeys(loadConfig(write(a), {}), loadCandidate(write(b), loadConfig(write(a), {}), {}).loaded, allow);
  const redis = { upstream, store: { type: 'redis', url: 'redis://127.0.0.1:1/0' } };
  const open = { path: '/public/*', auth: 'none' };
  const route = (more: object) => ({ upstream, policy, routes: [{ path: '/a/*', action: 'a' }, { ...open, ...more }] });
  const two = { upstreams: { api: { url: upstream }, other: { url: `${upstream}2` } }, default_route: { upstream: 'api' }, policy };
  const roles = (deny: string[]) => ({ upstream, policy: { ...policy, roles: { ...policy.roles, all: { allow: ['*'], deny }, lead: { allow: ['*'], deny: ['a:read'] } } } });
  const rows: readonly (readonly [object, object, readonly string[]])[] = [
    [route({}), route({}), []],
    [route({}), route({ strip_prefix: '/public' }), ['routes./public/*.strip_prefix']],
    [route({}), { routes: route({ strip_prefix: '/public' }).routes }, ['routes./public/*.strip_prefix']],
    [route({}), { ...route({ auth: undefined, action: 'a' }) }, []],
    [route({}), route({ body_on_read: 'allow', service_worker: 'allow' }), ['routes./public/*.body_on_read', 'routes./public/*.service_worker']],
    [{ ...route({}), routes: [{ path: '/a/:id', action: 'a', refuse_if_active_tokens: 'id' }] }, { ...route({}), routes: [{ path: '/a/:id', action: 'a' }] }, ['routes./a/:id.refuse_if_active_tokens']],
    [route({ auth: undefined, action: 'a', service: 'header:Site' }), route({ auth: undefined, action: 'a' }), ['routes./public/*.service']],
    [route({}), route({ cors: false, on_unauthenticated: 'login' }), ['routes./public/*.cors', 'routes./public/*.on_unauthenticated']],
    [route({}), { ...route({}), routes: [open, { path: '/a/*', action: 'a' }, { path: '/c', action: 'a' }] }, []],
    [{ ...two, routes: [open] }, { ...two, routes: [{ ...open, upstream: 'other' }] }, ['routes./public/*.upstream']],
    [{ ...two, routes: [open] }, { ...two, routes: [open, { path: '/public/a', auth: 'none', upstream: 'other' }] }, ['routes./public/a']],
    [{ ...two, routes: [{ ...open, upstream: 'other' }] }, { ...two, routes: [{ ...open, auth: 'deny' }] }, []],
    [{ ...two }, { ...two, default_route: { upstream: 'other' } }, ['default_route.upstream']],
    [redis, { ...redis, on_store_failure: { serve_cached_for: '1h' }, decision: { host: '0.0.0.0', port: 9902 }, admin: { host: '0.0.0.0' } }, ['admin.host', 'decision', 'on_store_failure']],
    [{ upstream, policy }, { upstream, policy, tokens: { limits: { rate: '1/1m' } }, listen: { trusted_proxies: ['10.0.0.0/8'] } }, ['listen.trusted_proxies', 'tokens.limits.rate']],
    [{ upstream, policy }, { upstream, policy, interface: { token_endpoints: 'session_or_token' } }, ['interface.token_endpoints']],
    [roles([]), roles(['a:read']), ['policy.roles.lead']],
    [roles(['a:read']), roles([]), ['policy.roles.all']],
    [{ upstream, policy }, { upstream, policy: { ...policy, scopes: { global: { allow: ['*'], description: 'All' } } } }, ['policy.scopes.global']],
  ];
  for (const [a, b, keys] of rows) t.same(keysOf(a, b).toSorted(), keys, JSON.stringify(b));
  const [a, b] = [rows[13]![0], rows[13]![1]];
  t.same(keysOf(a, b, ['admin', 'decision']), ['on_store_failure']);
  t.same(keysOf(a, b, ['admin.host.x', 'dec', 'on_store_failure']).toSorted(), ['admin.host', 'decision'], 'a key, or one above it');
  // Files of one content in two folders: each path is relative to its file.
  const elsewhere = join(temporaryFolder(t), 'latchkey.yaml');
  writeFileSync(elsewhere, stringify({ upstream, audit: { to: './a.jsonl' } }));
  t.same(uncomparedKeys(loadConfig(write({ upstream, audit: { to: './a.jsonl' } }), {}), loadConfig(elsewhere, {})), []);
}); // prettier-ignore

t.test('compares large tables quickly', async (t) => {
  const names = (stem: string, count: number) => Array.from({ length: count }, (_, i) => `${stem}${i}`);
  const table = (stem: string, allow: (i: number) => string) =>
    Object.fromEntries(names(stem, 20).map((name, i) => [name, { allow: [allow(i), '*:read'] }]));
  const count = EVERY_CASE ? 120 : 40;
  const routes = names('r', count).flatMap((name, i) => [
    { path: `/${name}/:id`, methods: ['GET'], action: `${name}:read` },
    { path: `/${name}/:id/*`, action: `${name}:do`, ...(i % 3 === 0 ? { service: 'id' } : {}) },
  ]);
  const config = {
    policy: { roles: { ...table('role', (i) => `r${i}:do`), admin: { allow: ['*'] } }, scopes: table('scope', () => '*') },
    routes,
  };
  const changed = { ...config, policy: { ...config.policy, roles: { ...config.policy.roles, role0: { allow: ['*'] } } } };
  const startedAt = process.cpuUsage();
  const whole = await diff(config, changed);
  const { user } = process.cpuUsage(startedAt);
  t.ok(whole.newly_allowed.every(({ roles }) => roles.join() === 'role0'));
  t.ok(new Set(whole.newly_allowed.flatMap(({ routes }) => routes.map(({ config }) => config?.path))).size > count - 20);
  t.ok(user < 20_000_000, `${user} us of the processor`);
}); // prettier-ignore

t.test('a rule of one host is compared on that host only', async (t) => {
  const routes = [{ path: '/*', action: 'a' }];
  const opened = { host: '*.git.example', path: '/x', auth: 'none' };
  const { newly_allowed, newly_refused } = await diff({ policy, routes }, { upstream, policy, routes: [...routes, opened] });
  t.same(newly_refused, []);
  t.match(newly_allowed, [{ everybody: true, routes: [{ host: '*.git.example', config: { path: '/*' }, against: { path: '/x' } }] }]);
  const hosts = { hosts: ['login.example'] };
  const moved = await diff({ policy, routes }, { upstream, policy, routes, interface: hosts });
  t.ok(moved.newly_refused.length > 0, 'a login elsewhere goes to the upstream');
}); // prettier-ignore
