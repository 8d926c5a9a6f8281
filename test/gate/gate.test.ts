import { createPublicKey, verify } from 'node:crypto';
import t, { type Test as T } from 'tap';
import type { Gate } from '../../src/gate/gate.js';
import { refuseCrossOrigin } from '../../src/gate/request-rules.js';
import type { RequestHead } from '../../src/http/head.js';
import type { HeadReader } from '../../src/http/read-head.js';
import { Simulator } from '../../src/pipeline/simulate.js';
import { LEGACY_KEY } from '../helpers/fixture.js';
import type { Sent } from '../helpers/http.js';
import { startInProcess } from '../helpers/in-process.js';
import { token as record, user } from '../store/contract/records.js';

const server = await startInProcess(t, {
  rate_limit: { writes_per_hour: 2 },
  routes: [
    { path: '/open', auth: 'none' },
    { path: '/hidden', auth: 'deny' },
    { path: '/plain', action: 'api' },
    { path: '/by-header', action: 'service', service: 'header:X-Service' },
    { path: '/by-query', action: 'service', service: 'query:service' },
    { path: '/service/:service_id', action: 'service', service: 'service_id' },
    { path: '/service/:service_id/purge', action: 'purge:select', service: 'service_id' },
    { path: '/billing', action: 'billing' },
    { path: '/invitation', action: 'invitation' },
    { path: '/user/:user_id', methods: ['DELETE'], action: 'user', refuse_if_active_tokens: 'user_id' },
    { path: '/search', action: 'api', body_on_read: 'allow' },
    { path: '/worker.js', action: 'api', service_worker: 'allow' },
  ],
});
const { request, token, login, create, opened } = server;
const simulator = new Simulator(server.loaded, opened.store);

const key = await token('superuser');
const limited = await token('superuser', { service_id: 'SVC1' });
const cookie = await login('superuser');
const expired = await expiredToken();
const lockedKey = await token('billing');
const lockedCookie = await login('billing');
const [billing] = [await opened.store.directory.getUserByLogin('billing@example.com')].flatMap(
  (user) => user ?? [],
);
if (billing === undefined) throw new Error('the user is not there');
await opened.store.directory.change({ users: [{ ...billing, locked: true }] }, Date.now());

/** A token that expired a second ago. */
async function expiredToken() {
  const { json } = await create('user');
  const found = await opened.store.tokens.get(json.id as string);
  if (found === undefined) throw new Error('the token is not there');
  const ended = { ...found.token, expiresAt: Date.now() - 1000 };
  await opened.store.directory.change({ removeTokens: [ended.id] }, Date.now());
  await opened.store.directory.change({ tokens: [ended] }, Date.now());
  return { id: ended.id, secret: json.access_token as string };
}

type Headers = NonNullable<Sent['headers']>;
const k = (value: string, more: Headers = {}): Headers => ({ 'Service-Key': value, ...more });
const c = (value: string, more: Headers = {}): Headers => ({ Cookie: value, ...more });
const scoped = async (scope: string) => k(await token('superuser', { scope }));
const of = async (user: string) => k(await token(user));

/**
 * The request, the expected status, and the outcome in the log record: the refusal's tag, or
 * `forwarded`.
 */
type Row = readonly [
  method: string,
  target: string,
  headers: Headers,
  status: number,
  outcome: string,
  detail?: RegExp,
];

async function decide(t: T, rows: readonly Row[]): Promise<void> {
  for (const [method, target, headers, status, outcome, detail] of rows) {
    const what = `${method} ${target} ${JSON.stringify(Object.keys(headers))} ${outcome}`;
    const reply = await request(target, { method, headers });
    t.equal(reply.status, status, `${what}: ${reply.text}`);
    t.match(reply.log.at(-1), { outcome, status }, what);
    t.equal(reply.forwarded !== undefined, outcome === 'forwarded', `${what}: forwarded`);
    if (detail !== undefined) t.match(reply.log.at(-1)?.['detail'] ?? reply.text, detail, what);
    await foretells(t, what, { method, target, headers, outcome });
  }
}

/**
 * Checks that `latchkey explain` predicts the gate's outcome. It does not count writes, so rate
 * limits are exempt.
 */
async function foretells(
  t: T,
  what: string,
  { method, target, headers, outcome }: { method: string; target: string; headers: Headers; outcome: string },
): Promise<void> {
  if (outcome === 'rate_limited') return;
  const fields = Object.entries(headers).flatMap(([name, value]) =>
    [value].flat().flatMap((each) => [name, each]),
  );
  const told = await simulator.simulate(
    { method, target, fields: ['Host', 'api.example', ...fields], as: 'anonymous' },
    Date.now(),
  );
  t.equal(told.verdict.outcome, outcome === 'forwarded' ? 'forward' : outcome, `${what}: explained`);
}

