import { createHmac, generateKeyPairSync, sign, X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { decodeJwt, type JWTPayload, jwtVerify } from 'jose';
import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { movable } from '../helpers/clock.js';
import { startInProcess, type Handled } from '../helpers/in-process.js';
import { OutcomeUnknown, StoreUnavailable } from '../../src/store/faults.js';
import { IdentityProvider } from '../helpers/identity-provider.js';
import { newPair } from '../helpers/key-server.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

const idp = await IdentityProvider.start(t);
const other = await IdentityProvider.start(t);
/** A key with the same key id as the provider's. */
const stranger = await newPair('one', 'RS256');

const providerOf = (name: string, issuer: string, more: object = {}) => ({
  name,
  title: `Log in at ${name}`,
  issuer,
  client_id: 'latchkey',
  client_secret: 'secret',
  customer_id: 'C1',
  roles: { claim: 'groups', map: { 'api-admins': 'superuser', developers: 'engineer' } },
  ...more,
});
const server = await startInProcess(t, {
  interface: { account_endpoints: true },
  tokens: { owner_login_within: '90d' },
  login: {
    oidc: [
      providerOf('sso', idp.url),
      providerOf('other', other.url, { roles: { claim: 'groups', default: 'user' } }),
    ],
    public_url: 'https://api.example',
  },
});
const { request, opened } = server;

t.beforeEach(() => {
  idp.tellTruth();
  other.tellTruth();
});

/** The name and value of each cookie that a response sets. */
function cookiesOf({ headers }: Handled): Record<string, string> {
  const set = [headers['set-cookie'] ?? []].flat();
  return Object.fromEntries(set.map((cookie) => /^([^=]+)=([^;]*)/.exec(cookie)?.slice(1) as [string, string]));
} // prettier-ignore

/** The pair of the login state cookie that a response sets. */
const stateOf = (reply: Handled) =>
  Object.entries(cookiesOf(reply))
    .find(([name]) => name.startsWith('__Host-latchkey-login-'))
    ?.join('=') ?? '';

/** Starts a login: the response, the provider's URL, and the state cookie. */
async function begin(query = '', provider = 'sso') {
  const reply = await request(`/_latchkey/oidc/${provider}/login${query}`);
  const location = String(reply.headers.location);
  return { reply, location, cookie: stateOf(reply) };
}

function callback(query: URLSearchParams | string, cookie: string, provider = 'sso') {
  return request(`/_latchkey/oidc/${provider}/callback?${query}`, { headers: { Cookie: cookie } });
}

/** A complete login. */
async function logIn(query = '', cookies = '') {
  const { location, cookie } = await begin(query);
  const reply = await callback(idp.authorize(location), cookies === '' ? cookie : `${cookies}; ${cookie}`);
  return { reply, session: cookiesOf(reply)['service.session'] ?? '' };
}

const errorOf = ({ headers }: Handled) =>
  new URL(String(headers.location), 'https://api.example').searchParams.get('login_error');
/** The audit events of a response, with their reasons. */
const eventsOf = ({ audit }: Handled) =>
  audit.map((entry) => [entry.event, entry['reason'] ?? []].flat().join(' '));
const withSession = (session: string) => ({ headers: { Cookie: `service.session=${session}` } });
const whoIs = async (session: string) =>
  (await request('/_latchkey/session', withSession(session))).json?.user;

t.test('a login creates a user and a session, and returns to the page', async (t) => {
  const { reply, location, cookie } = await begin('?return_to=/reports?year=1');
  t.equal(reply.status, 303);
  t.match(reply.headers['set-cookie'], [/^__Host-latchkey-login-[\w-]{12}=[^;]+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/]);
  const asked = Object.fromEntries(new URL(location).searchParams);
  t.match(asked, {
    response_type: 'code',
    client_id: 'latchkey',
    redirect_uri: 'https://api.example/_latchkey/oidc/sso/callback',
    scope: 'openid email profile',
    code_challenge_method: 'S256',
    code_challenge: /^[\w-]{43}$/,
    state: /^[\w-]{43}$/,
    nonce: /^[\w-]{43}$/,
  });
  const done = await callback(idp.authorize(location), cookie);
  t.match(done, { status: 303, headers: { location: '/reports?year=1' } });
  t.same(done.audit.map(({ event }) => event), ['user.created', 'login.succeeded', 'session.started']);
  t.match(done.headers['set-cookie'], [/^service\.session=[^;]+; Path=\/; Max-Age=43200; HttpOnly; SameSite=Lax; Secure$/]);
  const { 'service.session': session = '' } = cookiesOf(done);
  const user = await whoIs(session);
  t.match(user, { login: 'ann@idp.example', name: 'Ann', role: 'engineer', customer_id: 'C1', id: /^oidc[0-9a-f]{40}$/ });
  const stored = await opened.store.directory.getUser(user.id);
  t.match(stored, { passwordHash: null, otpSecret: null, provider: { name: 'sso', issuer: idp.url, subject: 'ann' } });
  const { json: sessions } = await request('/_latchkey/sessions', withSession(session));
  t.match(sessions, [{ provider: 'sso', current: true }]);
  const again = await logIn('', `service.session=${session}`);
  t.same(eventsOf(again.reply), ['login.succeeded', 'session.started', 'session.ended new_login']);
  t.equal(again.reply.headers.location, '/_latchkey/');
  t.equal((await whoIs(again.session)).id, user.id, 'the same user');
  t.equal((await whoIs(session)), undefined, 'the previous session has ended');
  const { json: methods } = await request('/_latchkey/login-methods');
  t.same(methods, { password: true, providers: [{ name: 'sso', title: 'Log in at sso' }, { name: 'other', title: 'Log in at other' }] });
}); // prettier-ignore

/** An attack or a fault: its name, the error that the page shows, and how to make it. */
type Attack = [what: string, error: string, attempt: () => Promise<Handled>];

/** A login whose ID token has changed claims. */
const withClaims = (claims: Record<string, unknown>) => async () => {
  idp.claims = claims;
  return (await logIn()).reply;
};
/** A login whose ID token is made by a function. */
const withToken = (make: (claims: JWTPayload) => string | Promise<string>) => async () => {
  idp.idToken = make;
  return (await logIn()).reply;
};
/** A login whose callback has a changed query. */
const withQuery = (change: (query: URLSearchParams) => void) => async () => {
  const { location, cookie } = await begin();
  const query = idp.authorize(location);
  change(query);
  return callback(query, cookie);
};
const nowSeconds = () => Math.floor(Date.now() / 1000);
const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

const ATTACKS: Attack[] = [
  ['the provider is unreachable at the start', 'provider_unavailable', async () => {
    const fresh = await startOther({ issuer: 'http://127.0.0.1:1' });
    const reply = await fresh('/_latchkey/oidc/sso/login?return_to=/reports');
    t.match(reply.headers.location, /&return_to=%2Freports$/);
    return reply;
  }],
  ['the provider is unreachable at the token request', 'provider_unavailable', async () => {
    const { location, cookie } = await begin();
    const query = idp.authorize(location);
    idp.away = true;
    return callback(query, cookie);
  }],
  ['the provider fails at the token request', 'provider_unavailable', async () => {
    idp.answers['/token'] = { status: 502, json: {} };
    return (await logIn()).reply;
  }],
  ['the provider limits the rate', 'provider_unavailable', async () => {
    idp.answers['/token'] = { status: 429, json: {} };
    return (await logIn()).reply;
  }],
  ['the metadata names another issuer', 'provider_unavailable', async () => {
    other.metadata = { issuer: idp.url };
    return (await startOther({ issuer: other.url }))('/_latchkey/oidc/sso/login');
  }],
  ['the metadata leads browsers to http://', 'provider_unavailable', async () => {
    other.metadata = { authorization_endpoint: 'http://idp.example/authorize' };
    return (await startOther({ issuer: other.url }))('/_latchkey/oidc/sso/login');
  }],
  ['the metadata sends the code to http://', 'provider_unavailable', async () => {
    other.metadata = { token_endpoint: 'http://idp.example/token' };
    return (await startOther({ issuer: other.url }))('/_latchkey/oidc/sso/login');
  }],
  ['the token endpoint leads somewhere else', 'invalid_answer', async () => {
    idp.answers['/token'] = { status: 307, json: {} };
    return (await logIn()).reply;
  }],
  ['the response is too long', 'provider_unavailable', async () => {
    idp.answers['/token'] = { json: { pad: 'x'.repeat(300_000) } };
    return (await logIn()).reply;
  }],
  ['the response is nested too deeply', 'invalid_answer', async () => {
    let json: unknown = 1;
    for (let i = 0; i < 100; i++) json = [json];
    idp.answers['/token'] = { json };
    return (await logIn()).reply;
  }],
  ['the user cancels', 'provider_refused', withQuery((query) => {
    query.delete('code');
    query.set('error', 'access_denied');
  })],
  ['no ID token', 'invalid_answer', async () => {
    idp.answers['/token'] = { json: { access_token: 'at', token_type: 'Bearer' } };
    return (await logIn()).reply;
  }],
  ['login CSRF: the callback of another browser', 'not_begun', async () => {
    const { location } = await begin();
    return callback(idp.authorize(location), 'a=b');
  }],
  ['swapped state: of another login of this browser', 'not_begun', async () => {
    const first = await begin();
    const second = await begin();
    return callback(idp.authorize(first.location), second.cookie);
  }],
  ['no state', 'not_begun', withQuery((query) => query.delete('state'))],
  ['two states', 'invalid_answer', withQuery((query) => query.append('state', 'x'))],
  ['two codes', 'invalid_answer', withQuery((query) => query.append('code', 'x'))],
  ['two state cookies', 'not_begun', async () => {
    const { location, cookie } = await begin();
    return callback(idp.authorize(location), `${cookie}; ${cookie}`);
  }],
  ['a state cookie that was changed', 'not_begun', async () => {
    const { location, cookie } = await begin();
    return callback(idp.authorize(location), `${cookie.slice(0, -3)}AAA`);
  }],
  ['the state of another provider', 'not_begun', async () => {
    const { location, cookie } = await begin('', 'other');
    return callback(idp.authorize(location), cookie, 'sso');
  }],
  ['a replayed code', 'not_begun', async () => {
    const { location, cookie } = await begin();
    const query = idp.authorize(location);
    idp.reusesCodes = true;
    t.equal((await callback(query, cookie)).headers.location, '/_latchkey/');
    return callback(query, cookie);
  }],
  ['a code of another login', 'invalid_answer', async () => {
    const first = await begin();
    const second = await begin();
    const query = idp.authorize(first.location);
    query.set('state', new URL(second.location).searchParams.get('state') ?? '');
    return callback(query, second.cookie);
  }],
  ['an invented code', 'invalid_answer', withQuery((query) => query.set('code', 'x'))],
  ['mix-up: the answer names another issuer', 'invalid_answer', withQuery((query) => query.set('iss', other.url))],
  ['mix-up: the answer names no issuer', 'invalid_answer', withQuery((query) => query.delete('iss'))],
  ['mix-up: an ID token of another issuer', 'invalid_answer', withClaims({ iss: other.url })],
  ['another audience', 'invalid_answer', withClaims({ aud: 'somebody' })],
  ['several audiences, and the token is for another one', 'invalid_answer', withClaims({ aud: ['latchkey', 'somebody'], azp: 'somebody' })],
  ['several audiences, and no authorized party', 'invalid_answer', withClaims({ aud: ['latchkey', 'somebody'] })],
  ['an authorized party that is another', 'invalid_answer', withClaims({ azp: 'somebody' })],
  ['issued in the future', 'invalid_answer', withClaims({ iat: nowSeconds() + 90 })],
  ['issued long ago', 'invalid_answer', withClaims({ iat: nowSeconds() - 400 })],
  ['a time of issue as text', 'invalid_answer', withClaims({ iat: 'now' })],
  ['no time of issue', 'invalid_answer', withClaims({ iat: undefined })],
  ['an expiry as text', 'invalid_answer', withClaims({ exp: String(nowSeconds() + 60) })],
  ['a subject that is a number', 'invalid_answer', withClaims({ sub: 5 })],
  ['a time of login as text', 'invalid_answer', async () => {
    idp.claims = { auth_time: String(nowSeconds()) };
    return (await logIn('?fresh=1')).reply;
  }],
  ['an unknown critical extension', 'invalid_answer', withToken((claims) => idp.sign(claims, { crit: ['b64'], b64: true }))],
  ['a response as a JWT', 'invalid_answer', withQuery((query) => query.set('response', 'x.y.z'))],
  ['an ID token in the query', 'invalid_answer', withQuery((query) => query.set('id_token', 'x.y.z'))],
  ['another type of access token', 'invalid_answer', async () => {
    idp.answers['/token'] = { json: { access_token: 'at', token_type: 'MAC', id_token: await idp.sign({}) } };
    return (await logIn()).reply;
  }],
  ['a key set with a weak key', 'invalid_answer', async () => {
    const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 1024 });
    const jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'weak', alg: 'RS256' };
    idp.published = [{ ...idp.pair, jwk, kid: 'weak' }];
    idp.idToken = (claims) => {
      const text = `${part({ alg: 'RS256', kid: 'weak' })}.${part({ ...claims })}`;
      return `${text}.${sign('sha256', Buffer.from(text), privateKey).toString('base64url')}`;
    };
    const fresh = await startOther({});
    const begun = await fresh('/_latchkey/oidc/sso/login');
    const cookie = stateOf(begun);
    const path = `/_latchkey/oidc/sso/callback?${idp.authorize(String(begun.headers.location))}`;
    return fresh(path, { headers: { Cookie: cookie } });
  }],
  ['a key set with half a key', 'invalid_answer', async () => {
    idp.published = [{ ...idp.pair, jwk: { kty: 'RSA', kid: 'one', alg: 'RS256' } }];
    const fresh = await startOther({});
    const begun = await fresh('/_latchkey/oidc/sso/login');
    const cookie = stateOf(begun);
    const path = `/_latchkey/oidc/sso/callback?${idp.authorize(String(begun.headers.location))}`;
    return fresh(path, { headers: { Cookie: cookie } });
  }],
  ['another nonce', 'invalid_answer', withClaims({ nonce: 'x' })],
  ['no nonce', 'invalid_answer', withClaims({ nonce: undefined })],
  ['expired', 'invalid_answer', withClaims({ exp: nowSeconds() - 40 })],
  ['not yet', 'invalid_answer', withClaims({ nbf: nowSeconds() + 90 })],
  ['no expiry', 'invalid_answer', withClaims({ exp: undefined })],
  ['no subject', 'invalid_answer', withClaims({ sub: undefined })],
  ['an empty subject', 'invalid_answer', withClaims({ sub: '' })],
  ['unsigned', 'invalid_answer', withToken((claims) => `${part({ alg: 'none' })}.${part(claims)}.`)],
  ['HS256 by the client secret', 'invalid_answer', withToken((claims) => hs256(claims, 'secret'))],
  ['HS256 by the public key', 'invalid_answer', withToken((claims) => hs256(claims, JSON.stringify(idp.pair.jwk)))],
  ['signed by another key', 'invalid_answer', withToken((claims) => idp.sign(claims, {}, stranger))],
  ['signed by an embedded key', 'invalid_answer', withToken((claims) => idp.sign(claims, { jwk: stranger.jwk }, stranger))],
  ['a changed signature', 'invalid_answer', withToken(async (claims) => (await idp.sign(claims)).replace(/.{4}$/, 'AAAA'))],
  ['no email', 'login_missing', withClaims({ email: undefined })],
  ['an email that is a list', 'login_missing', withClaims({ email: ['ann@idp.example'] })],
  ['an email with a control character', 'login_missing', withClaims({ email: 'ann\n@idp.example' })],
  ['a reserved login name', 'login_missing', withClaims({ email: 'deletion-pending+x' })],
  ['an email that is not verified', 'email_unverified', withClaims({ email_verified: false })],
  ['an email with email_verified as other text', 'email_unverified', withClaims({ email_verified: 'True' })],
  ['no group', 'no_role', withClaims({ sub: 'bob', email: 'bob@idp.example', groups: undefined })],
  ['another group', 'no_role', withClaims({ sub: 'bob', email: 'bob@idp.example', groups: ['Developers', 'x'] })],
  ['pre-account-hijacking: the login of a user with a password', 'login_taken', withClaims({ sub: 'eve', email: 'Superuser@example.com' })],
  ['the login of another user', 'login_taken', withClaims({ sub: 'eve', email: 'ANN@idp.example' })],
  ['a fresh login that the provider did not ask for', 'not_fresh', async () => {
    idp.claims = { auth_time: nowSeconds() - 120 };
    return (await logIn('?fresh=1')).reply;
  }],
  ['a fresh login of the future', 'not_fresh', async () => {
    idp.claims = { auth_time: nowSeconds() + 120 };
    return (await logIn('?fresh=1')).reply;
  }],
  ['a hash of another access token', 'invalid_answer', withClaims({ at_hash: 'AAAAAAAAAAAAAAAAAAAAAA' })],
  ['a hash that is not text', 'invalid_answer', withClaims({ at_hash: null })],
  ['an email that was not the verified one', 'email_unverified', async () => {
    idp.claims = { email: 'superuser2@example.com', email_verified: undefined };
    idp.userInfo = { email: 'ann@idp.example', email_verified: true };
    return (await logIn()).reply;
  }],
  ['an email that was not verified, with a claim about another one', 'email_unverified', async () => {
    idp.claims = { email: undefined, email_verified: true };
    idp.userInfo = { email: 'ann@idp.example', email_verified: false };
    return (await logIn()).reply;
  }],
  ['a fresh login without a time', 'not_fresh', async () => {
    idp.claims = { auth_time: undefined };
    return (await logIn('?fresh=1')).reply;
  }],
]; // prettier-ignore

