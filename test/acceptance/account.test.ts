import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { syntheticSession } from '../../src/gate/what-if.js';
import { loadConfig } from '../../src/config/load.js';
import type { User } from '../../src/domain/user.js';
import { Simulator } from '../../src/pipeline/simulate.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { needPackages } from '../helpers/debian.js';
import { makeClock } from '../helpers/clock.js';
import { client, directory, LEGACY_KEY, otpAt, PASSWORD, startFixture } from '../helpers/fixture.js';
import { freshMetrics, type Reply, send, startUpstream } from '../helpers/http.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { startRedis } from '../helpers/redis.js';
import { rememberSecret } from '../helpers/secrets.js';
import { untilOtpStepLasts } from '../helpers/until.js';

const ON = { interface: { account_endpoints: true } };
const READERS = ['/current_user', '/current_customer', '/verify'];
const FAKETIME = '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1';
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/;
const NEW_PASSWORD = 'another password that is long';
rememberSecret(NEW_PASSWORD);

type Headers = Record<string, string>;
type Params = Record<string, string>;

const withKey = (key: string): Headers => ({ 'Service-Key': key });
const post = (url: string, path: string, params: Params, headers: Headers = {}) =>
  send(url, path, { body: new URLSearchParams(params), headers });
const sudo = (url: string, params: Params, headers?: Headers) => post(url, '/sudo', params, headers);
/** Creates a token without sending a login name. */
const createBy = (url: string, headers: Headers, params: Params = { password: PASSWORD }) =>
  post(url, '/tokens', params, headers);

const UNAUTHENTICATED = '{"msg":"Provided credentials are missing or invalid"}\n';
const grant = (code: string, detail: string) => `${JSON.stringify({ msg: code, code, detail })}\n`;
const forbidden = (detail: string) =>
  `${JSON.stringify({ msg: 'You are not authorized to perform this action', detail })}\n`;
const WRONG = grant('invalid_grant', 'The username and password combination is wrong');
const BOTH_REQUIRED = grant(
  'invalid_request',
  'The username and password are required, as username (at POST /login: user) and password',
);
const PASSWORD_REQUIRED = grant('invalid_request', 'The password is required');
const BAD_CODE = grant('2fa.verify', 'Invalid one-time password');
const OTHER_USER = forbidden('The username does not match the credential');

