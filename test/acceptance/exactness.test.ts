import t, { type Test as T } from 'tap';
import type { Refusal } from '../../src/domain/refusal.js';
import { refusalReply } from '../../src/http/replies.js';
import { exchange, type WireReply } from '../helpers/exchange.js';
import { LEGACY_KEY, PASSWORD, startFixture } from '../helpers/fixture.js';
import { send, serveHttp, serveTcp } from '../helpers/http.js';
import { freePort } from '../helpers/free-port.mjs';
import { until, untilHourLasts } from '../helpers/until.js';

/*
 * What clients rely on exactly: framing and media type of Latchkey's own responses, the members of
 * an error, and null for missing values.
 */

/** Upstreams that fail in different ways. */
async function startFailing(t: T) {
  const { url: silentUrl } = await serveHttp(t, () => undefined);
  const { url: brokenUrl } = await serveTcp(t, (socket) => socket.end('HTTP/1.1 200 OK\r\nA\r\n\r\n'));
  return {
    gone: { url: `http://127.0.0.1:${await freePort()}`, connect_timeout: '1s' },
    silent: { url: silentUrl, response_timeout: '300ms' },
    broken: { url: brokenUrl },
  };
} // prettier-ignore

const upstreams = await startFailing(t);
const fixture = await startFixture(t, {
  upstream: undefined,
  upstreams: { ...upstreams, api: { url: upstreams.gone.url } },
  interface: { account_endpoints: true },
  identity: { assertion: { enabled: true, issuer: 'https://auth.example.com', audience: 'api' } },
  login: {
    oidc: [
      {
        name: 'sso',
        title: 'Company',
        issuer: 'https://127.0.0.1:1',
        client_id: 'latchkey',
        customer_id: 'C1',
        roles: { claim: 'groups', default: 'user' },
      },
    ],
    public_url: 'https://api.example',
    max_failures: 3,
  },
  decision: { host: '127.0.0.1', port: 0 },
  limits: { body_timeout: '1s' },
  rate_limit: { writes_per_hour: 2 },
  default_route: { action: 'api', upstream: 'gone' },
  routes: [
    { path: '/silent', action: 'api', upstream: 'silent' },
    { path: '/broken', action: 'api', upstream: 'broken' },
    { path: '/hidden', auth: 'deny' },
    { path: '/billing', action: 'billing', upstream: 'silent' },
    { path: '/invitation', action: 'invitation' },
    { path: '/service/:service_id', action: 'service', service: 'service_id' },
    { path: '/user/:user_id', methods: ['DELETE'], action: 'user', refuse_if_active_tokens: 'user_id' },
  ],
});
const { url, server, token, login } = fixture;
const FORM = 'Content-Type: application/x-www-form-urlencoded\r\n';
const CREDENTIALS = `password=${encodeURIComponent(PASSWORD)}&user=superuser%40example.com&username=superuser%40example.com`;
const key = `Service-Key: ${LEGACY_KEY}\r\n`;

function ask(line: string, fields = '', body?: string, at = url): Promise<WireReply> {
  const length = body === undefined ? '' : `Content-Length: ${Buffer.byteLength(body)}\r\n`;
  return exchange(at, `${line} HTTP/1.1\r\nHost: a\r\n${fields}${length}\r\n${body ?? ''}`, line.startsWith('HEAD'));
} // prettier-ignore

/**
 * RFC 9110 15.3.5 and 8.6: a 204 response has no content, no Content-Type and no Content-Length.
 */