t.test('credentials: accepts valid ones, and says why the others are refused', async (t) =>
  decide(t, [
    ['GET', '/plain', {}, 401, 'unauthenticated'],
    ['GET', '/plain', k(''), 401, 'unauthenticated'],
    ['GET', '/plain', k('unknown'), 401, 'unauthenticated'],
    ['GET', '/plain', k('x'.repeat(1025)), 401, 'unauthenticated'],
    ['GET', '/plain', k(`${key.slice(0, -1)}!`), 401, 'unauthenticated'],
    ['GET', '/plain', k(`lk${'0'.repeat(38)}`), 401, 'unauthenticated'],
    ['GET', '/plain', k(key), 200, 'forwarded'],
    ['GET', '/plain', k(LEGACY_KEY), 200, 'forwarded'],
    ['GET', '/plain', k(lockedKey), 401, 'unauthenticated'],
    ['GET', '/plain', k(expired.secret), 401, 'token_expired', new RegExp(`Token ${expired.id} expired at`)],
    ['GET', '/plain', c(cookie), 200, 'forwarded'],
    ['GET', '/plain', c(`${cookie}x`), 401, 'unauthenticated'],
    ['GET', '/plain', c(lockedCookie), 401, 'unauthenticated'],
    ['GET', '/plain', k('unknown', c(cookie)), 401, 'unauthenticated'],
    ['GET', '/plain', { 'Service-Key': [key, key] }, 400, 'several_credentials'],
    ['GET', '/plain', c(`${cookie}; ${cookie}`), 400, 'several_credentials'],
    ['GET', '/open', {}, 200, 'forwarded'],
    ['GET', '/open', k('unknown'), 200, 'forwarded'],
    ['GET', '/hidden', k(key), 404, 'not_found', /No endpoint for GET \/hidden/],
    ['GET', '/a%2fb', k(key), 200, 'forwarded'],
    ['GET', '/a%2f..', k(key), 400, 'malformed'],
  ])); // prettier-ignore

t.test('roles, scopes and services', async (t) =>
  decide(t, [
    ['POST', '/billing', await of('engineer'), 403, 'role', /role engineer .* billing:write/],
    ['GET', '/billing', await of('user'), 403, 'role', /billing:read/],
    ['PUT', '/plain', await scoped('global:read'), 403, 'scope', /Read only tokens/],
    ['GET', '/plain', await scoped('purge_all'), 403, 'scope', /scope purge_all/],
    ['POST', '/service/SVC1/purge', await scoped('purge_select'), 200, 'forwarded'],
    ['GET', '/service/SVC1', k(limited), 200, 'forwarded'],
    ['GET', '/service/SVC2', k(limited), 403, 'service', /SVC2/],
    ['POST', '/invitation', k(limited), 403, 'service_limited'],
    ['GET', '/by-header', k(limited), 403, 'service'],
    ['GET', '/by-header', k(limited, { 'X-Service': 'SVC1' }), 200, 'forwarded'],
    ['GET', '/by-header', k(limited, { 'X-Service': 'SVC2' }), 403, 'service'],
    ['GET', '/by-header', k(limited, { 'X-Service': ['SVC1', 'SVC1'] }), 400, 'malformed', /more than once/],
    ['GET', '/by-header', k(limited, { 'X-Service': 'SVC1', X_Service: 'SVC2' }), 400, 'malformed', /can be mistaken for/],
    ['GET', '/by-header', k(limited, { 'X-Service': 'SVC1, SVC2' }), 400, 'malformed', /may contain only letters/],
    ['GET', '/by-header', k(limited, { 'X-Service': 'SVC1', Connection: 'x-service' }), 400, 'malformed', /Connection/],
    ['GET', '/by-query', k(limited), 403, 'service'],
    ['GET', '/by-query?other=1', k(limited), 403, 'service'],
    ['GET', '/by-query?service=SVC1', k(limited), 200, 'forwarded'],
    ['GET', '/by-query?service=SVC%31', k(limited), 200, 'forwarded'],
    ['GET', '/by-query?service=SVC2', k(limited), 403, 'service'],
    ['GET', '/by-query?service=SVC1&service=SVC2', k(limited), 400, 'malformed', /more than once/],
    ['GET', '/by-query?service=SVC1;service=SVC2', k(limited), 400, 'malformed', /more than once|may contain only/],
    ['GET', '/by-query?Service=SVC1', k(limited), 400, 'malformed', /can be mistaken for/],
    ['GET', '/by-query?service[]=SVC1', k(limited), 400, 'malformed', /can be mistaken for/],
    ['GET', '/by-query?+service=SVC1', k(limited), 400, 'malformed', /can be mistaken for/],
    ['GET', '/by-query?service%00=SVC1', k(limited), 400, 'malformed', /can be mistaken for/],
    ['GET', '/by-query?%2573=SVC1', k(limited), 400, 'malformed', /decoded in two ways/],
    ['GET', '/by-query?service', k(limited), 400, 'malformed', /may contain only/],
    ['GET', `/by-query?${'a&'.repeat(1001)}`, k(limited), 400, 'malformed', /more than 1000 parameters/],
    ['GET', `/by-query?${'a;'.repeat(1001)}`, k(limited), 400, 'malformed', /more than 1000 parameters/],
  ])); // prettier-ignore