t.test('account endpoints: every response, for each kind of credential', async (t) => {
  const { url, login, token, create, upstream } = await startFixture(t, {
    ...ON,
    interface: { account_endpoints: true, ui: { enabled: false } },
  });
  const get = (path: string, headers: Headers = {}) => send(url, path, { headers });
  const created = (await create('engineer', { name: 'ci', scope: 'global:read global', expires_at: '2099-01-31T12:00:00Z' })).json;

  await t.test('GET /current_user and GET /current_customer', async (t) => {
    for (const headers of [withKey(created.access_token), { Cookie: await login('engineer') }]) {
      const { status, json, headers: got } = await get('/current_user', headers);
      t.same([status, got['content-type'], got['cache-control']], [200, 'application/json', 'no-store']);
      t.match([json.created_at, json.updated_at], [TIME, TIME]);
      t.same({ ...json, created_at: 0, updated_at: 0 }, {
        id: 'engineer', name: 'engineer', login: 'engineer@example.com', customer_id: 'C1', role: 'engineer', locked: false,
        two_factor_auth_enabled: false, two_factor_setup_required: false, limit_services: false, require_new_password: false,
        created_at: 0, updated_at: 0, deleted_at: null,
      });
      t.equal((await get('/current_customer', headers)).text, '{"id":"C1","name":"One"}\n');
    }
    const otp = await post(url, '/login', { user: 'twofactor@example.com', password: PASSWORD }, { 'Service-OTP': otpAt(Date.now()) });
    const Cookie = (otp.headers['set-cookie']?.[0] ?? '').split(';')[0] ?? '';
    t.equal((await get('/current_user', { Cookie })).json.two_factor_auth_enabled, true);
    t.equal((await get('/current_customer', withKey(await token('other')))).text, '{"id":"C2","name":"Two"}\n');
  });

  await t.test('GET /verify', async (t) => {
    const whole = { id: created.id, name: 'ci', created_at: created.created_at, expires_at: '2099-01-31T12:00:00+00:00', scope: 'global:read global' };
    const who = { customer: { id: 'C1', name: 'One' }, user: { id: 'engineer', name: 'engineer', login: 'engineer@example.com' } };
    const services = { SVC1: 'www', SVC2: 'shop' };
    t.equal((await get('/verify', withKey(created.access_token))).text, `${JSON.stringify({ ...who, services, token: whole })}\n`, 'exact bytes');
    t.same((await get('/verify', { Cookie: await login('engineer') })).json, { ...who, services, token: null }, 'a session');
    const legacy = (await get('/verify', withKey(LEGACY_KEY))).json;
    t.match(legacy, { customer: who.customer, user: { name: 'Global API Token' }, services, token: { expires_at: null, scope: 'global' } });
    const ofServices = async (user: string, ids: string[]) =>
      (await get('/verify', withKey(await token(user, new URLSearchParams(ids.map((id) => ['services[]', id])))))).json.services;
    t.same(await ofServices('engineer', ['SVC2']), { SVC2: 'shop' }, 'a limited token shows its own services');
    t.same(await ofServices('other', []), {}, 'a customer without services');
    t.same(await ofServices('other', ['X', '__proto__']), JSON.parse('{"X":"X","__proto__":"__proto__"}'), 'an unlisted service is named by its id');
    t.match((await get('/verify', withKey(await token('user')))).json.token, { name: '', expires_at: null });
  });

  await t.test('which credentials are allowed, and each refusal', async (t) => {
    const purger = { status: 403, text: (scope: string) => forbidden(`The scope ${scope} is not allowed to perform account:read`) };
    const rows: [string, Headers, number, string?][] = [
      ['user', withKey(await token('user')), 200],
      ['billing', withKey(await token('billing')), 200],
      ['global:read', withKey(await token('superuser', { scope: 'global:read' })), 200],
      ['limited', withKey(await token('superuser', { scope: 'global:read', service_id: 'SVC1' })), 200],
      ['legacy key', withKey(LEGACY_KEY), 200],
      ['session of a user', { Cookie: await login('user') }, 200],
      ['a session, request from another site', { Cookie: await login('user'), 'Sec-Fetch-Site': 'cross-site' }, 200],
      ['purge_select', withKey(await token('superuser', { scope: 'purge_select' })), 403, purger.text('purge_select')],
      ['purge_all', withKey(await token('superuser', { scope: 'purge_all' })), 403, purger.text('purge_all')],
      ['nobody', {}, 401, UNAUTHENTICATED],
      ['a bad key', withKey('bad'), 401, UNAUTHENTICATED],
      ['a bad key together with a session', { ...withKey('bad'), Cookie: await login('user') }, 401, UNAUTHENTICATED],
      ['a revoked token', withKey(await revoked(url, await token('user'))), 401, UNAUTHENTICATED],
    ];
    for (const path of READERS) {
      for (const [who, headers, status, text] of rows) {
        const reply = await get(path, headers);
        t.equal(reply.status, status, `${path} ${who}`);
        if (text !== undefined) t.equal(reply.text, text, `${path} ${who}`);
        const head = await send(url, path, { method: 'HEAD', headers });
        t.same([head.status, head.text, head.headers['content-length']], [status, '', reply.headers['content-length']], `HEAD ${path} ${who}`);
      }
    }
    t.same(upstream.received, []);
  });

  await t.test('forwards other methods, and the paths below', async (t) => {
    const headers = withKey(await token('superuser'));
    for (const path of [...READERS, '/sudo']) {
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PURGE', 'GET']) {
        if (method === (path === '/sudo' ? 'POST' : 'GET')) continue;
        const reply = await send(url, path, { method, headers });
        t.match(reply, { status: 200, json: { method, target: path } }, `${method} ${path}`);
      }
    }
    upstream.received.length = 0;
    for (const [method, path] of [['POST', '/current_user/password'], ['GET', '/verify/x'], ['POST', '/sudo/x']] as const) {
      t.equal((await send(url, path, { method, headers })).json.target, path);
    }
    t.equal((await send(url, '/verify/', { headers })).status, 400, 'some upstreams would read it as /verify');
  });
}); // prettier-ignore

