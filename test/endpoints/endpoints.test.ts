import t, { type Test as T } from 'tap';
import { type EndpointName, servedResources } from '../../src/endpoints/endpoints.js';
import { refusalsOf, REFUSALS } from '../../src/endpoints/openapi/components.js';
import { LEGACY_KEY, otpAt, PASSWORD } from '../helpers/fixture.js';
import type { Sent } from '../helpers/http.js';
import { IdentityProvider } from '../helpers/identity-provider.js';
import { type Handled, startInProcess } from '../helpers/in-process.js';
import { until } from '../helpers/until.js';

const idp = await IdentityProvider.start(t);
const METADATA = { resource: 'https://api.example/mcp', bearer_methods_supported: ['header'] };
const CONFIG = {
  listen: { ready_path: '/ready' },
  interface: { account_endpoints: true, protected_resource: { resource: METADATA.resource } },
  identity: { assertion: { enabled: true, issuer: 'https://auth.example.com', audience: 'api' } },
  login: {
    oidc: [
      {
        name: 'sso',
        title: 'Company',
        issuer: idp.url,
        client_id: 'latchkey',
        client_secret: 'secret',
        customer_id: 'C1',
        roles: { claim: 'groups', map: { developers: 'engineer' } },
      },
    ],
    public_url: 'https://api.example',
  },
};
const { request, login, token, create } = await startInProcess(t, CONFIG);

const withKey = (value: string): Sent => ({ headers: { 'Service-Key': value } });
const withCookie = (value: string): Sent => ({ headers: { Cookie: value } });
const form = (params: Record<string, string>, sent: Sent = {}): Sent => ({
  ...sent,
  method: 'POST',
  body: new URLSearchParams(params),
});
const of = (method: string, sent: Sent): Sent => ({ ...sent, method });
const fromElsewhere = (sent: Sent): Sent => ({
  ...sent,
  headers: { ...sent.headers, 'Sec-Fetch-Site': 'cross-site' },
});
const right = (user: string, more: object = {}) => ({
  username: `${user}@example.com`,
  password: PASSWORD,
  ...more,
});
/** The same for `POST /login`. */
const rightLogin = (user: string, more: object = {}) => ({
  user: `${user}@example.com`,
  password: PASSWORD,
  ...more,
});
const newId = async (user: string) => (await create(user)).json.id as string;
const data = (...ids: string[]) => ({ data: ids.map((id) => ({ type: 'token', id })) });

const session = withCookie(await login('superuser'));
const plainSession = withCookie(await login('user'));
const readOnly = withKey(await token('superuser', { scope: 'purge_all' }));
const othersId = await newId('other');

/** Uses up the failures allowed for a login name, then sends one more request. */
const oneMore = (path: string, name: string) => async (): Promise<readonly [string, Sent]> => {
  const sent = form({ [path === '/login' ? 'user' : 'username']: name, password: 'wrong' });
  await until(async () => (await request(path, sent)).status === 429, 'the tries are used up');
  return [path, sent];
};

const ROTATED = ['token.created', 'token.rotated'];

/** Rows with invalid overlaps for a rotation. */
function rotatedInVain(target: string, sent: Sent): Row[] {
  const refused = (params: Record<string, string>, detail: RegExp): Row => [[target, form(params, sent)], 422, 'grant', { code: 'Unprocessable Entity', detail }];
  return [
    ...['soon', '-1', '1.5', '', '1h', '9999999999'].map((overlap) => refused({ overlap }, /whole number of seconds/)),
    refused({ overlap: '604801' }, /more than 604800 seconds/),
    refused({ Overlap: '0' }, /send "overlap"/),
    refused({ overlaps: '0' }, /send "overlap"/),
    refused({ 'overlap[]': '0' }, /send "overlap"/),
    refused({ scope: 'purge_all' }, /"scope" is not accepted; a rotation keeps the restrictions/),
    refused({ Expires: '2030-01-01T00:00:00Z' }, /"Expires" is not accepted/),
    [[`${target}?service_id=SVC1`, { ...sent, method: 'POST' }], 422, 'grant', { detail: /"service_id" is not accepted/ }],
  ];
} // prettier-ignore

/**
 * The request, the status, the outcome in the log record (the tag of the refusal, or `answered`),
 * what the JSON contains, and the audit events.
 */
type Row = readonly [
  sent: readonly [target: string, sent?: Sent] | (() => Promise<readonly [target: string, sent: Sent]>),
  status: number,
  outcome: string,
  json?: unknown,
  audit?: readonly string[],
];

const denied = ['access.denied'];
const UNAUTHENTICATED = { msg: 'Provided credentials are missing or invalid' };
/**
 * Rows for an endpoint that accepts only a session: without one, with an unknown one, with a key.
 */