function hs256(claims: JWTPayload, secret: string): string {
  const text = `${part({ alg: 'HS256', kid: 'one' })}.${part({ ...claims })}`;
  return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
}

/** Starts a server with one provider and the store of the first server. */
async function startSharing(provider: object) {
  const login = { oidc: [provider], public_url: 'https://api.example' };
  return startInProcess(t, { login }, { opened: () => ({ store: opened.store }) });
}

/** A complete login at a server's provider. */
async function logInAt({ request }: Pick<typeof server, 'request'>, at = idp) {
  const begun = await request('/_latchkey/oidc/sso/login');
  const headers = { Cookie: stateOf(begun) };
  const query = at.authorize(String(begun.headers.location));
  const reply = await request(`/_latchkey/oidc/sso/callback?${query}`, { headers });
  return { reply, begun, session: cookiesOf(reply)['service.session'] ?? '' };
}

/** Starts a server with one provider; returns how to send requests to it. */
async function startOther(provider: object) {
  const started = await startInProcess(t, {
    login: { oidc: [providerOf('sso', idp.url, provider)], public_url: 'https://api.example' },
  });
  return started.request;
}

t.test('no attack and no fault gives a session', async (t) => {
  t.equal((await logIn()).reply.headers.location, '/_latchkey/', 'a valid login succeeds');
  for (const [what, error, attempt] of ATTACKS) {
    idp.tellTruth();
    other.tellTruth();
    const reply = await attempt();
    t.same([reply.status, errorOf(reply)], [303, error], what);
    t.equal(cookiesOf(reply)['service.session'], undefined, `${what}: no session`);
    if (reply.headers['set-cookie'] !== undefined)
      t.same(eventsOf(reply), [`login.failed ${error}`], `${what}: audit log`);
  }
  for (const name of ['nobody', 'SSO', 'sso%20'])
    for (const end of ['login', 'callback', 'logout'])
      t.equal((await request(`/_latchkey/oidc/${name}/${end}`)).status, 404, `${name}/${end}`);
});