t.test('without account_endpoints, forwards these paths and always requires a login name', async (t) => {
  const { url, token } = await startFixture(t);
  const headers = withKey(await token('superuser'));
  for (const path of READERS) t.equal((await send(url, path, { headers })).json.target, path);
  t.equal((await sudo(url, { password: PASSWORD }, headers)).json.target, '/sudo');
  t.same(reduce(await createBy(url, headers)), [400, BOTH_REQUIRED]);
}); // prettier-ignore

t.test('POST /sudo: accepted requests and each refusal', async (t) => {
  const { url, token, login, upstream } = await startFixture(t, { ...ON, login: { max_failures: 100 } });
  const key = withKey(await token('superuser'));
  const session = { Cookie: await login('superuser') };
  const username = 'superuser@example.com';

  await t.test('responds 200 with an expiry five minutes away', async (t) => {
    const limited = withKey(await token('superuser', { 'services[]': 'SVC1' }));
    const reader = { Cookie: await login('user') };
    const rows: [string, () => Promise<Reply>][] = [
      ['a key', () => sudo(url, { password: PASSWORD }, key)],
      ['a session', () => sudo(url, { password: PASSWORD }, session)],
      ['a key limited to services', () => sudo(url, { password: PASSWORD }, limited)],
      ['a session of a role that may only read', () => sudo(url, { password: PASSWORD }, reader)],
      ['a session, same origin', () => sudo(url, { password: PASSWORD }, { ...session, 'Sec-Fetch-Site': 'same-origin' })],
      ['a key and the login name of its user, in upper case', () => sudo(url, { username: 'SUPERUSER@example.com', password: PASSWORD }, key)],
      ['a login name without a credential', () => sudo(url, { username, password: PASSWORD })],
      ['with additional fields that clients send', () => sudo(url, { password: PASSWORD, name: 'x', scope: 'nonsense', 'services[]': 'x', expires_at: 'never', expiry_time: '2099-01-01' }, key)],
      ['JSON', () => send(url, '/sudo', { json: { username, password: PASSWORD, expiry_time: null } })],
    ];
    for (const [name, ask] of rows) {
      const before = Math.floor(Date.now() / 1000);
      const { status, json, text } = await ask();
      t.same([status, Object.keys(json)], [200, ['expiry_time']], `${name}: ${text}`);
      t.match(json.expiry_time, TIME);
      const away = Date.parse(json.expiry_time as string) / 1000 - 300;
      t.ok(away >= before && away <= Date.now() / 1000, name);
    }
  });

  await t.test('each refusal', async (t) => {
    const wrong = 'not the password';
    const { host } = new URL(url);
    const fromElsewhere = `The request comes from another origin: it has Origin https://evil.example, expected https://${host} or http://${host}`;
    const readOnly = withKey(await token('superuser', { scope: 'global:read' }));
    const purgeOnly = withKey(await token('superuser', { scope: 'purge_all' }));
    const rows: [string, Params, Headers, number, string][] = [
      ['a wrong password', { password: wrong }, key, 403, WRONG],
      ['a wrong password, by session', { password: wrong }, session, 403, WRONG],
      ['a token that may only read', { password: PASSWORD }, readOnly, 403, forbidden('Read only tokens are not allowed to access this endpoint')],
      ['a token that may only purge, with a wrong password', { password: wrong }, purgeOnly, 403, forbidden('The scope purge_all is not allowed to perform account:write')],
      ['a wrong password, with a login name', { username, password: wrong }, {}, 403, WRONG],
      ['an unknown user', { username: 'nobody@example.com', password: PASSWORD }, {}, 403, WRONG],
      ['a user without a password', { password: PASSWORD }, withKey(LEGACY_KEY), 403, WRONG],
      ['no password', {}, key, 400, PASSWORD_REQUIRED],
      ['an empty password', { password: '' }, key, 400, PASSWORD_REQUIRED],
      ['an empty login name', { username: '', password: PASSWORD }, key, 400, PASSWORD_REQUIRED],
      ['no login name and no credential', { password: PASSWORD }, {}, 400, BOTH_REQUIRED],
      ['nothing', {}, {}, 400, BOTH_REQUIRED],
      ['locked', { username: 'locked@example.com', password: PASSWORD }, {}, 400, grant('account_locked', 'The account is locked')],
      ['locked, with a wrong password', { username: 'locked@example.com', password: wrong }, {}, 403, WRONG],
      ['two-factor user, no code', { username: 'twofactor@example.com', password: PASSWORD }, {}, 400, BAD_CODE],
      ['two-factor user, wrong code', { username: 'twofactor@example.com', password: PASSWORD }, { 'Service-OTP': '000000' }, 400, BAD_CODE],
      ['two-factor user, wrong password', { username: 'twofactor@example.com', password: wrong }, {}, 403, WRONG],
      ['another user', { username: 'billing@example.com', password: PASSWORD }, key, 403, OTHER_USER],
      ['another user, with a wrong password', { username: 'billing@example.com', password: wrong }, key, 403, OTHER_USER],
      ['an unknown login name', { username: 'nobody@example.com', password: wrong }, key, 403, OTHER_USER],
      ['a bad key, otherwise valid', { username, password: PASSWORD }, withKey('bad'), 401, UNAUTHENTICATED],
      ['a bad key together with a session', { password: PASSWORD }, { ...session, ...withKey('bad') }, 401, UNAUTHENTICATED],
      ['an ended session', { username, password: PASSWORD }, { Cookie: `service.session=${'a'.repeat(43)}` }, 401, UNAUTHENTICATED],
      ['a session, request from another site', { password: PASSWORD }, { ...session, Origin: 'https://evil.example' }, 403, forbidden(fromElsewhere)],
      ['no credential, request from another site', { username, password: PASSWORD }, { Origin: 'https://evil.example' }, 403, forbidden(fromElsewhere)],
    ];
    for (const [name, params, headers, status, text] of rows) t.same(reduce(await sudo(url, params, headers)), [status, text], name);
    const twice = new URLSearchParams([['username', username], ['username', username], ['password', PASSWORD]]);
    t.same(reduce(await send(url, '/sudo', { body: twice, headers: key })), [400, PASSWORD_REQUIRED], 'a repeated username counts as none');
    t.equal((await send(url, '/sudo', { json: { password: { $ne: null } }, headers: key })).status, 400);
  });

  await t.test('a user with two factors must send a one-time password', async (t) => {
    const code = otpAt(Date.now());
    const confirm = () => sudo(url, { username: 'twofactor@example.com', password: PASSWORD }, { 'Service-OTP': code });
    t.equal((await confirm()).status, 200);
    t.same(reduce(await confirm()), [400, BAD_CODE], 'once');
  });
  t.same(upstream.received, []);
}); // prettier-ignore