const sessionOnly = async (method: string, target: string): Promise<Row[]> => [
  [[target, of(method, {})], 401, 'unauthenticated', UNAUTHENTICATED],
  [[target, of(method, withCookie('service.session=x'))], 401, 'unauthenticated', UNAUTHENTICATED],
  [
    [target, of(method, withKey(LEGACY_KEY))],
    403,
    'wrong_credential_kind',
    { detail: /requires a session/ },
    denied,
  ],
];
const grant = (code: string, detail: RegExp) => ({ msg: code, code, detail });

/** Bodies that cannot be read, for an endpoint that takes a password and for one that does not. */
const unreadable = (method: string, target: string, takesPassword: boolean, headers: Sent['headers'] = {}): Row[] =>
  ([['application/json', '{', /not valid JSON/], ['application/x-www-form-urlencoded', 'a=%ff', /percent-encoded UTF-8/],
    ['application/json', '[{"a":1}]', /must be a JSON object/], ['application/json', '0', /must be a JSON object/],
    ['application/x-www-form-urlencoded', ' {"a": 0}\n', /the body is JSON, not a form; send it with Content-Type: application\/json/],
    ['text/plain', 'a=b', /send the body as/]] as const).map(([type, body, detail]) => [
    [target, { method, body, headers: { ...headers, 'Content-Type': type } }], 400,
    ...(takesPassword ? (['grant', grant('invalid_request', detail)] as const) : (['malformed', { msg: 'Bad request', code: undefined, detail }] as const)),
  ]); // prettier-ignore

