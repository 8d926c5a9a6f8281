import { readFileSync } from 'node:fs';
import { Validator } from '@seriousme/openapi-schema-validator';
import t from 'tap';
import { otpAt, PASSWORD, startFixture } from '../helpers/fixture.js';
import { type Reply, send, type Sent } from '../helpers/http.js';
import { describedBy, type Exchange, InterfaceCheck } from '../helpers/interface-check.js';

const PATH = '/_latchkey/openapi.json';
const FULLEST = {
  interface: { vendor: 'Acme', token_endpoints: 'session_or_token', account_endpoints: true },
  identity: { assertion: { enabled: true, issuer: 'https://id.example.com', audience: 'upstreams' } },
  limits: { body_size: '4KiB' },
};
const LOGIN = 'superuser@example.com';

const fixture = await startFixture(t, FULLEST);
const { url } = fixture;
const served = await send(url, PATH);
const check = new InterfaceCheck(served.json);

/** Sends a request and validates the exchange against the server's own OpenAPI document. */
async function call(path: string, sent: Sent = {}): Promise<Reply> {
  const reply = await send(url, path, sent);
  const { method = sent.json === undefined && sent.body === undefined ? 'GET' : 'POST' } = sent;
  const requestType = sent.json === undefined ? 'application/x-www-form-urlencoded' : 'application/json';
  const requestBody = sent.json === undefined ? sent.body?.toString() : JSON.stringify(sent.json);
  const { status, headers, text } = reply;
  const fault = check.faultOf({ method, path, requestType, requestBody, status, headers, text });
  if (fault !== undefined) throw new Error(fault);
  return reply;
}

t.test('the document is valid OpenAPI 3.1 in every variant of the configuration', async (t) => {
  const configs = [
    '',
    'interface: { ui: { enabled: false } }',
    'interface: { ui: { path: /tokens-page/ }, account_endpoints: true, token_endpoints: session_or_token }',
    'identity: { assertion: { enabled: true } }',
  ];
  const validator = new Validator();
  for (const document of [served.json, ...configs.map(describedBy)]) {
    t.same(await validator.validate(structuredClone(document)), { valid: true });
    t.equal(validator.version, '3.1');
    const ids = Object.values(document.paths).flatMap((each) => Object.values(each as object).map(({ operationId }) => operationId));
    t.equal(new Set(ids).size, ids.length, 'operation ids are unique');
  }
  const broken = structuredClone(served.json);
  delete broken.paths['/login'].post.responses;
  broken.paths['/login'].post.parameters = [{ name: 'x' }];
  t.equal((await validator.validate(broken)).valid, false);
}); // prettier-ignore