t.test('POST /tokens needs no login name during a sudo grant', async (t) => {
  const clock = makeClock(temporaryFolder(t));
  const { url, token, login, create, server, configFile, folder } = await startFixture(t, { ...ON, audit: { to: './audit.jsonl' }, login: { max_failures: 3 } }, { env: clock.env });
  const store = openLmdbStore(join(folder, 'data'));
  t.teardown(() => store.maintenance.close());

  for (const [kind, credential] of [
    ['key', async (user: string) => withKey(await token(user))],
    ['session', async (user: string) => ({ Cookie: await login(user) })],
  ] as const) {
    await t.test(`with a ${kind}`, async (t) => {
      const headers = await credential('superuser');
      t.same(reduce(await createBy(url, headers)), [400, BOTH_REQUIRED], 'not before the grant');
      await sudo(url, { password: 'wrong' }, headers);
      t.same(reduce(await createBy(url, headers)), [400, BOTH_REQUIRED], 'a refused sudo grants nothing');
      await sudo(url, { username: 'superuser@example.com', password: PASSWORD });
      t.same(reduce(await createBy(url, headers)), [400, BOTH_REQUIRED], 'a sudo without the credential grants nothing');
      t.equal((await sudo(url, { password: PASSWORD }, headers)).status, 200);
      const made = await createBy(url, headers, { password: PASSWORD, name: 'by sudo', scope: 'purge_all', 'services[]': 'SVC1' });
      t.match(made.json, { user_id: 'superuser', name: 'by sudo', scope: 'purge_all', services: ['SVC1'], access_token: /^lk/ });
      t.equal((await createBy(url, headers)).status, 200, 'again');
      for (const other of [await credential('superuser'), await credential('billing'), {}])
        t.same(reduce(await createBy(url, other)), [400, BOTH_REQUIRED], 'the grant covers no other credential');
      const rows: [string, Params, number, string][] = [
        ['no password', { scope: 'nonsense' }, 400, PASSWORD_REQUIRED],
        ['a wrong password', { password: 'wrong', scope: 'nonsense' }, 400, WRONG],
        ['a wrong scope', { password: PASSWORD, scope: 'nonsense', expires_at: 'never' }, 400, grant('invalid_scope', 'The scope "nonsense" is not valid; valid scopes: global, global:read, purge_select, purge_all')],
        ['a wrong service', { password: PASSWORD, service_id: 'NONE' }, 422, grant('Unprocessable Entity', 'The service "NONE" is unknown')],
        ['an empty login name', { username: '', password: PASSWORD }, 400, BOTH_REQUIRED],
      ];
      for (const [name, params, status, text] of rows) t.same(reduce(await createBy(url, headers, params)), [status, text], name);
    });
  }

  await t.test('a login name in the request takes precedence over the credential', async (t) => {
    const sudoed = withKey(await token('superuser'));
    await sudo(url, { password: PASSWORD }, sudoed);
    const named = { username: 'billing@example.com', password: PASSWORD };
    for (const headers of [sudoed, withKey('bad'), withKey(await revoked(url, await token('user'))), { Cookie: await login('user') }, {}])
      t.match((await createBy(url, headers, named)).json, { user_id: 'billing' });
  });

  await t.test('requires a one-time password for each step of a two-factor user', async (t) => {
    // One code each for the token, the sudo grant and the new token: the time steps around now.
    await untilOtpStepLasts(10_000);
    const now = Date.now();
    const code = (steps: number) => ({ 'Service-OTP': otpAt(now + steps * 30_000) });
    const made = await post(url, '/tokens', { username: 'twofactor@example.com', password: PASSWORD }, code(-1));
    const key = withKey(made.json.access_token as string);
    t.equal((await sudo(url, { password: PASSWORD }, { ...key, ...code(0) })).status, 200);
    t.same(reduce(await createBy(url, key)), [400, BAD_CODE]);
    t.match((await createBy(url, { ...key, ...code(1) })).json, { user_id: 'twofactor' });
  });

  await t.test('a sudo grant ends with its credential, a new password or a lock', async (t) => {
    const gone = await token('superuser');
    await sudo(url, { password: PASSWORD }, withKey(gone));
    await revoked(url, gone);
    t.same(reduce(await createBy(url, withKey(gone))), [400, BOTH_REQUIRED], 'revoked');
    const session = { Cookie: await login('superuser') };
    await sudo(url, { password: PASSWORD }, session);
    await send(url, '/logout', { method: 'POST', headers: session });
    t.same(reduce(await createBy(url, session)), [400, BOTH_REQUIRED], 'logged out');

    const key = withKey(await token('engineer'));
    await sudo(url, { password: PASSWORD }, key);
    const lock = async (locked: boolean) => {
      const user = (await store.directory.getUser('engineer')) as User;
      t.equal(await store.directory.change({ users: [{ ...user, locked, updatedAt: user.updatedAt + 1 }] }, Date.now()), undefined);
    };
    await lock(true);
    t.same(reduce(await createBy(url, key)), [400, BOTH_REQUIRED], 'locked');
    await lock(false);
    t.same(reduce(await createBy(url, key)), [400, BOTH_REQUIRED], 'unlocked again');

    await sudo(url, { password: PASSWORD }, key);
    t.equal((await createBy(url, key)).status, 200);
    const file = join(folder, 'new.txt');
    writeFileSync(file, NEW_PASSWORD);
    t.match(await run(['user', 'set-password', 'engineer', '--password-file', file, '--config', configFile]), { code: 0 });
    t.equal((await send(url, '/current_user', { headers: key })).status, 200, 'the token itself stays valid');
    for (const password of [PASSWORD, NEW_PASSWORD]) t.same(reduce(await createBy(url, key, { password })), [400, BOTH_REQUIRED]);
    t.same(reduce(await sudo(url, { password: PASSWORD }, key)), [403, WRONG], 'the old password');
    t.equal((await sudo(url, { password: NEW_PASSWORD }, key)).status, 200);
    t.same(reduce(await createBy(url, key, { password: PASSWORD })), [400, WRONG]);
    t.match((await createBy(url, key, { password: NEW_PASSWORD })).json, { user_id: 'engineer' });
  });

  await t.test('counts as a use of the token, and appears in the audit log and the metrics', async (t) => {
    const { json: made } = await create('user');
    const key = withKey(made.access_token as string);
    const lastEntries = (count: number) =>
      readFileSync(join(folder, 'audit.jsonl'), 'utf8').trim().split('\n').slice(-count).map((line) => JSON.parse(line) as object);
    await sudo(url, { password: PASSWORD }, { ...key, 'User-Agent': 'confirming' });
    const entries = lastEntries(2);
    const all = (await send(url, '/customer/C1/tokens', { headers: { Cookie: await login('superuser') } })).json as { id: string }[];
    t.match(all.find(({ id }) => id === made.id), { user_agent: 'confirming', ip: '127.0.0.1', last_seen_at: TIME });
    const actor = { user_id: 'user', credential: 'token', token_id: made.id };
    t.match(entries, [
      { event: 'login.succeeded', route: '/sudo', actor, target: { user_id: 'user', customer_id: 'C1' } },
      { event: 'sudo.granted', outcome: 'success', actor, target: { token_id: made.id, user_id: 'user', customer_id: 'C1' } },
    ]);
    await sudo(url, { username: 'billing@example.com', password: PASSWORD }, key);
    t.match(lastEntries(1), [{ event: 'access.denied', outcome: 'denied', reason: 'other_user', actor, route: '/sudo' }]);
    const metrics = await freshMetrics(server.admin);
    for (const outcome of ['succeeded', 'invalid_grant', 'other_user', '2fa.verify'])
      t.match(metrics, new RegExp(`latchkey_logins_total\\{outcome="${outcome}"\\} [1-9]`));
    t.match(metrics, /latchkey_requests_total\{route="sudo",outcome="answered",status_class="2xx"\} \d/);
    t.notMatch(server.stdout(), /"level":[56]0/);
  });

  await t.test('shares its count of wrong passwords with the other endpoints', async (t) => {
    const key = withKey(await token('billing'));
    await sudo(url, { password: PASSWORD }, key);
    clock.stop();
    const statuses = [await sudo(url, { password: 'x' }, key), await createBy(url, key, { password: 'x' }), await post(url, '/login', { user: 'billing@example.com', password: 'x' })];
    t.same(statuses.map(({ status }) => status), [403, 400, 401]);
    for (const reply of [await sudo(url, { password: PASSWORD }, key), await createBy(url, key)]) {
      t.equal(reply.text, '{"msg":"Too many requests","detail":"Too many failed logins; try again later"}\n');
      t.equal(reply.status, 429);
      t.match(reply.headers['retry-after'], /^\d+$/);
    }
  });
}); // prettier-ignore