t.test('what a browser sends for another site', async (t) => {
  const free = '/service/SVC1/purge';
  await decide(t, [
    ['POST', free, c(cookie, { 'Sec-Fetch-Site': 'cross-site' }), 403, 'cross_origin'],
    ['POST', free, c(cookie, { 'Sec-Fetch-Site': 'same-site' }), 403, 'cross_origin'],
    ['POST', free, c(cookie, { 'Sec-Fetch-Site': 'same-origin' }), 200, 'forwarded'],
    ['POST', free, c(cookie, { 'Sec-Fetch-Site': 'none' }), 200, 'forwarded'],
    ['POST', free, c(cookie, { Origin: 'https://api.example' }), 200, 'forwarded'],
    ['POST', free, c(cookie, { Origin: 'https://evil.example' }), 403, 'cross_origin'],
    ['POST', free, c(cookie, { Origin: 'null' }), 403, 'cross_origin'],
    ['POST', free, c(cookie, { Origin: 'https://api.example', 'Sec-Fetch-Site': 'cross-site' }), 403, 'cross_origin'],
    ['GET', free, c(cookie, { 'Sec-Fetch-Site': 'cross-site' }), 200, 'forwarded'],
    ['POST', free, k(key, { 'Sec-Fetch-Site': 'cross-site' }), 200, 'forwarded'],
    ['GET', '/plain', c(cookie, { 'Service-Worker': 'script' }), 400, 'service_worker'],
    ['GET', '/open', { 'Service-Worker': 'script' }, 400, 'service_worker'],
    ['GET', '/worker.js', c(cookie, { 'Service-Worker': 'script' }), 200, 'forwarded'],
  ]);
}); // prettier-ignore

t.test('an origin is the requested one whether or not Host has the default port', async (t) => {
  const rows: readonly (readonly [host: string, secure: boolean, origin: string, isOwn: boolean])[] = [
    ['api.example', false, 'http://api.example', true],
    ['api.example', false, 'https://api.example', true],
    ['api.example', true, 'https://api.example', true],
    ['api.example', true, 'http://api.example', false],
    ['API.example', true, 'https://api.example', true],
    ['api.example:443', true, 'https://api.example', true],
    ['api.example:443', false, 'https://api.example', true],
    ['api.example:443', true, 'http://api.example', false],
    ['api.example:443', false, 'http://api.example', false],
    ['api.example:443', false, 'http://api.example:443', true],
    ['api.example:80', false, 'http://api.example', true],
    ['api.example:80', false, 'https://api.example', false],
    ['api.example:80', true, 'https://api.example:80', true],
    ['api.example:8443', true, 'https://api.example:8443', true],
    ['api.example:8443', true, 'https://api.example', false],
    ['api.example:8080', false, 'http://api.example:8080', true],
    ['api.example:8080', false, 'http://api.example', false],
    ['api.example', false, 'http://api.example:8080', false],
    ['[::1]:80', false, 'http://[::1]', true],
    ['[::80]', false, 'http://[::80]', true],
    ['', false, 'http://', false],
    ['api.example', false, 'null', false],
    ['api.example', false, '', false],
  ];
  for (const [host, secure, origin, isOwn] of rows) {
    const head = { method: 'POST', webSocket: false, fetchSite: undefined, origin, client: { host, secure } };
    const refusal = refuseCrossOrigin(head as RequestHead, new Set());
    t.equal(refusal === undefined, isOwn, `${origin} at ${host}, ${secure ? 'TLS' : 'no TLS'}`);
  }
}); // prettier-ignore