function isOwnAnswer(t: T, reply: WireReply, status: number, name: string): void {
  t.match([reply.status, reply.reason], [status, /^[A-Z]/], `${name}: status`);
  t.same(reply.all('cache-control'), ['no-store'], `${name}: Cache-Control`);
  t.same(reply.all('x-content-type-options'), ['nosniff'], `${name}: X-Content-Type-Options`);
  t.match(reply.all('x-request-id'), [/^[\w-]+$/], `${name}: X-Request-Id`);
  t.match(reply.all('date'), [/GMT$/], `${name}: Date`);
  t.same(reply.all('transfer-encoding'), [], `${name}: Transfer-Encoding`);
  const hasBody = status !== 204;
  t.same(reply.all('content-type'), hasBody ? ['application/json'] : [], `${name}: Content-Type`);
  t.same(reply.all('content-length'), hasBody ? [String(reply.body.length)] : [], `${name}: Content-Length`);
  if (hasBody) t.ok(reply.json !== undefined && reply.body.endsWith('\n'), `${name}: is JSON and a line`);
  else t.equal(reply.body, '', `${name}: no body`);
}

t.test('public documents, and the redirect to the page', async (t) => {
  const keys = await ask('GET /.well-known/jwks.json');
  t.same([keys.status, keys.all('content-type')], [200, ['application/json']], 'show_signing_keys');
  const description = await ask('GET /_latchkey/openapi.json');
  t.same([description.status, description.all('content-type'), description.all('cache-control')], [200, ['application/json'], ['no-store']], 'show_interface');
  const redirect = await ask('GET /_latchkey', `Cookie: ${await login('superuser')}\r\n`);
  t.match([redirect.status, redirect.all('content-length'), redirect.all('cache-control')], [308, ['0'], ['no-store']]);
}); // prettier-ignore

t.test('optional members of a token are null if not set', async (t) => {
  const made = await ask('POST /tokens', FORM, CREDENTIALS);
  t.match(made.json, { name: '', service_id: null, services: [], expires_at: null, scope: 'global' });
  const own = `Service-Key: ${made.json.access_token}\r\n`;
  const unused = await ask(`GET /tokens/${made.json.id}`, `Cookie: ${await login('superuser')}\r\n`);
  t.match(unused.json, { last_seen_at: null, last_used_at: null, ip: null, user_agent: null }, 'never used');
  for (const agent of ['', 'User-Agent:\r\n', 'User-Agent:  \r\n']) {
    const used = await ask('GET /tokens/self', own + agent);
    t.match(used.json, { ip: '127.0.0.1', user_agent: null, last_seen_at: /\+00:00$/ }, JSON.stringify(agent));
  }
  const sessions = await ask('GET /_latchkey/sessions', `Cookie: ${await login('engineer')}\r\n`);
  t.same(sessions.json.map((each: { user_agent: unknown }) => each.user_agent), [null], 'a session too');
}); // prettier-ignore