t.test('explain predicts what the server decides', async (t) => {
  const { url, token, login, configFile, folder } = await startFixture(t, ON);
  const store = openLmdbStore(join(folder, 'data'));
  t.teardown(() => store.maintenance.close());
  const simulator = new Simulator(loadConfig(configFile), store);
  const byKey = (key: string) => ({ headers: withKey(key), as: { key } });
  const askers = {
    anonymous: { headers: {}, as: 'anonymous' as const },
    'a bad key': byKey('bad'),
    'a purging token': byKey(await token('superuser', { scope: 'purge_all' })),
    'a limited token': byKey(await token('user', { service_id: 'SVC1' })),
    'a session': { headers: { Cookie: await login('user') }, as: { subject: syntheticSession((await store.directory.getUser('user')) as never) } },
  };
  const outcomes = new Set<string>();
  for (const [name, { headers, as }] of Object.entries(askers)) {
    for (const [method, target] of [...READERS.map((path) => ['GET', path]), ['POST', '/verify'], ['GET', '/sudo'], ['POST', '/sudo']] as [string, string][]) {
      const { verdict } = await simulator.simulate({ method, target, as }, Date.now());
      // Without a body, POST /sudo always fails with 400.
      const { status } = await send(url, target, { method, headers });
      const allowed = verdict.outcome === 'forward' ? 200 : 400;
      t.equal(verdict.status ?? allowed, status, `${method} ${target} by ${name}`);
      outcomes.add(verdict.outcome);
    }
  }
  t.same([...outcomes].toSorted(), ['answer', 'forward', 'role', 'scope', 'unauthenticated']);
  const locked = syntheticSession((await store.directory.getUser('locked')) as never);
  t.equal((await simulator.simulate({ method: 'POST', target: '/sudo', as: { subject: locked } }, Date.now())).verdict.outcome, 'unauthenticated');
}); // prettier-ignore