t.test('a body where none is expected, and the user who still has tokens', async (t) => {
  for (const [target, status] of [['/plain', 400], ['/search', 200]] as const) {
    t.equal((await request(target, { method: 'GET', headers: k(key), body: 'x' })).status, status, target);
  }
  await decide(t, [
    ['DELETE', '/user/superuser', k(key), 400, 'active_tokens'],
    ['DELETE', '/user/nobody', k(key), 200, 'forwarded'],
    ['DELETE', '/user/user', k(await token('engineer')), 403, 'role'],
  ]);
}); // prettier-ignore

t.test('a user who is about to be deleted is named by the exact id', async (t) => {
  const routes = [{ path: '/user/:user_id', methods: ['DELETE'], action: 'user', refuse_if_active_tokens: 'user_id' }];
  const guarding = await startInProcess(t, { routes, rate_limit: { writes_per_hour: null } });
  const { directory, tokens } = guarding.opened.store;
  const users = ([['Del1', 'C1'], ['Idle1', 'C1'], ['Other8', 'C8'], ['Idle8', 'C8']] as const).map(([id, customerId]) => user(id, { customerId }));
  await directory.change({ customers: [{ id: 'C8', name: 'Eight' }], users }, Date.now());
  for (const owner of users.filter(({ id }) => !id.startsWith('Idle')))
    await tokens.create(record(`T-${owner.id}`, { userId: owner.id }), owner, { active: null, stored: null }, Date.now());
  const headers = k(await guarding.token('superuser'));
  const rows: [ids: string[], status: number, outcome: string][] = [
    [['Del1'], 400, 'active_tokens'],
    [['Idle1', 'Nobody'], 200, 'forwarded'],
    [['del1', 'DEL1', 'idle1'], 400, 'malformed'],
    [['Del1%20', 'Del1,U9', 'Del1.json', 'Del1@a.example', 'D%C3%A9l1', 'a'.repeat(65)], 400, 'malformed'],
    // Whether another customer has such a user, and whether that user has tokens, makes no difference.
    [['Other8', 'Idle8', 'other8', 'idle8'], 200, 'forwarded'],
  ];
  for (const [ids, status, outcome] of rows)
    for (const id of ids) {
      const reply = await guarding.request(`/user/${id}`, { method: 'DELETE', headers });
      t.match({ status: reply.status, outcome: reply.log.at(-1)?.['outcome'] }, { status, outcome }, id);
      t.equal(reply.forwarded !== undefined, outcome === 'forwarded', id);
    }
}); // prettier-ignore

t.test('re-evaluates a long-lived stream without counting or recording a request', async (t) => {
  let gate: Gate | undefined;
  let readHead: HeadReader | undefined;
  const lasting = await startInProcess(
    t,
    {
      rate_limit: { writes_per_hour: 1 },
      routes: [{ path: '/user/:user_id', methods: ['DELETE'], action: 'user', refuse_if_active_tokens: 'user_id' }],
    },
    { services: (services) => ({ gate, readHead } = services) },
  );
  const { id, access_token: secret } = (await lasting.create('superuser')).json;
  const ask = async (of: Gate | undefined, method: string, target: string) => {
    const rawHeaders = ['Host', 'a', 'Service-Key', secret as string];
    const head = readHead?.({ method, url: target, httpVersion: '1.1', rawHeaders, socket: { remoteAddress: '127.0.0.1' } });
    if (head === undefined || 'refusal' in head) throw new Error('it cannot be read');
    const { refusal } = (await of?.evaluate(head, Date.now())) ?? {};
    return refusal?.refusal;
  };
  t.equal(await ask(gate, 'DELETE', '/user/superuser'), 'active_tokens');
  for (let i = 0; i < 3; i++) {
    t.equal(await ask(gate?.forRecheck(), 'PUT', '/a'), undefined, 'does not count the write');
    t.equal(await ask(gate?.forRecheck(), 'DELETE', '/user/superuser'), undefined, 'does not check for the active tokens of the user to delete');
  }
  t.equal(await ask(gate, 'PUT', '/a'), undefined, 'the first write that counts');
  t.equal(await ask(gate, 'PUT', '/a'), 'rate_limited');
  await lasting.opened.store.directory.change({ removeTokens: [id] }, Date.now());
  t.equal(await ask(gate?.forRecheck(), 'PUT', '/a'), 'unauthenticated', 'still requires a valid credential');
}); // prettier-ignore