const ROWS: Record<EndpointName, readonly Row[]> = {
  login: [
    [['/login', form(rightLogin('user'))], 200, 'answered', { user: { id: 'user', role: 'user' }, customer: { name: 'One' } }, ['login.succeeded', 'session.started']],
    [['/login', form(rightLogin('engineer'), withCookie(await login('engineer')))], 200, 'answered', {}, ['login.succeeded', 'session.started', 'session.ended']],
    [['/login', form(rightLogin('twofactor'), { headers: { 'Service-OTP': otpAt(Date.now()) } })], 200, 'answered', {}, ['login.succeeded', 'otp.accepted', 'session.started']],
    [['/login', form({ username: 'x', password: 'y' })], 400, 'grant', grant('invalid_request', /POST \/login: user/)],
    [['/login', form({ user: 'x' })], 400, 'grant', grant('invalid_request', /required/)],
    ...unreadable('POST', '/login', true),
    [['/login', form(rightLogin('user', { password: 'x'.repeat(1025) }))], 400, 'grant', grant('invalid_request', /1024/)],
    [['/login', form(rightLogin('locked'))], 400, 'grant', grant('account_locked', /locked/), ['login.failed']],
    [['/login', form(rightLogin('twofactor'))], 400, 'grant', grant('2fa.verify', /one-time/), ['otp.refused']],
    [['/login', form(rightLogin('billing', { password: 'wrong' }))], 401, 'grant', grant('invalid_grant', /combination is wrong/), ['login.failed']],
    [['/login', form(rightLogin('unknown'))], 401, 'grant', grant('invalid_grant', /combination is wrong/), ['login.failed']],
    [oneMore('/login', 'nobody1'), 429, 'login_throttled', { detail: /failed logins/ }, ['login.throttled']],
    [['/login', fromElsewhere(form(rightLogin('user')))], 403, 'cross_origin', {}, denied],
  ],
  logout: [
    [['/logout', of('POST', withCookie(await login('user')))], 204, 'answered', undefined, ['session.ended']],
    ...(await sessionOnly('POST', '/logout')),
    [['/logout', fromElsewhere(of('POST', session))], 403, 'cross_origin', {}, denied],
  ],
  create_token: [
    [['/tokens', form(right('user', { name: 'ci', scope: 'global:read' }))], 200, 'answered', { name: 'ci', scope: 'global:read', user_id: 'user' }, ['login.succeeded', 'token.created']],
    [['/tokens', form({ login: 'x', password: PASSWORD })], 400, 'grant', grant('invalid_request', /as username/)],
    [['/tokens', form({ password: PASSWORD })], 400, 'grant', grant('invalid_request', /required/)],
    ...unreadable('POST', '/tokens', true),
    [['/tokens', form(right('billing', { password: 'wrong' }))], 400, 'grant', grant('invalid_grant', /wrong/), ['login.failed']],
    [['/tokens', form(right('locked'))], 400, 'grant', grant('account_locked', /locked/), ['login.failed']],
    [['/tokens', form(right('twofactor'))], 400, 'grant', grant('2fa.verify', /one-time/), ['otp.refused']],
    [['/tokens', form(right('user', { scope: 'nothing' }))], 400, 'grant', grant('invalid_scope', /nothing/), ['login.succeeded']],
    [['/tokens', form(right('user', { service_id: 'SVC9' }))], 422, 'grant', grant('Unprocessable Entity', /"SVC9" is unknown/), ['login.succeeded']],
    [['/tokens', form(right('user', { rate: '600/1m', addresses: '::1', suspended: 'true' }))], 200, 'answered', { rate: '600/1m', addresses: ['::1'], suspended: true }, ['login.succeeded', 'token.created']],
    [['/tokens', form(right('user', { rate: '600' }))], 422, 'grant', grant('Unprocessable Entity', /a rate like 600\/1m/), ['login.succeeded']],
    [['/tokens', form(right('user', { addresses: '10.1.2.3/8' }))], 422, 'grant', grant('Unprocessable Entity', /addresses must be/), ['login.succeeded']],
    [['/tokens', form(right('user', { expires_at: 'soon' }))], 422, 'grant', grant('Unprocessable Entity', /ISO 8601/), ['login.succeeded']],
    ...['"scope":"purge_all","scope":"global"', '"expires_at":"2030-01-01T00:00:00Z","expires_at":null', '"services":["SVC1"],"\\u0073ervices":null'].map(
      (twice): Row => [['/tokens', { method: 'POST', body: `{"username":"user@example.com","password":"${PASSWORD}",${twice}}`, headers: { 'Content-Type': 'application/json' } }], 400, 'grant', grant('invalid_request', /names a member twice/)],
    ),
    [oneMore('/tokens', 'nobody2'), 429, 'login_throttled', {}, ['login.throttled']],
    [['/tokens', fromElsewhere(form(right('user')))], 403, 'cross_origin', {}, denied],
  ],
  list_tokens: [
    [['/tokens', session], 200, 'answered', [{ user_id: 'superuser' }]],
    ...(await sessionOnly('GET', '/tokens')),
    [['/tokens', plainSession], 403, 'role', { detail: /role user .* token:read/ }, denied],
  ],
  list_customer_tokens: [
    [['/customer/C1/tokens', session], 200, 'answered', []],
    ...(await sessionOnly('GET', '/customer/C1/tokens')),
    [['/customer/C1/tokens', plainSession], 403, 'role', { detail: /customer_token:read/ }, denied],
    [['/customer/C2/tokens', session], 403, 'other_customer', { detail: /another customer/ }, denied],
  ],
  revoke_tokens: [
    [['/tokens', { ...of('DELETE', session), json: data(await newId('superuser'), await newId('user')) }], 204, 'answered', undefined, ['token.revoked', 'token.revoked']],
    [['/tokens', { ...of('DELETE', session), json: data('none') }], 404, 'not_found', { detail: "Cannot find token 'none'" }],
    [['/tokens', { ...of('DELETE', session), json: data(await newId('superuser'), othersId) }], 404, 'not_found', {}],
    [['/tokens', { ...of('DELETE', withCookie(await login('billing'))), json: data(await newId('user')) }], 403, 'role', { detail: /customer_token:write/ }, denied],
    [['/tokens', { ...of('DELETE', session), json: { data: [] } }], 400, 'malformed', { detail: /expected a body like/ }],
    ...unreadable('DELETE', '/tokens', false, session.headers),
    ...(await sessionOnly('DELETE', '/tokens')),
  ],
  show_own_token: [
    [['/tokens/self', withKey(await token('user', { name: 'mine' }))], 200, 'answered', { name: 'mine' }],
    [['/tokens/self'], 401, 'unauthenticated', UNAUTHENTICATED],
    [['/tokens/self', session], 403, 'wrong_credential_kind', { detail: /requires an API token/ }, denied],
  ],
  revoke_own_token: [
    [['/tokens/self', of('DELETE', withKey(await token('user')))], 204, 'answered', undefined, ['token.revoked']],
    [['/tokens/self', of('DELETE', withKey('x'))], 401, 'unauthenticated', UNAUTHENTICATED],
    [['/tokens/self', of('DELETE', session)], 403, 'wrong_credential_kind', {}, denied],
  ],
  rotate_own_token: [
    [
      ['/tokens/self/rotate', of('POST', withKey(await token('user', { scope: 'purge_all', 'services[]': 'SVC1', name: 'mine' })))],
      200,
      'answered',
      { name: 'mine', scope: 'purge_all', services: ['SVC1'], access_token: /^lk/, predecessor_id: /^\w{22}$/, expires_at: null },
      ROTATED,
    ],
    [['/tokens/self/rotate', { ...of('POST', withKey(await token('user'))), json: { overlap: 60 } }], 200, 'answered', {}, ROTATED],
    ...rotatedInVain('/tokens/self/rotate', withKey(await token('user'))),
    [['/tokens/self/rotate', of('POST', withKey(LEGACY_KEY))], 422, 'grant', { detail: /A legacy key cannot be rotated/ }],
    [['/tokens/self/rotate', of('POST', withKey('x'))], 401, 'unauthenticated', UNAUTHENTICATED],
    [['/tokens/self/rotate', of('POST', session)], 403, 'wrong_credential_kind', {}, denied],
  ],
  rotate_token: [
    [[`/tokens/${await newId('superuser')}/rotate`, of('POST', session)], 200, 'answered', { user_id: 'superuser' }, ROTATED],
    [[`/tokens/${await newId('superuser')}/rotate`, form({ overlap: '0' }, session)], 200, 'answered', { user_id: 'superuser' }, ROTATED],
    [[`/tokens/${await newId('user')}/rotate`, of('POST', session)], 403, 'other_user', { detail: /Only the owner/ }, denied],
    ...rotatedInVain(`/tokens/${await newId('superuser')}/rotate`, session),
    ...unreadable('POST', `/tokens/${await newId('superuser')}/rotate`, false, session.headers),
    [[`/tokens/${othersId}/rotate`, of('POST', session)], 404, 'not_found', {}],
    [['/tokens/none/rotate', of('POST', session)], 404, 'not_found', { detail: "Cannot find token 'none'" }],
    [[`/tokens/${await newId('user')}/rotate`, of('POST', withCookie(await login('billing')))], 403, 'role', { detail: /customer_token:write/ }, denied],
    [[`/tokens/${await newId('superuser')}/rotate`, of('POST', fromElsewhere(session))], 403, 'cross_origin', {}, denied],
    ...(await sessionOnly('POST', '/tokens/none/rotate')),
    [['/tokens/none/rotate', of('POST', plainSession)], 403, 'role', {}, denied],
  ],
  show_token: [
    [[`/tokens/${await newId('superuser')}`, session], 200, 'answered', { user_id: 'superuser' }],
    [[`/tokens/${await newId('user')}`, session], 200, 'answered', { user_id: 'user' }],
    [[`/tokens/${othersId}`, session], 404, 'not_found', {}],
    [['/tokens/none', session], 404, 'not_found', { detail: "Cannot find token 'none'" }],
    ...(await sessionOnly('GET', '/tokens/none')),
    [['/tokens/none', plainSession], 403, 'role', {}, denied],
  ],
  update_token: [
    [[`/tokens/${await newId('user')}`, { ...of('PATCH', session), json: { suspended: true, rate: '600/1m' } }], 200, 'answered', { suspended: true, rate: '600/1m', addresses: undefined }, ['token.changed']],
    [[`/tokens/${await newId('user')}`, { ...of('PATCH', session), json: { rate: 'fast' } }], 422, 'grant', grant('Unprocessable Entity', /a rate like 600\/1m/)],
    [[`/tokens/${await newId('user')}`, { ...of('PATCH', session), json: { scope: 'global' } }], 422, 'grant', grant('Unprocessable Entity', /not "scope"/)],
    [[`/tokens/${await newId('user')}`, { ...of('PATCH', session), body: '' }], 400, 'malformed', { detail: /expected a body like/ }],
    [[`/tokens/${othersId}`, { ...of('PATCH', session), json: {} }], 404, 'not_found', {}],
    [[`/tokens/${await newId('user')}`, { ...of('PATCH', withCookie(await login('billing'))), json: {} }], 403, 'role', { detail: /customer_token:write/ }, denied],
    [['/tokens/none', fromElsewhere({ ...of('PATCH', session), json: {} })], 403, 'cross_origin', {}, denied],
    ...(await sessionOnly('PATCH', '/tokens/none')),
  ],
  revoke_token: [
    [[`/tokens/${await newId('engineer')}`, of('DELETE', session)], 204, 'answered', undefined, ['token.revoked']],
    [['/tokens/none', of('DELETE', session)], 404, 'not_found', {}],
    [[`/tokens/${await newId('user')}`, of('DELETE', withCookie(await login('billing')))], 403, 'role', { detail: /customer_token:write/ }, denied],
    [['/tokens/none', fromElsewhere(of('DELETE', session))], 403, 'cross_origin', {}, denied],
    ...(await sessionOnly('DELETE', '/tokens/none')),
  ],
  list_sessions: [
    [['/_latchkey/sessions', plainSession], 200, 'answered', []],
    ...(await sessionOnly('GET', '/_latchkey/sessions')),
  ],
  end_other_sessions: [
    [twoSessions, 204, 'answered', undefined, ['session.ended']],
    ...(await sessionOnly('DELETE', '/_latchkey/sessions')),
  ],
  end_session: [
    [[`/_latchkey/sessions/${await ownSession('engineer')}`, of('DELETE', withCookie(await login('engineer')))], 204, 'answered', undefined, ['session.ended']],
    [[`/_latchkey/sessions/${await ownSession('other')}`, of('DELETE', session)], 404, 'not_found', { detail: /Cannot find session/ }],
    ...(await sessionOnly('DELETE', '/_latchkey/sessions/x')),
  ],
  show_page: [
    [['/_latchkey/'], 200, 'answered'],
    [['/_latchkey'], 308, 'answered'],
  ],
  show_page_asset: [
    [['/_latchkey/assets/app.js'], 200, 'answered'],
    [['/_latchkey/assets/none.js'], 404, 'not_found', { detail: /No endpoint for/ }],
  ],
  show_readiness: [[['/ready'], 200, 'answered']],
  describe_caller: [
    [['/_latchkey/session', session], 200, 'answered', { user: { id: 'superuser' }, may: { list_tokens: true, revoke_customer_tokens: true }, key_field: 'Service-Key' }],
    [['/_latchkey/session', plainSession], 200, 'answered', { may: { list_tokens: false, revoke_customer_tokens: false }, one_time_password: false }],
    ...(await sessionOnly('GET', '/_latchkey/session')),
  ],
  list_people: [
    [['/_latchkey/people', session], 200, 'answered', []],
    ...(await sessionOnly('GET', '/_latchkey/people')),
    [['/_latchkey/people', plainSession], 403, 'role', {}, denied],
  ],
  show_signing_keys: [[['/.well-known/jwks.json'], 200, 'answered', { keys: [{ kty: 'OKP', alg: 'EdDSA' }] }]],
  show_protected_resource: [[['/.well-known/oauth-protected-resource'], 200, 'answered', METADATA]],
  show_protected_resource_of_path: [[['/.well-known/oauth-protected-resource/mcp'], 200, 'answered', METADATA]],
  show_interface: [[['/_latchkey/openapi.json'], 200, 'answered', { openapi: /^3/ }]],
  show_current_user: [
    [['/current_user', plainSession], 200, 'answered', { id: 'user', locked: false }],
    [['/current_user'], 401, 'unauthenticated', UNAUTHENTICATED],
    [['/current_user', readOnly], 403, 'scope', { detail: /purge_all .* account:read/ }, denied],
  ],
  show_current_customer: [
    [['/current_customer', withKey(LEGACY_KEY)], 200, 'answered', { id: 'C1', name: 'One' }],
    [['/current_customer'], 401, 'unauthenticated', UNAUTHENTICATED],
    [['/current_customer', readOnly], 403, 'scope', {}, denied],
  ],
  verify: [
    [['/verify', withKey(await token('user', { service_id: 'SVC2' }))], 200, 'answered', { services: { SVC2: 'shop' }, token: { expires_at: null } }],
    [['/verify', session], 200, 'answered', { services: { SVC1: 'www', SVC2: 'shop' }, token: null }],
    [['/verify', withKey('x')], 401, 'unauthenticated', UNAUTHENTICATED],
    [['/verify', readOnly], 403, 'scope', {}, denied],
  ],
  sudo: [
    [['/sudo', form(right('user'))], 200, 'answered', { expiry_time: /^\d{4}-/ }, ['login.succeeded']],
    [['/sudo', form({ password: PASSWORD }, session)], 200, 'answered', {}, ['login.succeeded', 'sudo.granted']],
    [['/sudo', form({}, session)], 400, 'grant', grant('invalid_request', /password is required/)],
    ...unreadable('POST', '/sudo', true),
    [['/sudo', form(right('locked'))], 400, 'grant', grant('account_locked', /locked/), ['login.failed']],
    [['/sudo', form(right('twofactor'))], 400, 'grant', grant('2fa.verify', /one-time/), ['otp.refused']],
    [['/sudo', form(right('billing', { password: 'wrong' }))], 403, 'grant', grant('invalid_grant', /wrong/), ['login.failed']],
    [['/sudo', form(right('engineer'), session)], 403, 'other_user', { detail: /does not match the credential/ }, denied],
    [oneMore('/sudo', 'nobody3'), 429, 'login_throttled', {}, ['login.throttled']],
    [['/sudo', form(right('user'), withKey('x'))], 401, 'unauthenticated', UNAUTHENTICATED],
    [['/sudo', fromElsewhere(form(right('user')))], 403, 'cross_origin', {}, denied],
  ],
  list_login_methods: [
    [['/_latchkey/login-methods'], 200, 'answered', { password: true, providers: [{ name: 'sso', title: 'Company' }] }],
  ],
  oidc_login: [
    [['/_latchkey/oidc/sso/login'], 303, 'answered'],
    [['/_latchkey/oidc/none/login'], 404, 'not_found', { detail: "There is no provider 'none'" }],
  ],
  oidc_callback: [
    [async () => backFromProvider(), 303, 'answered', undefined, ['user.created', 'login.succeeded', 'session.started']],
    [['/_latchkey/oidc/sso/callback'], 303, 'answered', undefined, ['login.failed']],
    [['/_latchkey/oidc/none/callback'], 404, 'not_found', {}],
  ],
  oidc_logout: [
    [['/_latchkey/oidc/sso/logout'], 303, 'answered'],
    [['/_latchkey/oidc/none/logout'], 404, 'not_found', {}],
  ],
  oidc_backchannel_logout: [
    [['/_latchkey/oidc/sso/backchannel-logout', form({ logout_token: await idp.logoutToken({ sub: 'ann' }) })], 200, 'answered', undefined, ['session.ended']],
    [['/_latchkey/oidc/sso/backchannel-logout', form({ logout_token: 'x' })], 400, 'malformed', { detail: /logout token/ }, ['logout.refused']],
    [['/_latchkey/oidc/none/backchannel-logout', form({})], 404, 'not_found', {}],
    [['/_latchkey/oidc/sso/backchannel-logout', fromElsewhere(form({}))], 403, 'cross_origin', {}, denied],
  ],
}; // prettier-ignore