t.test('GET /_latchkey/openapi.json needs no credential and is answered by Latchkey', async (t) => {
  t.equal(served.status, 200);
  t.match(served.headers, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  const head = await send(url, PATH, { method: 'HEAD' });
  t.equal(head.status, 200);
  t.equal(head.headers['content-length'], String(Buffer.byteLength(served.text)));
  t.equal((await send(url, `${PATH}/x`)).status, 404, 'nothing below it while the page owns the folder');
});

t.test('uses the names of the running configuration', async (t) => {
  const { securitySchemes, parameters } = served.json.components;
  t.match(securitySchemes, {
    token: { type: 'apiKey', in: 'header', name: 'Acme-Key' },
    bearer: { type: 'http', scheme: 'bearer' },
    session: { type: 'apiKey', in: 'cookie', name: 'acme.session' },
  });
  t.equal(parameters.OneTimePassword.name, 'Acme-OTP');
  t.same(served.json.paths['/tokens'].get.security, [{ session: [] }, { token: [] }, { bearer: [] }]);
  t.notMatch(served.text, 'Service-', 'no other name');
  const bare: Record<string, any> = describedBy('interface: { ui: { enabled: false } }'); // oxlint-disable-line typescript/no-explicit-any -- JSON
  t.same(Object.keys(bare['paths']).toSorted(), ['/_latchkey/openapi.json', '/customer/{id}/tokens', '/login', '/logout', '/tokens', '/tokens/self', '/tokens/self/rotate', '/tokens/{id}', '/tokens/{id}/rotate']);
  t.same(bare['paths']['/tokens'].get.security, [{ session: [] }]);
  const keyed: Record<string, any> = describedBy('interface: { bearer: false }'); // oxlint-disable-line typescript/no-explicit-any -- JSON
  t.same(keyed['paths']['/tokens/self'].get.security, [{ token: [] }]);
  t.equal(keyed['components'].securitySchemes.bearer, undefined);
  t.equal(bare['components'].schemas.Caller, undefined, 'nothing unused');
}); // prettier-ignore

t.test('with the page disabled or elsewhere, takes only this path from the upstream', async (t) => {
  for (const ui of [{ enabled: false }, { path: '/account/' }]) {
    const other = await startFixture(t, { interface: { ui }, default_route: { auth: 'none' } });
    t.equal((await send(other.url, PATH)).json.openapi, '3.1.1');
    t.equal(
      (await send(other.url, PATH, { method: 'DELETE' })).json.target,
      PATH,
      'any other method is forwarded',
    );
    t.equal((await send(other.url, '/_latchkey/other')).json.target, '/_latchkey/other', 'is forwarded');
    t.equal((await send(other.url, `${PATH}/other`)).json.target, `${PATH}/other`, 'is forwarded');
  }
});

t.test('operations have these statuses under the names of the configuration', async (t) => {
  const user = { user: LOGIN, password: PASSWORD };
  const form = (params: Record<string, string>) => ({ body: new URLSearchParams(params) });
  const key = { 'Acme-Key': (await call('/tokens', { json: { username: LOGIN, password: PASSWORD } })).json.access_token as string };
  const twofactor = form({ username: 'twofactor@example.com', password: PASSWORD });
  const rows: [number, string, Sent?][] = [
    [200, '/login', form(user)],
    [400, '/login', { body: 'x', headers: { 'Content-Type': 'text/plain' } }],
    [403, '/login', { ...form(user), headers: { Origin: 'https://elsewhere.example' } }],
    [413, '/login', { body: 'x'.repeat(5_000), headers: { 'Content-Type': 'application/x-www-form-urlencoded' } }],
    [417, '/login', { ...form(user), headers: { Expect: 'something' } }],
    [200, '/tokens', { ...twofactor, headers: { 'Acme-OTP': otpAt(Date.now()) } }],
    [200, '/tokens', { headers: key, method: 'HEAD' }],
    [401, '/tokens', {}],
  ];
  for (const [status, path, sent = {}] of rows) {
    const reply = await call(path, sent);
    t.equal(reply.status, status, `${sent.method ?? ''} ${path}: ${reply.text}`);
  }
  for (let left = 10; left > 0 && (await call('/login', form({ user: 'user@example.com', password: 'wrong' }))).status !== 429; ) left -= 1;
  t.ok(check.seen.has('login 429'), 'with Retry-After');
}); // prettier-ignore

t.test('docs/openapi.json is the same document with the default names', async (t) => {
  const document = JSON.parse(readFileSync('docs/openapi.json', 'utf8'));
  t.same(document, describedBy('interface: { account_endpoints: true }\nidentity: { assertion: { enabled: true } }'));
}); // prettier-ignore

t.test('detects violations of the document', async (t) => {
  const body = (value: unknown) => `${JSON.stringify(value)}\n`;
  const problem = body({ msg: 'a', detail: 'b' });
  const token = {
    id: 'a', user_id: 'a', customer_id: 'a', service_id: null, services: [], name: '', scope: 'global', scopes: ['global'],
    created_at: '2030-01-31T12:00:00+00:00', updated_at: '2030-01-31T12:00:00+00:00', expires_at: null,
    last_seen_at: null, last_used_at: null, ip: null, user_agent: null,
  }; // prettier-ignore
  const shown: Exchange = {
    method: 'GET',
    path: '/tokens/self',
    requestType: undefined,
    requestBody: undefined,
    status: 200,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store', 'x-request-id': 'a' },
    text: body(token),
  };
  const created: Exchange = {
    ...shown,
    method: 'POST',
    path: '/login',
    requestType: 'application/x-www-form-urlencoded; charset=utf-8',
    requestBody: 'user=a&password=b',
    headers: { ...shown.headers, 'set-cookie': ['a=b'] },
    text: body({ user: { id: 'a', name: '', login: 'a', role: 'a', customer_id: 'a' }, customer: { id: 'a', name: '' } }),
  }; // prettier-ignore
  const gone = { ...shown, method: 'DELETE', status: 204, text: '', headers: { ...shown.headers, 'content-type': undefined } };
  const refused = { ...shown, status: 503, text: problem, headers: { ...shown.headers, 'retry-after': '1' } };
  for (const each of [shown, created, gone, refused, { ...created, requestType: 'application/json', requestBody: '{"user":"a","password":"b"}' }])
    t.equal(check.faultOf(each), undefined);
  const with_ = (more: object) => ({ ...shown, text: body({ ...token, ...more }) });
  const rows: [string, Exchange, RegExp][] = [
    ['an unlisted status', { ...shown, status: 202 }, /no status 202/],
    ['an additional member', with_({ secret: 'x' }), /additional properties/],
    ['a member of a wrong type', with_({ services: 'SVC1' }), /services: must be array/],
    ['a time in another format', with_({ created_at: '2030-01-31T12:00:00Z' }), /created_at: must match pattern/],
    ['"" instead of null', with_({ expires_at: '' }), /expires_at/],
    ['a missing member', { ...shown, text: body({ ...token, scopes: undefined }) }, /scopes/],
    ['a missing header', { ...shown, headers: { ...shown.headers, 'x-request-id': undefined } }, /X-Request-Id is missing/],
    ['another content type', { ...shown, headers: { ...shown.headers, 'content-type': 'application/json; charset=utf-8' } }, /content type/],
    ['a cacheable response', { ...shown, headers: { ...shown.headers, 'cache-control': 'public' } }, /Cache-Control/],
    ['a 204 with a body', { ...gone, text: '{}' }, /there is a body/],
    ['a body without a newline', { ...shown, text: JSON.stringify(token) }, /newline/],
    ['no Retry-After', { ...refused, headers: shown.headers }, /Retry-After is missing/],
    ['a Retry-After that is not a number', { ...refused, headers: { ...shown.headers, 'retry-after': 'soon' } }, /Retry-After/],
    ['a refusal without a detail', { ...refused, text: body({ msg: 'a' }) }, /detail/],
    ['a code of another operation', { ...created, status: 401, text: body({ msg: 'invalid_scope', code: 'invalid_scope', detail: 'a' }) }, /body/],
    ['a login without a cookie', { ...created, headers: shown.headers }, /Set-Cookie is missing/],
    ['a request that should not have succeeded', { ...created, requestBody: 'user=a' }, /password/],
    ['a request of an unlisted media type', { ...created, requestType: 'text/plain' }, /text\/plain/],
  ];
  for (const [name, exchange, fault] of rows) t.match(check.faultOf(exchange) ?? 'nothing', fault, name);
}); // prettier-ignore