t.test('a sudo grant lasts until the time in its response', async (t) => {
  needPackages(() => existsSync(FAKETIME), 'faketime', 'libfaketime');
  const folder = temporaryFolder(t);
  const clock = join(folder, 'clock');
  writeFileSync(clock, '+0s');
  const env = { LD_PRELOAD: FAKETIME, FAKETIME_TIMESTAMP_FILE: clock, FAKETIME_NO_CACHE: '1', FAKETIME_DONT_FAKE_MONOTONIC: '1' };
  const upstream = await startUpstream(t);
  const { url } = await start(t, writeConfig(folder, { upstream: upstream.url, ...ON }, await directory()), { env });
  const key = withKey(await client(url).token('superuser'));
  const { json } = await sudo(url, { password: PASSWORD }, key);
  writeFileSync(clock, '+240s');
  t.equal((await createBy(url, key)).status, 200);
  writeFileSync(clock, '+300s');
  t.ok(Date.now() + 300_000 >= Date.parse(json.expiry_time as string));
  t.same(reduce(await createBy(url, key)), [400, BOTH_REQUIRED]);
  t.equal((await send(url, '/verify', { headers: key })).status, 200, 'the token itself stays valid');
}); // prettier-ignore

t.test('two sidecars on one Redis share sudo grants', nightly, async (t) => {
  const redis = await startRedis(t);
  const settings = { ...ON, store: { type: 'redis', url: redis.url, sealing_key: 'a1'.repeat(32) } };
  const first = await startFixture(t, settings);
  const second = await start(t, writeConfig(temporaryFolder(t), { upstream: first.upstream.url, ...settings }));
  const { json: made } = await first.create('superuser');
  for (const headers of [withKey(made.access_token as string), { Cookie: await first.login('superuser') }]) {
    t.same(reduce(await createBy(second.url, headers)), [400, BOTH_REQUIRED]);
    t.equal((await sudo(first.url, { password: PASSWORD }, headers)).status, 200);
    t.match((await createBy(second.url, headers)).json, { user_id: 'superuser' });
  }
  t.match(redis.cli('ZRANGE', '{latchkey:}index:expiry', '0', '-1'), 'sudo:superuser/', 'they expire');
}); // prettier-ignore