/** The callback of a valid login. */
async function backFromProvider(): Promise<readonly [string, Sent]> {
  const { headers } = await request('/_latchkey/oidc/sso/login');
  const [cookie = ''] = String(headers['set-cookie']).split(';');
  return [`/_latchkey/oidc/sso/callback?${idp.authorize(String(headers.location))}`, withCookie(cookie)];
}

/** A request with one of exactly two sessions. */
async function twoSessions(): Promise<readonly [string, Sent]> {
  const sent = of('DELETE', withCookie(await login('other')));
  await request('/_latchkey/sessions', sent);
  await login('other');
  return ['/_latchkey/sessions', sent];
}

/** The public id of a new session. */
async function ownSession(user: string): Promise<string> {
  const { json } = await request('/_latchkey/sessions', withCookie(await login(user)));
  return (json as { id: string; current: boolean }[]).find(({ current }) => current)?.id ?? '';
}

/** Names of members whose value is the empty string, at any depth. */
function emptyStrings(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, each]) => (each === '' ? [name] : emptyStrings(each)));
}

/** Endpoints whose success is a page, a document for anyone, or a redirect for browsers. */
const OTHER_FORM = /^(show_(page|readiness|signing_keys|protected_resource|interface)|oidc_)/;

/** RFC 9110 15.3.5 and 8.6: a 204 response has no content, no Content-Type and no Content-Length. */
function checkForm(t: T, name: string, { status, headers, text, json }: Handled): void {
  if (status < 400 && OTHER_FORM.test(name)) return;
  const body = status === 204 ? { 'content-type': undefined, 'content-length': undefined } : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) };
  const { 'content-type': type, 'content-length': length, ...others } = headers;
  t.same({ 'content-type': type, 'content-length': length }, body, `${name}: framing`);
  t.match(others, { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', 'x-request-id': /^[\w-]+$/, date: /GMT$/ }, name);
  t.equal(others['transfer-encoding'], undefined, name);
  if (status === 204) t.equal(text, '', `${name}: no body`);
  else t.ok(json !== undefined && text.endsWith('\n'), `${name}: is JSON and a line`);
  // A token without a name has the empty name; every other missing value is null.
  if (status < 400) t.same(emptyStrings(json).filter((each) => each !== 'name'), [], `${name}: null, not ""`);
} // prettier-ignore

function check(t: T, what: string, reply: Handled, [, status, outcome, json, audit = []]: Row): void {
  t.equal(reply.status, status, `${what}: ${reply.text}`);
  t.match(reply.log.at(-1), { msg: 'request', outcome, status }, what);
  if (json !== undefined) t.match(reply.json, json, what);
  t.same(reply.audit.map(({ event }) => event), audit, `${what}: audit log`);
  t.same(reply.audit.filter(({ request_id }) => request_id !== reply.headers['x-request-id']), [], `${what}: request ids`);
  t.equal(reply.forwarded, undefined, `${what}: not forwarded`);
} // prettier-ignore

const SETTINGS = {
  tokenEndpoints: 'session',
  page: '/_latchkey/',
  assertion: true,
  account: true,
  oidc: true,
  readyPath: '/ready',
  resourcePath: '/mcp',
} as const;
const served = servedResources(SETTINGS).flatMap(({ endpoints }) => endpoints);

for (const { endpoint, credential } of served) {
  t.test(`${endpoint.name}: its success, and each refusal that it declares`, async (t) => {
    const rows: readonly Row[] | undefined = ROWS[endpoint.name as EndpointName];
    if (rows === undefined) throw new Error('ROWS lacks its rows');
    const seen = new Set<string>();
    for (const row of rows) {
      const [asked, status, outcome] = row;
      const [target, sent] = typeof asked === 'function' ? await asked() : asked;
      const reply = await request(target, sent);
      check(t, `${sent?.method ?? 'GET'} ${target} ${outcome}`, reply, row);
      checkForm(t, endpoint.name, reply);
      seen.add(`${status} ${reply.json?.code ?? ''}`.trim());
    }
    const codes = Object.entries(endpoint.codes ?? {}).flatMap(([status, of]) => of.map((code) => `${status} ${code}`));
    const own = [...refusalsOf(credential, endpoint.method), ...(endpoint.refusals ?? [])].map((name) => String(REFUSALS[name].status));
    const missing = [...codes, ...own].filter((each) => !seen.has(each) && !ANYWHERE.has(each) && !(each === '429' && hasRate(endpoint.method, credential)) && !WITHOUT_ROW.has(`${endpoint.name} ${each}`));
    t.same(missing, [], 'every declared refusal has a row');
    const redirects = endpoint.name.startsWith('oidc_') && endpoint.method === 'GET';
    t.ok(rows.some(([, status]) => status < 300 || (redirects && status === 303)), 'its success has a row');
  }); // prettier-ignore
}

t.test('the ready path is for everybody, on every host, and before the page', async (t) => {
  let fault: string | null = null;
  const { request } = await startInProcess(
    t,
    {
      listen: { ready_path: '/_latchkey/ready' },
      interface: { hosts: ['a.example'] },
      routes: [{ path: '/_latchkey/ready', action: 'x', methods: ['POST'] }],
      default_route: { auth: 'deny' },
    },
    {
      opened: ({ store }) => {
        const probe = async () => (fault === null ? undefined : Promise.reject(new Error(fault)));
        return { store: { ...store, maintenance: { ...store.maintenance, probe, probeWrite: probe } } };
      },
    },
  );
  const at = (host: string, more: Sent = {}) => request('/_latchkey/ready', { ...more, headers: { Host: host, ...more.headers } });
  const wrong = { headers: { 'Service-Key': 'wrong' } };
  for (const host of ['a.example', '10.0.0.1']) {
    t.match(await at(host), { status: 200, text: '', headers: { 'content-length': '0', 'cache-control': 'no-store' } }, host);
    t.match(await at(host, wrong), { status: 200, forwarded: undefined }, 'whatever its credential');
    t.match(await at(host, { method: 'HEAD' }), { status: 200, text: '' });
  }
  t.match(await at('b.example', { method: 'POST' }), { status: 401, log: [{ route: '/_latchkey/ready' }] }, 'other methods are those of the routes');
  fault = 'gone';
  await until(async () => (await at('a.example')).status === 503, 'the store is gone');
  t.match(await at('a.example'), { status: 503, text: '', log: [{ outcome: 'answered', status: 503 }] });
}); // prettier-ignore

/** Refusals common to all endpoints; the pipeline tests cover them with one endpoint. */
const ANYWHERE = new Set(['400', '408', '413', '414', '417', '431', '500', '503']);

/**
 * Declared refusals that no single request causes: a token that is revoked during its own request,
 * and one that the interface specification reserves for `POST /tokens`.
 */
const WITHOUT_ROW = new Set([
  'show_own_token 404',
  'revoke_own_token 404',
  'rotate_own_token 404',
  'create_token 401',
]);

/** Whether the endpoint counts toward the rate of a token. */
const hasRate = (method: string, credential: string) => credential !== 'none' && method !== 'DELETE';

t.test('every endpoint with a credential refuses a token over its rate, except to revoke', async (t) => {
  const slow = withKey(await token('superuser', { rate: '1/1d' }));
  await request('/tokens/self', slow);
  for (const { endpoint, path, credential } of served) {
    if (credential === 'none') continue;
    const sent = endpoint.method === 'POST' ? form({ password: PASSWORD }, slow) : of(endpoint.method, slow);
    const { status } = await request(path.replace(/:\w+/, 'none'), sent);
    if (endpoint.name === 'revoke_own_token') t.equal(status, 204);
    else t.equal(status, hasRate(endpoint.method, credential) ? 429 : status === 404 ? 404 : 403, endpoint.name);
    if (endpoint.name === 'revoke_own_token') Object.assign(slow, withKey(await token('superuser', { rate: '1/1d' })));
    if (endpoint.name === 'revoke_own_token') await request('/tokens/self', slow);
  }
}); // prettier-ignore

t.test('POST /tokens needs no login name with a credential that confirmed the password', async (t) => {
  const own = withCookie(await login('engineer'));
  t.match(await request('/tokens', form({ password: PASSWORD }, own)), { status: 400, json: { code: 'invalid_request' } });
  const named = form({ user: 'engineer@example.com', password: PASSWORD }, own);
  t.match(await request('/tokens', named), { status: 400, json: { code: 'invalid_request' } });
  t.equal((await request('/sudo', form({ password: PASSWORD }, own))).status, 200);
  t.equal((await request('/tokens', named)).status, 200, 'user is now an unknown parameter, and ignored');
  const created = await request('/tokens', form({ password: PASSWORD, name: 'x' }, own));
  t.match(created, { status: 200, json: { user_id: 'engineer', name: 'x' } });
  t.same(created.audit.map(({ event }) => event), ['login.succeeded', 'token.created']);
  t.match(await request('/tokens', form({ password: PASSWORD }, withKey('x'))), { status: 400 }, 'a bad key has not confirmed a password');
}); // prettier-ignore

t.test("another customer's record is to every caller like one that does not exist", async (t) => {
  const interfaces = { token_endpoints: 'session_or_token', account_endpoints: true };
  const { request, create, token, login } = await startInProcess(t, { interface: interfaces });
  const owner = { headers: { Cookie: await login('other') } };
  const { id } = (await create('other')).json as { id: string };
  const [session] = (await request('/_latchkey/sessions', owner)).json as { id: string }[];
  const callers: Record<string, Record<string, string>> = {
    nobody: {},
    'legacy key': { 'Service-Key': LEGACY_KEY },
    limited: { 'Service-Key': await token('superuser', { 'services[]': 'SVC1' }) },
    'read only': { 'Service-Key': await token('superuser', { scope: 'global:read' }) },
  };
  for (const role of ['superuser', 'billing', 'engineer', 'user']) {
    callers[`session of a ${role}`] = { Cookie: await login(role) };
    callers[`token of a ${role}`] = { 'Service-Key': await token(role) };
  }
  const bulk = (...ids: string[]) => ({ data: ids.map((each) => ({ type: 'token', id: each })) });
  const own = (await create('superuser')).json.id as string;
  const asks: [string, string, (name: string) => string, ((name: string) => object)?][] = [
    ['token', 'GET', (name) => `/tokens/${name}`],
    ['token', 'DELETE', (name) => `/tokens/${name}`],
    ['token', 'DELETE', (name) => `/tokens/${name}?wait=fleet`],
    ['token', 'DELETE', () => '/tokens', (name) => bulk(name)],
    ['token', 'DELETE', () => '/tokens', (name) => bulk(own, name)],
    ['token', 'PATCH', (name) => `/tokens/${name}`, () => ({ suspended: true })],
    ['token', 'PATCH', (name) => `/tokens/${name}`, () => ({ rate: 'wrong' })],
    ['token', 'POST', (name) => `/tokens/${name}/rotate`, () => ({ overlap: 60 })],
    ['token', 'POST', (name) => `/tokens/${name}/rotate`, () => ({ overlap: 'wrong' })],
    ['customer', 'GET', (name) => `/customer/${name}/tokens`],
    ['session', 'DELETE', (name) => `/_latchkey/sessions/${name}`],
  ];
  const foreign: Record<string, string> = { token: id, customer: 'C2', session: session?.id ?? '' };
  const before = (await request(`/tokens/${id}`, owner)).text;
  for (const [caller, headers] of Object.entries(callers)) {
    for (const [kind, method, path, json] of asks) {
      const name = foreign[kind] as string;
      const told = async (each: string) => {
        const body = json === undefined ? {} : { json: json(each) };
        const reply = await request(path(each), { method, headers, ...body });
        const fields = { ...reply.headers, date: '', 'x-request-id': '', 'content-length': '' };
        const audit = reply.audit.map(({ event, outcome, reason }) => [event, outcome, reason]);
        return JSON.stringify([reply.status, reply.text, fields, audit, reply.forwarded !== undefined]).replaceAll(each, 'ID');
      };
      t.equal(await told(name), await told('Z'.repeat(22)), `${caller}: ${method} ${path('ID')}`);
    }
  }
  t.equal((await request(`/tokens/${id}`, owner)).text, before, 'and nothing changed');
  t.equal((await request('/_latchkey/sessions', owner)).json.length, 1, 'nor did a session end');
}); // prettier-ignore