t.test('every refusal that a client can cause', async (t) => {
  const limited = `Service-Key: ${await token('superuser', { service_id: 'SVC1' })}\r\n`;
  const engineer = `Service-Key: ${await token('engineer')}\r\n`;
  const reader = `Service-Key: ${await token('superuser', { scope: 'global:read' })}\r\n`;
  const expiresAt = Math.floor(Date.now() / 1000) * 1000 + 4_000;
  const short = await token('superuser', { expires_at: new Date(expiresAt).toISOString() });
  const cookie = `Cookie: ${await login('superuser')}\r\n`;
  const wrong = `user=engineer%40example.com&password=wrong`;
  const rows: [name: string, status: number, reply: () => Promise<WireReply>][] = [
    ['two keys', 400, () => ask('GET /x', `${key}${key}`)],
    ['two hosts', 400, () => ask('GET /x', 'Host: b\r\n')],
    ['not HTTP', 400, () => exchange(url, 'GARBAGE\r\n\r\n')],
    ['a broken body', 400, () => ask('POST /tokens', 'Content-Type: application/json\r\n', '{')],
    ['no name and password', 400, () => ask('POST /tokens', FORM, '')],
    ['a wrong password for a session', 401, () => ask('POST /login', FORM, wrong)],
    ['a wrong password for a sudo grant', 403, () => ask('POST /sudo', FORM, `username=billing%40example.com&password=wrong`)],
    ['an unknown scope', 400, () => ask('POST /tokens', FORM, `${CREDENTIALS}&scope=x`)],
    ['an invalid expiry', 422, () => ask('POST /tokens', FORM, `${CREDENTIALS}&expires_at=x`)],
    ['no credential', 401, () => ask('GET /x')],
    ['a bad key', 401, () => ask('GET /x', 'Service-Key: x\r\n')],
    ['an expired token', 401, async () => {
      await until(() => Date.now() > expiresAt, 'it expires');
      return ask('GET /x', `Service-Key: ${short}\r\n`);
    }],
    ['the role', 403, () => ask('GET /billing', engineer)],
    ['the scope', 403, () => ask('PUT /x', reader)],
    ['the service', 403, () => ask('GET /service/SVC2', limited)],
    ['a service-limited token', 403, () => ask('PUT /invitation', limited)],
    ['the wrong kind of credential', 403, () => ask('GET /tokens', key)],
    ['another origin', 403, () => ask('PUT /x', `${cookie}Origin: https://evil.example\r\n`, '')],
    ['another customer', 403, () => ask('GET /customer/C2/tokens', cookie)],
    ['no such token', 404, () => ask('GET /tokens/none', cookie)],
    ['no such path of the page', 404, () => ask('GET /_latchkey/none')],
    ['a denied route', 404, () => ask('GET /hidden', key)],
    ['TRACE', 405, () => ask('TRACE /x', key)],
    ['CONNECT', 405, () => exchange(url, 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n')],
    ['a body that never arrives', 408, () => exchange(url, `POST /tokens HTTP/1.1\r\nHost: a\r\n${FORM}Content-Length: 9\r\n\r\na=1`)],
    ['a large body', 413, () => ask('POST /tokens', FORM, `a=${'x'.repeat(65_536)}`)],
    ['a long target', 414, () => ask(`GET /${'x'.repeat(8_192)}`, key)],
    ['another expectation', 417, () => ask('PUT /x', `${key}Expect: x\r\n`, '')],
    ['too many fields', 431, () => ask('GET /x', key + 'A: b\r\n'.repeat(100))],
    ['a large head', 431, () => ask('GET /x', `${key}A: ${'b'.repeat(17_000)}\r\n`)],
    ['an unreachable upstream', 502, () => ask('GET /x', key)],
    ['a broken upstream', 502, () => ask('GET /broken', key)],
    ['an upstream that does not respond', 504, () => ask('GET /silent', key)],
    ['a user with active tokens', 400, () => ask('DELETE /user/engineer', cookie)],
    ['the decision port, an incomplete check', 403, () => ask('GET /auth-request', '', undefined, server.decision)],
    ['the decision port, a built-in endpoint', 403, () => ask('GET /auth-request', 'X-Original-Method: GET\r\nX-Original-URI: /tokens\r\n', undefined, server.decision)],
  ];
  for (const [name, status, reply] of rows) {
    const got = await reply();
    isOwnAnswer(t, got, status, name);
    t.match(got.json?.msg, /./, `${name}: msg`);
    // All 401 responses have the same bytes, except for expired tokens.
    if (status !== 401 || 'code' in got.json) t.match(got.json?.detail, /./, `${name}: detail`);
    else t.same(Object.keys(got.json), ['msg'], `${name}: msg only`);
  }
  let throttled: WireReply | undefined;
  const isThrottled = async () => (throttled = await ask('POST /login', FORM, wrong)).status === 429;
  // The first wait is a second, which a busy machine may take for one login. It doubles each time.
  await until(isThrottled, 'further attempts have to wait');
  if (throttled === undefined) throw new Error('no response');
  isOwnAnswer(t, throttled, 429, 'too many failed logins');
  t.match(throttled.json, { msg: /./, detail: /./ });
}); // prettier-ignore

t.test('a counted write reports the remaining quota, whatever its outcome', async (t) => {
  await untilHourLasts(20_000);
  const headers = { 'Service-Key': await token('billing') };
  const left: unknown[] = [];
  for (const path of ['/billing', '/billing', '/billing']) {
    const reply = await send(url, path, { method: 'POST', headers });
    left.push([reply.status, reply.headers['service-ratelimit-remaining']]);
    t.match(reply.headers['service-ratelimit-reset'], /^\d{10}$/);
  }
  t.same(left, [[504, '1'], [504, '0'], [429, '0']]);
}); // prettier-ignore

t.test('every refusal has a message, and all but 401 a detail', async (t) => {
  const detail = 'why';
  const denied = { action: 'api:write', detail };
  const refusals: { readonly [Tag in Refusal['refusal']]: Extract<Refusal, { refusal: Tag }> | Refusal } = {
    malformed: { refusal: 'malformed', detail },
    several_credentials: { refusal: 'several_credentials', detail },
    method_not_allowed: { refusal: 'method_not_allowed', detail, method: 'TRACE', path: '/' },
    method_unknown: { refusal: 'method_unknown', detail, method: 'BREW', path: '/' },
    expectation_failed: { refusal: 'expectation_failed', detail },
    body_too_large: { refusal: 'body_too_large', detail },
    fields_too_large: { refusal: 'fields_too_large', detail },
    target_too_long: { refusal: 'target_too_long', detail },
    too_slow: { refusal: 'too_slow', detail },
    unauthenticated: { refusal: 'unauthenticated' },
    token_expired: { refusal: 'token_expired', tokenId: 'T1', expiredAt: 0 },
    role: { refusal: 'role', ...denied },
    scope: { refusal: 'scope', ...denied },
    service: { refusal: 'service', ...denied },
    service_limited: { refusal: 'service_limited', ...denied },
    wrong_credential_kind: { refusal: 'wrong_credential_kind', detail },
    cross_origin: { refusal: 'cross_origin', detail },
    service_worker: { refusal: 'service_worker', detail: 'x' },
    other_customer: { refusal: 'other_customer', detail },
    other_user: { refusal: 'other_user', detail },
    active_tokens: { refusal: 'active_tokens' },
    malformed_check: { refusal: 'malformed_check', detail },
    own_endpoint: { refusal: 'own_endpoint', detail },
    not_found: { refusal: 'not_found', detail },
    grant: { refusal: 'grant', status: 400, code: 'invalid_grant', detail },
    login_throttled: { refusal: 'login_throttled', retryAfter: 1, auditEvents: [] },
    rate_limited: { refusal: 'rate_limited', retryAfter: 1, resetAt: 0 },
    address: { refusal: 'address', detail },
    token_rate: { refusal: 'token_rate', retryAfter: 1 },
    upstream_unreachable: { refusal: 'upstream_unreachable', detail },
    upstream_broken: { refusal: 'upstream_broken', detail },
    upstream_too_slow: { refusal: 'upstream_too_slow', detail },
    store_unavailable: { refusal: 'store_unavailable' },
    outcome_unknown: { refusal: 'outcome_unknown' },
    account_source_unavailable: { refusal: 'account_source_unavailable' },
    key_set_unavailable: { refusal: 'key_set_unavailable' },
    audit_unavailable: { refusal: 'audit_unavailable' },
    signing_unavailable: { refusal: 'signing_unavailable' },
    overloaded: { refusal: 'overloaded', detail },
    fault: { refusal: 'fault' },
  };
  for (const [name, refusal] of Object.entries(refusals)) {
    const { status, json, headers: fields = [], content, maxAge } = refusalReply(refusal);
    t.same([content, maxAge], [undefined, undefined], `${name}: JSON with no-store`);
    t.match(json, status === 401 ? { msg: /./ } : { msg: /./, detail: /./ }, name);
    if (status === 429 || status === 503) t.ok(fields.includes('Retry-After'), `${name}: Retry-After`);
  }
}); // prettier-ignore