t.test('another vendor name changes every field and cookie name', async (t) => {
  const { url, create, upstream, server } = await startFixture(t, {
    interface: { vendor: 'Fastly', account_endpoints: true, token_endpoints: 'session_or_token' },
    rate_limit: { writes_per_hour: 3 },
    login: { max_failures: 100 },
  });
  const seen: Reply[] = [];
  const ask = async (path: string, headers: Headers = {}, params?: Params, method?: string) => {
    const body = params === undefined ? {} : { body: new URLSearchParams(params) };
    const reply = await send(url, path, { ...body, headers, ...(method === undefined ? {} : { method }) });
    seen.push(reply);
    return reply;
  };
  const created = await create('superuser');
  const key = { 'Fastly-Key': created.json.access_token as string };

  t.equal((await ask('/verify', key)).status, 200);
  t.same(reduce(await ask('/verify', withKey(key['Fastly-Key']))), [401, UNAUTHENTICATED], 'Service-Key is not a credential');
  const login = await ask('/login', {}, { user: 'superuser@example.com', password: PASSWORD });
  t.match(login.headers['set-cookie'], [/^fastly\.session=[\w-]{43}; /]);
  const [pair = ''] = (login.headers['set-cookie']?.[0] ?? '').split(';');
  t.equal((await ask('/current_user', { Cookie: pair })).status, 200);
  t.equal((await ask('/current_user', { Cookie: pair.replace('fastly', 'service') })).status, 401);
  t.equal((await ask('/login', { 'Service-OTP': otpAt(Date.now()) }, { user: 'twofactor@example.com', password: PASSWORD })).status, 400);
  t.equal((await ask('/login', { 'Fastly-OTP': otpAt(Date.now()) }, { user: 'twofactor@example.com', password: PASSWORD })).status, 200);
  t.equal((await ask('/sudo', key, { password: PASSWORD })).status, 200);
  t.equal((await ask('/tokens', key, { password: PASSWORD })).status, 200);
  t.equal((await ask('/tokens', key)).status, 200, 'a token may list tokens');

  const forwarded = await ask('/service/SVC1', { ...key, 'Service-Key': 'ordinary', 'Service-OTP': 'ordinary', 'Fastly-OTP': '1', Cookie: `${pair}; service.session=ordinary` }, {});
  t.match(upstream.received.at(-1)?.headers, { 'service-key': 'ordinary', 'service-otp': 'ordinary', cookie: 'service.session=ordinary' });
  t.notMatch(Object.keys(upstream.received.at(-1)?.headers ?? {}).join(), /fastly/);
  t.match(forwarded.headers, { 'fastly-ratelimit-remaining': '2', 'fastly-ratelimit-reset': /^\d{10}$/ });
  upstream.received.length = 0;
  seen.pop();
  for (let i = 0; i < 2; i++) await send(url, '/service/SVC1', { method: 'PUT', headers: key });
  const over = await ask('/service/SVC1', key, undefined, 'PUT');
  t.match([over.status, over.headers], [429, { 'fastly-ratelimit-remaining': '0', 'fastly-ratelimit-reset': /^\d{10}$/ }]);

  const twice = await send(url, '/verify', { headers: { 'fastly-key': ['a', 'b'] } });
  t.same(reduce(twice), [400, '{"msg":"Bad request","detail":"the header fastly-key was sent more than once"}\n']);
  const cookies = await ask('/verify', { Cookie: `${pair}; ${pair}` });
  t.equal(cookies.json.detail, 'the cookie fastly.session was sent more than once');
  seen.push(twice, await ask('/tokens/self', { Cookie: pair }), await ask('/logout', key, undefined, 'POST'), await ask('/nothing/here'), await ask('/tokens/none', key));

  const page = await ask('/_latchkey/');
  t.match(page.text, 'content="Fastly-OTP"');
  for (const [, asset = ''] of page.text.matchAll(/(?:src|href)="(assets\/[^"]+)"/g)) await ask(`/_latchkey/${asset}`);
  t.equal((await ask('/_latchkey/session', { Cookie: pair })).json.key_field, 'Fastly-Key');
  await ask('/logout', { Cookie: pair }, undefined, 'POST');
  t.ok(seen.length > 18, 'enough responses to check');
  for (const { text, rawHeaders } of seen)
    t.notMatch(`${text} ${rawHeaders.join(' ')}`, /Service-(?:Key|OTP|RateLimit)|service\.session/i);
  t.notMatch(server.stdout(), /Service-/);
}); // prettier-ignore

async function revoked(url: string, key: string): Promise<string> {
  await send(url, '/tokens/self', { method: 'DELETE', headers: withKey(key) });
  return key;
}

/** The parts by which refusals are compared. */
function reduce({ status, text }: Reply): [number, string] {
  return [status, text];
}