t.test('writes are counted by user and hour; reads, purges and built-in endpoints are not', async (t) => {
  const headers = await of('engineer');
  const write = () => request('/plain', { method: 'PUT', headers });
  for (const [method, target] of [['GET', '/plain'], ['POST', '/service/SVC1/purge'], ['GET', '/tokens/self']] as const) {
    t.equal((await request(target, { method, headers })).headers['service-ratelimit-remaining'], undefined, target);
  }
  t.match([(await write()).headers['service-ratelimit-remaining'], (await write()).headers['service-ratelimit-remaining']], ['1', '0']);
  const third = await write();
  t.match(third, { status: 429, headers: { 'retry-after': /^\d+$/, 'service-ratelimit-remaining': '0' } });
  t.match(third.log.at(-1), { outcome: 'rate_limited', decision: 'refused' });
  t.equal((await request('/plain', { method: 'PUT', headers: await of('user') })).status, 403, 'a refused write is not counted');
  t.equal((await request('/plain', { headers })).status, 200, 'reads still work');
}); // prettier-ignore

t.test('tells the upstream who is calling, and drops identity headers from the client', async (t) => {
  const forged = { 'X-Auth-User-Id': 'root', X_Auth_Role: 'superuser', 'x-auth-scope': 'global' };
  const identityOf = async (headers: Headers, target = '/plain') => {
    const { forwarded } = await request(target, { headers: { ...headers, ...forged } });
    const fields = Object.entries(forwarded?.fields ?? {});
    return Object.fromEntries(fields.filter(([name]) => /auth|service-key|cookie/.test(name)));
  };
  const who = (id: string, credential: string) => ({ 'x-auth-user-id': id, 'x-auth-customer-id': 'C1', 'x-auth-credential': credential });
  t.match(await identityOf(k(limited), '/service/SVC1'), { ...who('superuser', 'token'), 'x-auth-services': 'SVC1', 'x-auth-token-id': /./ });
  t.match(await identityOf(c(cookie)), { ...who('superuser', 'session'), 'x-auth-scope': 'global', 'x-auth-token-id': undefined });
  t.match(await identityOf(k(LEGACY_KEY)), { 'x-auth-customer-id': 'C1', 'x-auth-credential': 'legacy_key' });
  t.same(await identityOf({}, '/open'), {}, 'nobody');
}); // prettier-ignore

t.test('signs the identity if assertions are enabled', async (t) => {
  const assertion = { enabled: true, issuer: 'https://auth.example.com', audience: 'api' };
  const signing = await startInProcess(t, { identity: { assertion } });
  const { json } = await signing.request('/.well-known/jwks.json');
  const headers = k(await signing.token('engineer', { service_id: 'SVC1' }));
  const { forwarded } = await signing.request('/service/SVC1', { headers });
  const [head = '', claims = '', signature = ''] = (forwarded?.fields['x-auth-assertion'] ?? '').split('.');
  const publicKey = createPublicKey({ key: json.keys[0], format: 'jwk' });
  t.ok(verify(null, Buffer.from(`${head}.${claims}`), publicKey, Buffer.from(signature, 'base64url')));
  const told = JSON.parse(Buffer.from(claims, 'base64url').toString());
  t.match(told, {
    iss: assertion.issuer,
    aud: assertion.audience,
    sub: 'engineer',
    exp: Number,
    iat: Number,
  });
});

t.test('explain: simulates a request for any credential, and says why a credential is invalid', async (t) => {
  const ask = (as: Parameters<Simulator['simulate']>[0]['as'], method = 'GET', target = '/plain') =>
    simulator.simulate({ method, target, as }, Date.now());
  t.match(await ask({ key }), { verdict: { allowed: true }, credential: { user_id: 'superuser' }, note: null });
  t.match(await ask({ key: 'x' }), { verdict: { outcome: 'unauthenticated', status: 401 }, note: /no token/ });
  t.match(await ask({ key: lockedKey }), { verdict: { status: 401 }, note: /billing@example.com is locked/ });
  t.match(await ask('anonymous'), { verdict: { status: 401 }, note: /no credential/ });
  t.match(await ask({ key }, 'NOT A METHOD'), { verdict: { outcome: 'method_unknown' }, path: null });
  t.match(await ask({ key: 'a\r\nb' }), { verdict: { outcome: 'malformed' } });
  const none = new Simulator(server.loaded, null);
  t.match(await none.simulate({ method: 'GET', target: '/plain', as: { key } }, 0), { verdict: { outcome: 'unauthenticated' } });
}); // prettier-ignore