t.test('a forged callback does not disturb the login in progress', async (t) => {
  const { location, cookie } = await begin();
  const query = idp.authorize(location);
  for (const made of ['', 'code=x', 'code=x&state=x', 'error=access_denied&state=x']) {
    const reply = await callback(made, cookie);
    t.same([errorOf(reply), reply.headers['set-cookie']], ['not_begun', undefined], made);
  }
  t.equal((await callback(query, cookie)).headers.location, '/_latchkey/');
});

/** Keeps cookies like a browser: the oldest first. */
class Jar {
  readonly #cookies = new Map<string, string>();

  keep(reply: Handled): Handled {
    for (const [name, value] of Object.entries(cookiesOf(reply)))
      if (value === '') this.#cookies.delete(name);
      else this.#cookies.set(name, value);
    return reply;
  }

  get headers() {
    return { Cookie: [...this.#cookies].map((pair) => pair.join('=')).join('; ') };
  }
}

t.test('parallel logins are independent; of more than five, the oldest is forgotten', async (t) => {
  const jar = new Jar();
  const start = async (returnTo: string) =>
    idp.authorize(String(jar.keep(await request(`/_latchkey/oidc/sso/login?return_to=${returnTo}`, { headers: jar.headers })).headers.location));
  const end = async (query: URLSearchParams) => jar.keep(await request(`/_latchkey/oidc/sso/callback?${query}`, { headers: jar.headers })).headers.location;
  const begun: URLSearchParams[] = [];
  for (const path of ['/1', '/2', '/3', '/4', '/5', '/6']) begun.push(await start(path));
  t.equal(jar.headers.Cookie.split('latchkey-login-').length - 1, 5);
  const [oldest, ...others] = begun as [URLSearchParams, ...URLSearchParams[]];
  t.match(await end(oldest), /login_error=not_begun/);
  for (const [i, query] of others.toReversed().entries()) t.equal(await end(query), `/${6 - i}`);

  // Servers refuse heads that are too long.
  for (let i = 0; i < 5; i++) await start(`/${'a'.repeat(2_000)}`);
  t.ok(jar.headers.Cookie.length < 5_000);
}); // prettier-ignore

t.test('a callback that no login began shows no error to somebody who is logged in', async (t) => {
  const jar = new Jar();
  const begun = jar.keep(await request('/_latchkey/oidc/sso/login?return_to=/orders%23/deep'));
  const back = `/_latchkey/oidc/sso/callback?${idp.authorize(String(begun.headers.location))}`;
  t.equal(jar.keep(await request(back, { headers: jar.headers })).headers.location, '/orders#/deep');
  const again = await request(back, { headers: jar.headers });
  t.match(again, { status: 303, headers: { location: '/orders#/deep', 'set-cookie': undefined } });
  const other = '/_latchkey/oidc/sso/callback?code=x&state=x';
  t.equal((await request(other, { headers: jar.headers })).headers.location, '/_latchkey/');
  t.equal(errorOf(await request(other)), 'not_begun', 'without a session');
});

t.test('how the client authenticates', async (t) => {
  const folder = temporaryFolder(t);
  const { cert, key } = selfSigned(folder, 'client');
  const both = join(folder, 'both.pem');
  writeFileSync(both, readFileSync(cert, 'utf8') + readFileSync(key, 'utf8'));
  const signed = { client_secret: null, client_auth: 'private_key_jwt' };
  const rows: [IdentityProvider['authentication'], object, string[]?][] = [
    ['post', {}, ['client_secret_post']],
    ['post', { client_auth: 'post' }],
    ['basic', { client_auth: 'basic' }, ['client_secret_post']],
    ['none', { client_secret: null }, ['client_secret_basic', 'none']],
    ['signed', { ...signed, client_key: key }],
    ['signed', { ...signed, client_key: both }],
  ];
  for (const [authentication, settings, methods] of rows) {
    const fresh = await IdentityProvider.start(t, 'ES256');
    Object.assign(fresh, { authentication, metadata: { token_endpoint_auth_methods_supported: methods } });
    const server = await startInProcess(t, { login: { oidc: [providerOf('sso', fresh.url, settings)], public_url: 'https://api.example' } });
    t.equal((await logInAt(server, fresh)).reply.headers.location, '/_latchkey/', authentication);
    if (authentication !== 'signed') continue;
    const certificate = new X509Certificate(readFileSync(cert));
    const { payload, protectedHeader } = await jwtVerify(fresh.assertion, certificate.publicKey, { issuer: 'latchkey', subject: 'latchkey', audience: `${fresh.url}/token` });
    t.match(payload, { jti: /./, exp: Number });
    const print = Buffer.from(certificate.fingerprint256.replaceAll(':', ''), 'hex').toString('base64url');
    t.equal(protectedHeader['x5t#S256'], 'client_key' in settings && settings.client_key === both ? print : undefined);
  }
}); // prettier-ignore

t.test('a provider whose configuration is elsewhere, and more parameters for it', async (t) => {
  const fresh = await IdentityProvider.start(t);
  fresh.issuer = 'https://sso.example/realms/x';
  const authorization = { prompt: 'select_account', domain_hint: 'idp.example' };
  const more = { discovery: `${fresh.url}/.well-known/openid-configuration`, authorization };
  const server = await startInProcess(t, {
    login: { oidc: [providerOf('sso', fresh.issuer, more)], public_url: 'https://api.example' },
  });
  const { begun, session } = await logInAt(server, fresh);
  t.match(Object.fromEntries(new URL(String(begun.headers.location)).searchParams), authorization);
  t.not(session, '');
  const again = await server.request('/_latchkey/oidc/sso/login?fresh=1');
  t.equal(
    new URL(String(again.headers.location)).searchParams.get('prompt'),
    'login',
    'a fresh login has its own',
  );
});

t.test('accepts an ID token with a hash of its access token', async (t) => {
  for (const algorithm of ['RS256', 'PS384', 'ES512', 'EdDSA']) {
    const fresh = await IdentityProvider.start(t, algorithm);
    Object.assign(fresh, { namesAccessToken: true, metadata: { id_token_signing_alg_values_supported: [algorithm] } });
    const { request } = await startInProcess(t, { login: { oidc: [providerOf('sso', fresh.url)], public_url: 'https://api.example' } });
    const begun = await request('/_latchkey/oidc/sso/login');
    const query = fresh.authorize(String(begun.headers.location));
    const headers = { Cookie: stateOf(begun) };
    t.equal((await request(`/_latchkey/oidc/sso/callback?${query}`, { headers })).headers.location, '/_latchkey/', algorithm);
  }
}); // prettier-ignore

t.test('tolerates half a minute of clock skew', async (t) => {
  for (const claims of [{ exp: nowSeconds() - 20 }, { nbf: nowSeconds() + 20 }, { iat: nowSeconds() + 20 }]) {
    idp.claims = claims;
    t.equal((await logIn()).reply.headers.location, '/_latchkey/', JSON.stringify(Object.keys(claims)));
  }
});

t.test('return_to leads to the same origin, or is ignored', async (t) => {
  for (const [path, to] of [
    ['/reports', '/reports'],
    ['/a?b=/c#d', '/a?b=/c#d'],
    ['https://api.example/a?b#c', '/a?b#c'],
    ['https://api.example.evil/a', '/_latchkey/'],
    ['http://api.example/a', '/_latchkey/'],
    ['//evil.example', '/_latchkey/'],
    ['/\\evil.example', '/_latchkey/'],
    ['https://evil.example', '/_latchkey/'],
    ['/\t/evil.example', '/_latchkey/'],
    ['javascript:alert(1)', '/_latchkey/'],
    ['evil', '/_latchkey/'],
    ['', '/_latchkey/'],
  ] as const) {
    const { reply } = await logIn(`?return_to=${encodeURIComponent(path)}`);
    t.equal(reply.headers.location, to, path);
  }
  t.equal((await logIn('?return_to=/a&return_to=/b')).reply.headers.location, '/_latchkey/');
});

t.test('the role follows the claim; without one, sessions of the user end', async (t) => {
  const { session } = await logIn();
  const { id } = await whoIs(session);
  t.match(await whoIs((await logIn()).session), { role: 'engineer' });
  idp.claims = { groups: ['developers', 'api-admins'] };
  const promoted = await logIn();
  t.match(await whoIs(promoted.session), { role: 'superuser' }, 'the first entry of the map counts');
  t.match(promoted.reply.audit, [{ event: 'user.changed', reason: 'role' }]);
  idp.claims = { groups: 'developers' };
  t.match(await whoIs((await logIn()).session), { role: 'engineer' }, 'a single value as text');
  idp.claims = { groups: [] };
  const { reply } = await logIn();
  t.equal(errorOf(reply), 'no_role');
  t.match(reply.audit, [{ event: 'user.changed', reason: 'no_role' }, { event: 'login.failed', reason: 'no_role' }]);
  t.same([await whoIs(session), await whoIs(promoted.session)], [undefined, undefined], 'no session is left');
  t.match(await opened.store.directory.getUser(id), { locked: true });
  idp.claims = {};
  const back = await logIn();
  t.match(await whoIs(back.session), { id, role: 'engineer' });
  const user = await opened.store.directory.getUser(id);
  if (user === undefined) throw new Error('the user is gone');
  await opened.store.directory.change({ users: [{ ...user, locked: true, lockedBy: 'operator', updatedAt: user.updatedAt + 1 }] }, Date.now());
  t.equal(errorOf((await logIn()).reply), 'locked', 'an operator locked the user');
  const locked = await opened.store.directory.getUser(id);
  if (locked === undefined) throw new Error('the user is gone');
  await opened.store.directory.change({ users: [{ ...user, updatedAt: locked.updatedAt + 1 }] }, Date.now());
  t.match(await whoIs((await logIn()).session), { id });
}); // prettier-ignore

t.test('claims missing from the ID token are read from UserInfo', async (t) => {
  idp.claims = { email: undefined, email_verified: undefined, groups: undefined };
  idp.userInfo = { email: 'ann@idp.example', email_verified: true, groups: ['api-admins'] };
  t.match(await whoIs((await logIn()).session), { role: 'superuser' });
  idp.claims = { email_verified: undefined };
  t.ok(await whoIs((await logIn()).session), 'whether the same email is verified');
  idp.claims = { groups: undefined };
  idp.userInfo = { ...idp.userInfo, sub: 'somebody' };
  t.equal(errorOf((await logIn()).reply), 'invalid_answer', 'about another user');
});

t.test('a user of a provider has no password', async (t) => {
  await logIn();
  const body = new URLSearchParams({ user: 'ann@idp.example', password: 'x' });
  t.match(await request('/login', { body }), { status: 401, json: { code: 'invalid_grant' } });
});

t.test('a fresh login replaces the password of a user without one', async (t) => {
  const stale = (await logIn()).session;
  const create = (session: string, more: Record<string, string> = {}) =>
    request('/tokens', { ...withSession(session), body: new URLSearchParams({ name: 'ci', ...more }) });
  const refused = await create(stale);
  t.match(refused, { status: 400, json: { code: 'invalid_request', detail: /oidc\/sso\/login\?fresh=1/ } });
  const { location } = await begin('?fresh=1');
  t.match(Object.fromEntries(new URL(location).searchParams), { max_age: '0', prompt: 'login' });
  const { reply, session } = await logIn('?fresh=1', `service.session=${stale}`);
  t.match(eventsOf(reply), ['login.succeeded', 'session.started', 'session.ended new_login', 'sudo.granted fresh_login']);
  const created = await create(session, { scope: 'global:read' });
  t.match(created, { status: 200, json: { name: 'ci', scope: 'global:read', access_token: /^lk/ } });
  t.same(eventsOf(created), ['token.created']);
  t.equal((await create(stale)).status, 400, 'the previous session has ended');
  t.match(await create(session, { scope: 'nothing' }), { status: 400, json: { code: 'invalid_scope' } });
  t.match(await create(session, { password: 'x' }), { status: 400 }, 'a password is still checked');
  t.match(await create(session, { username: 'ann@idp.example' }), { status: 400 });
  const elsewhere = { Cookie: `service.session=${session}`, 'Sec-Fetch-Site': 'cross-site' };
  t.equal((await request('/tokens', { headers: elsewhere, body: new URLSearchParams({ name: 'x' }) })).status, 403);
  const sudo = await request('/sudo', { ...withSession(session), method: 'POST', body: new URLSearchParams() });
  t.match(sudo, { status: 200, json: { expiry_time: /^\d{4}/ } });
  t.same(eventsOf(sudo), ['sudo.granted']);
  const second = (await logIn()).session;
  t.equal((await create(second)).status, 400, 'another session of the same user is not fresh');
  const { id } = await whoIs(session);
  const user = await opened.store.directory.getUser(id);
  if (user === undefined) throw new Error('the user is gone');
  const minutesAgo = Date.now() - 6 * 60_000;
  await opened.store.sessions.grantSudo(user, `fresh-login.${(await sessionOf(session)).id}`, minutesAgo + 300_000);
  t.equal((await create(session)).status, 400, 'expired after five minutes');
  t.match(await create(await passwordSession()), { status: 400, json: { detail: /username and password/ } }, 'users with a password need it');
}); // prettier-ignore

const passwordSession = () => server.login('engineer').then((cookie) => cookie.replace(/^[^=]+=/, ''));

const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout';

/** The listed entry of the session that asks. */
async function sessionOf(session: string): Promise<{ id: string }> {
  const { json } = await request('/_latchkey/sessions', withSession(session));
  return (json as { id: string; current: boolean }[]).find(({ current }) => current) as { id: string };
}

t.test('a provider can end sessions at once', async (t) => {
  const logout = (token: string) =>
    request('/_latchkey/oidc/sso/backchannel-logout', { body: new URLSearchParams({ logout_token: token }) });
  idp.claims = { sid: 'one' };
  const one = (await logIn()).session;
  idp.claims = { sid: 'two' };
  const two = (await logIn()).session;
  const isOn = async (session: string) => (await whoIs(session)) !== undefined;
  const good = { sub: 'ann', sid: 'one' };
  const now = nowSeconds();
  const none: [string, Promise<string>][] = [
    ['no token', Promise.resolve('')],
    ['no subject and no session', idp.logoutToken({})],
    ['another audience', idp.logoutToken({ ...good, aud: 'somebody' })],
    ['another issuer', idp.logoutToken({ ...good, iss: other.url })],
    ['another provider', other.logoutToken(good)],
    ['old', idp.logoutToken({ ...good, iat: now - 400 })],
    ['old, without an expiry', idp.logoutToken({ ...good, iat: now - 400, exp: undefined })],
    ['of the future', idp.logoutToken({ ...good, iat: now + 120 })],
    ['expired', idp.logoutToken({ ...good, exp: now - 60 })],
    ['no event', idp.logoutToken({ ...good, events: {} })],
    ['an ID token', idp.sign({ iss: idp.url, aud: 'latchkey', iat: now, exp: now + 60, jti: 'x', nonce: 'x', ...good })],
    ['with a nonce', idp.logoutToken({ ...good, nonce: 'x' })],
    ['an event that is not an object', idp.logoutToken({ ...good, events: { [LOGOUT_EVENT]: true } })],
    ['an event that is a list', idp.logoutToken({ ...good, events: { [LOGOUT_EVENT]: [] } })],
    ['events in a list', idp.logoutToken({ ...good, events: [LOGOUT_EVENT] })],
    ['no time', idp.logoutToken({ ...good, iat: undefined })],
    ['no id', idp.logoutToken({ ...good, jti: undefined })],
    ['an id that is not text', idp.logoutToken({ ...good, jti: 5 })],
    ['a subject that is not text', idp.logoutToken({ ...good, sub: ['ann'] })],
    ['a session that is not text', idp.logoutToken({ ...good, sid: 1 })],
    ['an empty session', idp.logoutToken({ ...good, sid: '' })],
    ['unsigned', idp.logoutToken(good).then((token) => `${part({ alg: 'none' })}.${token.split('.')[1]}.`)],
    ['HS256', Promise.resolve(hs256({ iss: idp.url, aud: 'latchkey', iat: now, jti: 'x', events: { 'http://schemas.openid.net/event/backchannel-logout': {} }, ...good }, 'secret'))],
  ];
  const reasons = new Set<unknown>();
  for (const [what, token] of none) {
    const refused = await logout(await token);
    t.match(refused, { status: 400 }, what);
    t.same(eventsOf(refused), ['logout.refused invalid_token'], what);
    for (const { msg, reason } of refused.log) if (msg === 'identity provider logout refused') reasons.add(reason);
    t.same([await isOn(one), await isOn(two)], [true, true], what);
  }
  t.ok(reasons.has('the claim events names no logout') && reasons.has('missing required "iat" claim'));
  t.ok(reasons.has(`the claim iss is ${other.url}, not ${idp.url}`), 'the log has each reason');
  t.match(await logout(await idp.logoutToken({ sub: 'somebody' })), { status: 200 });
  t.match(await logout(await idp.logoutToken({ sid: 'none' })), { status: 200 });
  t.same([await isOn(one), await isOn(two)], [true, true], 'another user');
  const ended = await logout(await idp.logoutToken(good));
  t.match(ended, { status: 200, text: '' });
  t.same(eventsOf(ended), ['session.ended provider_logout']);
  t.same([await isOn(one), await isOn(two)], [false, true], 'one session');
  const second = await idp.logoutToken({ sid: 'two', exp: undefined });
  t.equal((await logout(second)).status, 200);
  t.equal(await isOn(two), false, 'a session without the subject, by a token without an expiry');
  t.same(eventsOf(await logout(second)), ['logout.refused repeated_token']);
  idp.claims = { sid: 'moved' };
  const moved = (await logIn()).session;
  const user = await opened.store.directory.getUser((await whoIs(moved)).id);
  if (user === undefined) throw new Error('the user is gone');
  await opened.store.directory.change({ users: [{ ...user, customerId: 'C2', updatedAt: user.updatedAt + 1 }] }, Date.now());
  t.equal(await isOn(moved), true);
  await logout(await idp.logoutToken({ sid: 'moved' }));
  t.equal(await isOn(moved), false, 'a session of a user of another customer');
  const three = (await logIn()).session;
  const four = (await logIn()).session;
  await logout(await idp.logoutToken({ sub: 'ann' }));
  t.same([await isOn(three), await isOn(four)], [false, false], 'all sessions of a user');
}); // prettier-ignore

t.test('a provider can get a new name in the configuration', async (t) => {
  const login = { oidc: [providerOf('renamed', idp.url)], public_url: 'https://api.example' };
  const renamed = await startInProcess(t, { login }, { opened: () => ({ store: opened.store }) });
  for (const claims of [{ sub: 'ann' }, { sid: 'one' }, { sub: 'ann', sid: 'one' }]) {
    idp.claims = { sid: 'one' };
    const { session } = await logIn();
    t.match(await renamed.request('/_latchkey/session', withSession(session)), { json: { provider: { name: 'renamed' } } });
    const refused = await renamed.request('/tokens', { ...withSession(session), method: 'POST', body: new URLSearchParams({ name: 'x' }) });
    t.match(refused, { status: 400, json: { detail: /\/_latchkey\/oidc\/renamed\/login\?fresh=1/ } });
    const body = new URLSearchParams({ logout_token: await idp.logoutToken(claims) });
    t.equal((await renamed.request('/_latchkey/oidc/renamed/backchannel-logout', { body })).status, 200);
    t.equal(await whoIs(session), undefined, JSON.stringify(claims));
    const { location, cookie } = await begin();
    const again = new URLSearchParams({ logout_token: await idp.logoutToken(claims) });
    t.equal((await renamed.request('/_latchkey/oidc/renamed/backchannel-logout', { body: again })).status, 200);
    t.equal(errorOf(await callback(idp.authorize(location), cookie)), 'logged_out', `during a login: ${JSON.stringify(claims)}`);
  }
}); // prettier-ignore

t.test('a session is recorded even if the store fails before its fresh login is stored', async (t) => {
  const grant = opened.store.sessions.grantSudo.bind(opened.store.sessions);
  t.teardown(() => (opened.store.sessions.grantSudo = grant));
  const rows: [error: Error, events: string[]][] = [
    [new StoreUnavailable('the store is down'), ['login.succeeded success', 'session.started success']],
    [new OutcomeUnknown('no answer'), ['login.succeeded success', 'session.started success', 'sudo.granted unknown']],
  ];
  for (const [error, events] of rows) {
    opened.store.sessions.grantSudo = () => Promise.reject(error);
    const { reply } = await logIn('?fresh=1');
    t.equal(reply.status, 503);
    t.same(reply.audit.map(({ event, outcome }) => `${String(event)} ${String(outcome)}`), events, error.name);
  }
}); // prettier-ignore

t.test('a logout token counts once, and again if it did not take effect', async (t) => {
  const logout = (token: string) =>
    request('/_latchkey/oidc/sso/backchannel-logout', { body: new URLSearchParams({ logout_token: token }) });
  const { session } = await logIn();
  const token = await idp.logoutToken({ sub: 'ann' });
  const end = opened.store.sessions.end.bind(opened.store.sessions);
  opened.store.sessions.end = () => Promise.reject(new OutcomeUnknown('no answer'));
  t.equal((await logout(token)).status, 503);
  opened.store.sessions.end = end;
  t.ok(await whoIs(session), 'the session is still valid');
  t.equal((await logout(token)).status, 200, 'the provider tries again');
  t.equal(await whoIs(session), undefined);
  const next = (await logIn()).session;
  t.equal((await logout(token)).status, 400, 'replayed');
  t.ok(await whoIs(next), 'a later session stays valid');
});

t.test('a logout while a login is under way leaves it without a session', async (t) => {
  const logout = async (claims: JWTPayload) => {
    const body = new URLSearchParams({ logout_token: await idp.logoutToken(claims) });
    t.equal((await request('/_latchkey/oidc/sso/backchannel-logout', { body })).status, 200);
  };
  const rows: [claims: Record<string, unknown>, logout: JWTPayload, error: string | null][] = [
    [{ sid: 'one' }, { sub: 'ann' }, 'logged_out'],
    [{ sid: 'one' }, { sub: 'ann', sid: 'one' }, 'logged_out'],
    [{ sid: 'one' }, { sid: 'one' }, 'logged_out'],
    [{ sid: undefined }, { sub: 'ann' }, 'logged_out'],
    [{ sid: undefined }, { sub: 'ann', sid: 'one' }, 'logged_out'],
    [{ sid: 'one' }, { sub: 'ann', sid: 'two' }, null],
    [{ sid: 'one' }, { sub: 'somebody' }, null],
    [{ sid: undefined }, { sid: 'one' }, null],
    // The provider issued the ID token after the logout, by a clock that differs from this one.
    [{ sid: 'one', iat: nowSeconds() + 20 }, { sub: 'ann' }, 'logged_out'],
  ];
  for (const [claims, told, error] of rows) {
    idp.claims = claims;
    const what = JSON.stringify([claims, told]);
    const before = await begin();
    await logout(told);
    const reply = await callback(idp.authorize(before.location), before.cookie);
    t.equal(errorOf(reply), error, `before the callback: ${what}`);
    t.equal('service.session' in cookiesOf(reply), error === null, what);
    const during = await begin();
    idp.idToken = async (made) => {
      await logout(told);
      return idp.sign(made);
    };
    t.equal(errorOf(await callback(idp.authorize(during.location), during.cookie)), error, `during the callback: ${what}`);
    idp.idToken = undefined;
    t.equal(errorOf((await logIn()).reply), null, `a login afterwards: ${what}`);
  }
  idp.claims = { sid: 'one', iat: nowSeconds() - 20 };
  const create = opened.store.sessions.create.bind(opened.store.sessions);
  await logout({ sub: 'ann' });
  t.equal(errorOf((await logIn()).reply), 'logged_out', 'the ID token is older than the logout');
  opened.store.sessions.create = async (...args) => {
    opened.store.sessions.create = create;
    await logout({ sub: 'ann' });
    return create(...args);
  };
  idp.claims = {};
  t.equal(errorOf((await logIn()).reply), 'logged_out', 'at the last moment');
}); // prettier-ignore

t.test('throttles forged callbacks by client network', async (t) => {
  const pass = movable(t, Date);
  const { request } = await startInProcess(t, {
    login: { max_failures: 1, oidc: [providerOf('sso', idp.url)], public_url: 'https://api.example' },
    listen: { trusted_proxies: ['127.0.0.1'] },
  });
  const from = (address: string, cookie = '') => ({ headers: { 'X-Forwarded-For': address, Cookie: cookie } });
  const attempt = async (change: (query: URLSearchParams) => void, address: string) => {
    const reply = await request('/_latchkey/oidc/sso/login', from(address));
    const query = idp.authorize(String(reply.headers.location));
    change(query);
    const cookie = stateOf(reply);
    const again = () => request(`/_latchkey/oidc/sso/callback?${query}`, from(address, cookie));
    return { reply: await again(), again };
  };
  const guess = (query: URLSearchParams) => query.set('code', 'x');
  const cancel = (query: URLSearchParams) => query.set('error', 'access_denied');
  for (let i = 0; i < 20; i++) {
    t.equal(errorOf((await attempt(cancel, '192.0.2.1')).reply), 'provider_refused', 'not a guess');
    t.equal(errorOf(await request('/_latchkey/oidc/sso/callback?code=x', from('192.0.2.1'))), 'not_begun', 'not a login of this browser');
    idp.claims = { groups: [] };
    t.equal(errorOf((await attempt(() => undefined, '192.0.2.1')).reply), 'no_role', 'the provider identified the user');
    idp.claims = {};
  }
  for (let i = 0; i < 20; i++) t.equal(errorOf((await attempt(guess, '192.0.2.1')).reply), 'invalid_answer');
  const asked = idp.asked.length;
  const { reply, again } = await attempt(() => undefined, '192.0.2.1');
  t.match(reply, { status: 429, headers: { 'retry-after': '1' }, json: { msg: 'Too many requests' } });
  t.equal(reply.headers['set-cookie'], undefined, 'cookies are kept');
  t.match(reply.audit, [{ event: 'login.throttled', outcome: 'denied' }]);
  t.equal(idp.asked.length, asked, 'the provider is not asked');
  t.equal(errorOf((await attempt(() => undefined, '192.0.2.2')).reply), null, 'another network');
  pass(1_000);
  t.equal((await again()).headers.location, '/_latchkey/', 'no longer throttled');
}); // prettier-ignore

t.test('a provider that answers wrongly does not lock a network out', async (t) => {
  const { request } = await startInProcess(t, {
    login: { max_failures: 1, oidc: [providerOf('sso', idp.url)], public_url: 'https://api.example' },
  });
  const attempt = async () => {
    const reply = await request('/_latchkey/oidc/sso/login');
    const headers = { Cookie: stateOf(reply) };
    const query = idp.authorize(String(reply.headers.location));
    return request(`/_latchkey/oidc/sso/callback?${query}`, { headers });
  };
  for (const answer of [
    { status: 401, json: { error: 'invalid_client' } },
    { status: 404, json: {} },
  ]) {
    idp.answers['/token'] = answer;
    for (let i = 0; i < 20; i++) t.equal(errorOf(await attempt()), 'invalid_answer');
  }
  idp.tellTruth();
  t.equal((await attempt()).headers.location, '/_latchkey/', 'logins work once the provider does');
});

t.test('limits all requests of a network, and concurrent logins at the provider', async (t) => {
  const settings = { login: { oidc: [providerOf('sso', other.url)], public_url: 'https://api.example' } };
  const first = await startInProcess(t, settings);
  const { store, sealer } = first.opened;
  const started = await startInProcess(t, settings, { opened: () => ({ store, sealer }) });
  const { loginThrottle } = store;
  const reserve = loginThrottle.reserve.bind(loginThrottle);
  const limits: unknown[] = [];
  loginThrottle.reserve = async (asked, now) => {
    limits.push(...asked);
    return now + 4_500;
  };
  for (const path of ['login', 'callback?state=x']) {
    const reply = await started.request(`/_latchkey/oidc/sso/${path}`);
    t.match(reply, { status: 429, headers: { 'retry-after': '5' } }, path);
    t.equal(reply.headers['set-cookie'], undefined);
  }
  const most = { key: 'oidc logins from 127.0.0.1', free: 10_000, stopAt: 10_000, forgetAfter: 300_000, forgetFrom: 'first' };
  t.match(limits, [most, most]);
  loginThrottle.reserve = reserve;
  let answer = (): void => undefined;
  const held = new Promise<void>((resolve) => (answer = resolve));
  const begin = () => started.request('/_latchkey/oidc/sso/login');
  const early = await first.request('/_latchkey/oidc/sso/login');
  const end = () => {
    const query = other.authorize(String(early.headers.location));
    return started.request(`/_latchkey/oidc/sso/callback?${query}`, { headers: { Cookie: stateOf(early) } });
  };
  other.asked.length = 0;
  other.held = held;
  const waiting = Array.from({ length: 100 }, begin);
  await until(() => other.asked.length > 0, 'the provider is asked');
  t.match(await begin(), { status: 503, headers: { 'retry-after': /^\d+$/ }, json: { detail: 'Too many logins at once' } });
  t.equal((await end()).status, 503);
  answer();
  for (const reply of await Promise.all(waiting)) t.match(String(reply.headers.location), `${other.url}/authorize`);
  t.equal((await begin()).status, 303, 'later, logins are accepted again');
  t.equal(errorOf(await end()), null, 'and so is the callback that was one too many');
}); // prettier-ignore

t.test('a logout continues at the provider', async (t) => {
  const { session } = await logIn();
  t.match(await request('/_latchkey/session', withSession(session)), { json: { provider: { name: 'sso', title: 'Log in at sso' } } });
  const leave = '/_latchkey/oidc/sso/logout';
  const cookie = { Cookie: `service.session=${session}` };
  const post = (headers: object) => request('/logout', { headers: { ...cookie, ...headers }, method: 'POST' });
  /** The parameters of the provider's URL; whose ID token is among them. */
  const at = ({ headers }: Handled) => {
    const url = new URL(String(headers.location));
    t.equal(url.origin + url.pathname, `${idp.url}/logout`);
    const { id_token_hint: hint, ...others } = Object.fromEntries(url.searchParams);
    t.same(others, { client_id: 'latchkey', post_logout_redirect_uri: 'https://api.example/_latchkey/' });
    return hint === undefined ? undefined : decodeJwt(hint).sub;
  };
  t.equal(at(await request(leave)), undefined);
  t.equal(at(await request(leave, { headers: cookie })), 'ann');
  t.equal(at(await request(leave, { headers: { ...cookie, 'Sec-Fetch-Site': 'cross-site' } })), undefined, 'a link alone ends nothing');
  const stored = await opened.store.sessions.listOfUser((await whoIs(session)).id);
  t.notMatch(JSON.stringify(stored), /[".]eyJ/, 'the store has no ID token in plain text');
  const left = await post({});
  t.equal(left.status, 204);
  t.equal(at(left), 'ann');
  t.equal(await whoIs(session), undefined);
  const byForm = await request('/logout', { headers: { Cookie: `service.session=${(await logIn()).session}`, Accept: 'text/html' }, method: 'POST' });
  t.equal(byForm.status, 303);
  t.equal(at(byForm), 'ann');
  const again = await request('/logout', { headers: { ...cookie, Accept: 'text/html' }, method: 'POST' });
  t.match(again, { status: 303, headers: { location: '/_latchkey/' } }, 'the session had ended');
  const local = await request('/logout', { headers: { Cookie: await server.login('engineer'), Accept: 'text/html' }, method: 'POST' });
  t.match(local, { status: 303, headers: { location: '/_latchkey/' } }, 'a user with a password');
  const only = await startSharing(providerOf('sso', idp.url, { provider_logout: false }));
  const { session: own } = await logInAt(only);
  t.match(await only.request(leave), { status: 303, headers: { location: '/_latchkey/' } });
  t.equal((await only.request('/logout', { ...withSession(own), method: 'POST' })).headers.location, undefined);
}); // prettier-ignore

t.test('tokens are invalid if their owner has not logged in for too long', async (t) => {
  const { session } = await logIn('?fresh=1');
  const { json } = await request('/tokens', { ...withSession(session), body: new URLSearchParams({ name: 'ci' }) });
  const key = { headers: { 'Service-Key': json.access_token as string } };
  const { id } = await whoIs(session);
  const age = async (days: number) => {
    const user = await opened.store.directory.getUser(id);
    if (user?.provider === undefined) throw new Error('the user is gone');
    const provider = { ...user.provider, loginAt: Date.now() - days * 86_400_000 };
    const change = { users: [{ ...user, provider, updatedAt: Math.max(Date.now(), user.updatedAt + 1) }] };
    t.equal(await opened.store.directory.change(change, Date.now()), undefined);
  };
  await age(89);
  t.equal((await request('/x', key)).status, 200);
  await age(91);
  t.same((await request('/x', key)).json, { msg: 'Provided credentials are missing or invalid' });
  t.equal((await request('/x', { headers: { Cookie: await server.login('engineer') } })).status, 200, 'other users are not affected');
  t.equal((await request('/x', { headers: { 'Service-Key': await server.token('engineer') } })).status, 200, 'nor are their tokens');
  await logIn();
  t.equal((await request('/x', key)).status, 200, 'the next login makes them valid again');
}); // prettier-ignore

t.test('a short login period invalidates tokens, and the next login makes them valid at once', async (t) => {
  const pass = movable(t, Date);
  const started = await startInProcess(t, {
    tokens: { owner_login_within: '20s' },
    login: { oidc: [providerOf('sso', idp.url)], public_url: 'https://api.example' },
  });
  const enter = async (query = '') => {
    const begun = await started.request(`/_latchkey/oidc/sso/login${query}`);
    const headers = { Cookie: stateOf(begun) };
    const path = `/_latchkey/oidc/sso/callback?${idp.authorize(String(begun.headers.location))}`;
    return cookiesOf(await started.request(path, { headers }))['service.session'] ?? '';
  };
  const session = await enter('?fresh=1');
  const { json } = await started.request('/tokens', { ...withSession(session), body: new URLSearchParams({ name: 'ci' }) });
  const ask = async () => (await started.request('/x', { headers: { 'Service-Key': String(json.access_token) } })).status;
  t.equal(await ask(), 200);
  pass(12_000);
  t.equal(await ask(), 200);
  pass(9_000);
  t.equal(await ask(), 401, 'invalid');
  await enter();
  t.equal(await ask(), 200);
}); // prettier-ignore

t.test('a directory without the users of providers keeps them', async (t) => {
  const { session } = await logIn();
  const { id } = await whoIs(session);
  const declared = { customers: [{ id: 'C1', name: 'One' }, { id: 'C2', name: 'Two' }], services: [], users: [] };
  const plan = await opened.directory.plan(declared, Date.now());
  const removed = ({ steps }: typeof plan) => steps.flatMap(({ removeUsers = [] }) => removeUsers);
  t.ok(removed(plan).includes('billing'));
  t.notOk(removed(plan).includes(id));
  const without = await opened.directory.plan({ ...declared, customers: [{ id: 'C2', name: 'Two' }] }, Date.now());
  t.ok([...removed(without), ...without.pendingDeletions].includes(id), 'but not without their customer');
}); // prettier-ignore

t.test('redirects browsers that open a page without a session to the login', async (t) => {
  const { request, login, token } = await startInProcess(t, {
    on_unauthenticated: 'login',
    login: { oidc: [providerOf('sso', idp.url)], public_url: 'https://api.example' },
    routes: [
      { path: '/sso/*', action: 'app', on_unauthenticated: { login: 'sso' } },
      { path: '/app/*', action: 'app' },
      { path: '/json/*', action: 'app', on_unauthenticated: 'json' },
    ],
    default_route: { on_unauthenticated: 'json' },
  });
  const html = { Accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
  const navigation = { ...html, 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document', 'Sec-Fetch-Site': 'none' };
  const sent = async (path: string, headers: Record<string, string>, method = 'GET') => {
    const { status, headers: answered } = await request(path, { method, headers });
    return [status, answered.location];
  };
  const there = [303, '/_latchkey/?return_to=%2Fapp%2Fa%3Fb%3Dc'];
  t.same(await sent('/app/a?b=c', navigation), there);
  t.same(await sent('/app/a?b=c', html), there, 'an older browser');
  t.same(await sent('/sso/a?b=c', navigation), [303, '/_latchkey/oidc/sso/login?return_to=%2Fsso%2Fa%3Fb%3Dc'], 'straight to a provider');
  t.same(await sent('/app/a?b=c', { ...html, 'X-Requested-With': 'com.example.app' }), there, 'a WebView');
  t.same(await sent('/app/a?b=c', { ...navigation, Cookie: 'service.session=gone' }), there, 'an ended session');
  t.same(await sent(`/app/${'a'.repeat(2100)}`, navigation), [303, '/_latchkey/'], 'too long to return to');
  t.same(await sent('/app/a?b=\\evil', navigation), [303, '/_latchkey/'], 'no redirect to other origins');
  t.match(await request('/app/a', { headers: navigation }), { headers: { 'cache-control': 'no-store' } });
  const others: [string, string, Record<string, string>, string?][] = [
    ['POST', '/app/a', navigation, 'POST'],
    ['HEAD', '/app/a', navigation, 'HEAD'],
    ['a program', '/app/a', { Accept: '*/*' }],
    ['JSON', '/app/a', { Accept: 'application/json' }],
    ['JSON rather than HTML', '/app/a', { Accept: 'application/json, text/html;q=0.5' }],
    ['the start page, requested by a script', '/', { ...html, 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty' }],
    ['the start page, as JSON', '/', { Accept: 'application/json, text/html' }],
    ['the start page, with a wrong Bearer token', '/', { ...navigation, Authorization: 'Bearer x' }],
    ['JSON and HTML', '/app/a', { Accept: 'text/html, Application/JSON' }],
    ['HTML refused', '/app/a', { Accept: 'text/html;q=0, */*' }],
    ['no Accept field', '/app/a', {}],
    ['fetch()', '/app/a', { ...html, 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty' }],
    ['a script of an older browser', '/app/a', { ...html, 'X-Requested-With': 'XMLHttpRequest' }],
    ['a frame', '/app/a', { ...navigation, 'Sec-Fetch-Dest': 'iframe' }],
    ['a wrong key', '/app/a', { ...navigation, 'Service-Key': 'x' }],
    ['a wrong Bearer token', '/app/a', { ...navigation, Authorization: 'Bearer x' }],
    ['a password', '/app/a', { ...navigation, Authorization: 'Basic eDp5' }],
    ['a route that says json', '/json/a', navigation],
    ['the default route', '/else', navigation],
    ['a built-in endpoint', '/tokens', navigation],
  ];
  for (const [what, path, headers, method] of others)
    t.same(await sent(path, headers, method), [401, undefined], what);
  t.same(await sent('/app/a', { ...navigation, Cookie: await login('user') }), [200, undefined]);
  t.same(await sent('/app/a', { ...navigation, 'Service-Key': await token('user', { scope: 'purge_all' }) }), [403, undefined]);
}); // prettier-ignore

t.test('the log names the endpoint of the provider that failed, and its response', async (t) => {
  const lacksEmail = { email: undefined };
  const cancelled = { error: 'invalid_client', error_description: 'AADSTS7000215: wrong\nsecret' };
  const rows: [string, object, object, RegExp][] = [
    [
      '/.well-known/openid-configuration',
      { json: { issuer: 'https://idp.example/v2.0' } },
      {},
      /names the issuer https:\/\/idp\.example\/v2\.0, not http:\/\/127/,
    ],
    [
      '/.well-known/openid-configuration',
      { status: 404, json: {} },
      {},
      /openid-configuration responded with 404/,
    ],
    [
      '/jwks',
      { status: 404, json: {} },
      {},
      /the keys of the issuer cannot be fetched: http:.*\/jwks responded with 404/,
    ],
    [
      '/token',
      { status: 401, json: { error: 'invalid_client' } },
      {},
      /\/token responded with 401: invalid_client/,
    ],
    [
      '/token',
      { status: 401, json: cancelled },
      {},
      /responded with 401: invalid_client \(AADSTS7000215: wrong\\u000asecret\)/,
    ],
    ['/token', { status: 404, json: {} }, {}, /\/token responded with 404/],
    ['/userinfo', { status: 403, json: {} }, lacksEmail, /\/userinfo responded with 403/],
  ];
  for (const [path, answer, claims, reason] of rows) {
    idp.tellTruth();
    idp.claims = { ...claims };
    idp.answers[path] = answer;
    const ask = await startOther({});
    let reply = await ask('/_latchkey/oidc/sso/login');
    if (errorOf(reply) === null) {
      const headers = { Cookie: stateOf(reply) };
      const query = idp.authorize(String(reply.headers.location));
      reply = await ask(`/_latchkey/oidc/sso/callback?${query}`, { headers });
    }
    const logged = reply.log.find(({ msg }) => msg === 'identity provider login failed');
    t.match(logged?.['reason'], reason, path);
  }
});

t.test('the log says which claim decided, without its values', async (t) => {
  const stranger = { sub: 'eve', email: 'eve@idp.example' };
  const rows: [Record<string, unknown>, object, RegExp][] = [
    [{ ...stranger, groups: undefined }, {}, /^no value of .*; the claim email is one text; the claim groups is missing$/],
    [{ ...stranger, groups: ['a', 'b', 'c'] }, {}, /the claim groups is a list of 3 values$/],
    [{ ...stranger, groups: { developers: true } }, {}, /the claim groups is an object with 1 member$/],
    [{ ...stranger, groups: 'a,b' }, { separator: ',' }, /the claim groups is text with 2 values$/],
    [{ ...stranger, email: 'ann@idp.example' }, {}, /^another user has the login name: oidc[0-9a-f]{40}; the claim email/],
    [{ ...stranger, email: 7 }, {}, /^the claim email is one number; expected a valid login name$/],
    [{ ...stranger, iss: other.url }, {}, new RegExp(`the claim iss is ${other.url}, not ${idp.url}`)],
    [{ ...stranger, email_verified: 'no' }, {}, /^the claim email_verified is one text; expected true$/],
  ];
  await logIn();
  for (const [claims, more, reason] of rows) {
    idp.claims = claims;
    const settings = providerOf('sso', idp.url, { roles: { claim: 'groups', map: { developers: 'engineer' }, ...more } });
    const { reply } = await logInAt(await startSharing(settings));
    const [logged] = reply.log.filter(({ msg }) => msg === 'identity provider login failed');
    t.match(logged?.['reason'], reason);
    t.notMatch(String(logged?.['reason']), /eve|developers|ann@/);
  }
  const { request } = await startSharing(providerOf('sso', idp.url, { customer_id: 'C9' }));
  idp.claims = stranger;
  const { reply } = await logInAt({ request });
  t.match(reply.log, [{ outcome: 'unknown_customer', reason: /^the store has no customer C9; / }, {}]);
  const reasons = [];
  for (const length of [5, 6, 5, 7]) {
    idp.claims = { ...stranger, groups: Array.from({ length }, () => 'x') };
    const failed = (await logIn()).reply;
    reasons.push(failed.log.filter(({ msg }) => msg === 'identity provider login failed').length);
  }
  t.same(reasons, [1, 1, 0, 1], 'another reason is not suppressed');
}); // prettier-ignore

t.test('roles come from nested claims, and from one text with several values', async (t) => {
  const rows: [Record<string, unknown>, object, string | null][] = [
    [{ realm_access: { roles: ['x', 'developers'] } }, { claim: '/realm_access/roles' }, null],
    [{ 'a/b': { '~': ['developers'] } }, { claim: '/a~1b/~0' }, null],
    [{ list: [{ role: 'developers' }] }, { claim: '/list/0/role' }, null],
    [{ 'https://app.example/roles': 'developers' }, { claim: 'https://app.example/roles' }, null],
    [{ realm_access: { roles: ['developers'] } }, { claim: 'realm_access.roles' }, 'no_role'],
    [{ groups: ['developers'] }, { claim: '/groups/length' }, 'no_role'],
    [{ groups: 'x, developers' }, { separator: ',' }, null],
    [{ groups: 'x developers' }, { separator: ' ' }, null],
    [{ groups: 'x developers' }, {}, 'no_role'],
  ];
  for (const [i, [claims, roles, error]] of rows.entries()) {
    idp.claims = { sub: `nested-${i}`, email: `nested-${i}@idp.example`, email_verified: 'true', groups: undefined, ...claims };
    const settings = providerOf('sso', idp.url, { roles: { claim: 'groups', map: { developers: 'engineer' }, ...roles } });
    const { reply } = await logInAt(await startSharing(settings));
    t.equal(errorOf(reply), error, JSON.stringify([claims, roles]));
  }
}); // prettier-ignore

t.test('upstreams get claims of the login', async (t) => {
  const shared = { opened: () => ({ store: opened.store }) };
  const login = { oidc: [providerOf('sso', idp.url)], public_url: 'https://api.example' };
  const claims = { 'X-Auth-Groups': 'groups', 'X-Auth-Email': 'email', 'X-Auth-Phone': 'phone_number' };
  const started = await startInProcess(t, { login, identity: { claims } }, shared);
  idp.claims = { groups: ['developers', 'a,b'] };
  idp.userInfo = { phone_number: '+1 555', email: 'ann@idp.example' };
  const { session } = await logInAt(started);
  const seen = async (from: Pick<typeof server, 'request'>) => (await from.request('/x', withSession(session))).forwarded?.fields;
  t.match(await seen(started), { 'x-auth-groups': 'developers,a%2Cb', 'x-auth-email': 'ann@idp.example', 'x-auth-phone': '+1 555' });
  const renamed = await startInProcess(t, { login, identity: { claims: { 'X-Groups': 'groups' } } }, shared);
  t.match(await seen(renamed), { 'x-groups': 'developers,a%2Cb', 'x-auth-groups': undefined });
  const [stored] = await opened.store.sessions.listOfUser((await whoIs(session)).id);
  t.ok(stored);
  const { json: listed } = await started.request('/_latchkey/sessions', withSession(session));
  t.notMatch(JSON.stringify(listed), /developers|555/, 'the list of sessions has none');
  const password = { headers: { Cookie: await started.login('engineer') } };
  t.match((await started.request('/x', password)).forwarded?.fields, { 'x-auth-role': 'engineer', 'x-auth-groups': undefined });
}); // prettier-ignore

/** This must be the last test: the previous keys stay withdrawn. */
t.test('new keys of the provider are accepted within seconds', async (t) => {
  const next = await newPair('two', 'ES256');
  const before = idp.pair;
  idp.pair = next;
  idp.published = [next];
  await until(
    async () => (await logIn()).reply.headers.location === '/_latchkey/',
    'the new key is accepted',
    10_000,
  );
  idp.idToken = (claims) => idp.sign(claims, {}, before);
  t.equal(errorOf((await logIn()).reply), 'invalid_answer', 'the previous key is refused');
});
