import { gzipSync } from 'node:zlib';
import t from 'tap';
import { OTP_SECRET, otpAt, PASSWORD, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';

const config = { listen: { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] } };
const { url, login, token, upstream } = await startFixture(t, config);
const PAGE = '/_latchkey/';

t.test('the document has the right type, caching and security headers', async (t) => {
  const reply = await send(url, PAGE);
  t.equal(reply.status, 200);
  t.match(reply.headers, {
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'x-frame-options': 'DENY',
  });
  t.equal(reply.headers['strict-transport-security'], undefined, 'not without TLS');
  t.equal(reply.headers['set-cookie'], undefined);
  const policy = new Map((reply.headers['content-security-policy'] as string).split('; ').map((part) => [part.split(' ')[0], part]));
  for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", "form-action 'self'"]) {
    t.equal(policy.get(part.split(' ')[0]), part);
  }
  t.notMatch(reply.headers['content-security-policy'], /unsafe|https?:|\*/);
  t.notMatch(reply.text, /<script(?![^>]*src=)|<style|style=|\son\w+=/, 'no inline script or style');

  const secure = await send(url, PAGE, { headers: { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': '9.9.9.9' } });
  t.match(secure.headers['strict-transport-security'], /^max-age=31536000/);
}); // prettier-ignore

t.test('its assets have exact names, are immutable, small and from the same host', async (t) => {
  const { text } = await send(url, PAGE);
  const files = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path = '']) => path);
  t.equal(files.length, 3);
  for (const file of files) {
    t.match(file, /^assets\/\w+-[A-Z0-9]{8}\.(js|css|svg)$/);
    const reply = await send(url, PAGE + file);
    t.equal(reply.status, 200, file);
    t.equal(reply.headers['cache-control'], 'public, max-age=31536000, immutable');
    t.match(reply.headers['content-type'], /^(text\/javascript|text\/css|image\/svg\+xml)/);
    t.equal(reply.headers['x-content-type-options'], 'nosniff');
    t.equal(reply.headers['cross-origin-resource-policy'], 'same-origin');
    if (file.endsWith('.js')) {
      const size = gzipSync(reply.text).length;
      t.ok(size < 60_000, `${size} bytes of script`);
      t.notMatch(reply.text, /\bhttps?:\/\/(?!www\.w3\.org\/)/, 'no other host');
    }
    const head = await send(url, PAGE + file, { method: 'HEAD' });
    t.equal(head.headers['content-length'], String(Buffer.byteLength(reply.text)));
    t.equal(head.text, '');
  }
});

t.test('no other path exists below it, in any spelling', async (t) => {
  const rows: [string, string, number][] = [
    ['GET', '/_latchkey', 308],
    ['GET', '/_latchkey/index.html', 404],
    ['GET', '/_latchkey/assets/', 404],
    ['GET', '/_latchkey/assets/main.js', 404],
    ['GET', '/_latchkey/assets/..%2Findex.html', 400],
    ['GET', '/_latchkey/assets/%2e%2e/index.html', 400],
    ['GET', '/_latchkey//', 400],
    ['GET', '/_latchkey/assets/constructor', 404],
    ['GET', '/_latchkey/session', 401],
    ['GET', '/_latchkey/people', 401],
  ];
  for (const [method, path, status] of rows) {
    const reply = await send(url, path, { method });
    t.equal(reply.status, status, `${method} ${path}`);
    t.equal(reply.headers['cache-control'], 'no-store');
    if (status === 308) t.equal(reply.headers['location'], PAGE);
  }
  t.equal(upstream.received.length, 0, 'none of them reaches the upstream');
});

t.test('redirects a browser from / to the page', async (t) => {
  const html = { Accept: 'text/html,application/xhtml+xml' };
  const open = async (at: string, headers: Record<string, string> = html, path = '/', method = 'GET') => {
    const { status, headers: answered } = await send(at, path, { method, headers });
    return [status, answered['location']];
  };
  t.same(await open(url), [302, PAGE]);
  t.same(await open(url, { ...html, Cookie: 'service.session=none' }), [302, PAGE], 'after an ended session too');
  t.same(await open(url, { Accept: 'application/json' }), [401, undefined], 'programs get the status');
  t.same(await open(url, {}), [401, undefined]);
  t.same(await open(url, { ...html, 'Service-Key': 'none' }), [401, undefined], 'an invalid key');
  t.same(await open(url, html, '/x'), [401, undefined], 'other paths stay refused');
  t.same(await open(url, html, '/', 'POST'), [401, undefined]);
  const cookie = await login('superuser');
  t.same(await open(url, { ...html, Cookie: cookie }), [200, undefined], 'a logged-in user reaches the upstream');

  const routes = [{ path: '/', action: 'api' }];
  const named = await startFixture(t, { routes });
  t.same(await open(named.url), [401, undefined], 'a route for "/" takes precedence');
  const denied = await startFixture(t, { routes: [], default_route: { auth: 'deny' }, interface: { ui: { path: '/p/' } } });
  t.same(await open(denied.url), [302, '/p/']);
  const off = await startFixture(t, { interface: { ui: { enabled: false } } });
  t.same(await open(off.url), [401, undefined]);
  const own = await startFixture(t, { interface: { ui: { host: 'login.example.com' } } });
  t.same(await open(own.url, { ...html, Host: 'login.example.com' }), [302, PAGE]);
  t.same(await open(own.url), [401, undefined], 'only on the host of the page');
}); // prettier-ignore

t.test('suggests the endpoint for a path with a trailing slash', async (t) => {
  for (const [method, path, meant] of [
    ['POST', '/tokens/', '/tokens'],
    ['GET', '/tokens/self/', '/tokens/self'],
    ['POST', '/login/', '/login'],
  ] as const) {
    const { status, json } = await send(url, path, { method });
    t.equal(status, 400);
    t.match(json.detail, `; did you mean ${meant}, without the trailing slash?`);
  }
});

t.test('describes the user and the allowed scopes', async (t) => {
  const cookie = await login('billing');
  const reply = await send(url, `${PAGE}session`, { headers: { Cookie: cookie } });
  t.equal(reply.headers['cache-control'], 'no-store');
  t.match(reply.json.session, { idle_timeout: 1800 });
  t.ok(Math.abs(reply.json.session.ends_in - 43_200) < 60);
  t.same(reply.json, {
    session: reply.json.session,
    user: { id: 'billing', name: 'billing', login: 'billing@example.com', role: 'billing', customer_id: 'C1' },
    customer: { id: 'C1', name: 'One' },
    one_time_password: false,
    may: { list_tokens: true, revoke_tokens: true, list_customer_tokens: true, revoke_customer_tokens: false },
    services: [
      { id: 'SVC1', name: 'www' },
      { id: 'SVC2', name: 'shop' },
    ],
    scopes: [
      { name: 'global', title: 'Full access', description: /./ },
      { name: 'global:read', title: 'Read only', description: /./ },
      { name: 'purge_select', title: 'Purge selected', description: /./ },
      { name: 'purge_all', title: 'Purge all', description: /./ },
    ].map((scope, i) => ({ ...scope, description: reply.json.scopes[i].description })),
    max_lifetime: null,
    warn_before: 604_800,
    rotation: { overlap: 86_400, max_overlap: 604_800 },
    key_field: 'Service-Key',
    public_url: null,
  });
  const otherKind = await send(url, `${PAGE}session`, { headers: { 'Service-Key': await token('billing') } });
  t.equal(otherKind.status, 403, 'a token is not a session');

  const people = await send(url, `${PAGE}people`, { headers: { Cookie: cookie } });
  t.match(people.json.find(({ id }: { id: string }) => id === 'user'), { id: 'user', name: 'user', login: 'user@example.com' });
  t.notOk(people.json.some(({ id }: { id: string }) => id === 'other'), 'users of another customer are not listed');
  t.notMatch(people.text, /argon2|otp|password/i);
  t.equal((await send(url, `${PAGE}people`, { headers: { Cookie: await login('engineer') } })).status, 403);
}); // prettier-ignore

t.test('sessions: lists and ends only those of the user', async (t) => {
  const [first, second, third, other] = [await login('user'), await login('user'), await login('user'), await login('engineer')]; // prettier-ignore
  const list = async (cookie: string) =>
    (await send(url, '/_latchkey/sessions', { headers: { Cookie: cookie } })).json;
  const end = (cookie: string, path: string, headers = {}) =>
    send(url, path, { method: 'DELETE', headers: { Cookie: cookie, ...headers } });
  const sessions = await list(first);
  t.equal(sessions.length, 3);
  t.equal(sessions.filter(({ current }: { current: boolean }) => current).length, 1);
  t.same(Object.keys(sessions[0]).toSorted(), ['created_at', 'current', 'ends_at', 'id', 'ip', 'last_seen_at', 'user_agent']); // prettier-ignore
  for (const cookie of [first, second, third]) {
    t.notOk(JSON.stringify(sessions).includes(cookie.split('=')[1] ?? ''), 'no secret');
  }
  const [mine] = (await list(second)).filter(({ current }: { current: boolean }) => current);
  t.equal((await end(other, `/_latchkey/sessions/${mine.id}`)).status, 404, "another user's is not found");
  t.equal((await end(first, '/_latchkey/sessions/nothing')).status, 404);
  t.equal(
    (await end(first, `/_latchkey/sessions/${mine.id}`, { 'Sec-Fetch-Site': 'cross-site' })).status,
    403,
  );
  t.equal((await list(second)).length, 3, 'still active');
  t.equal((await end(first, `/_latchkey/sessions/${mine.id}`)).status, 204);
  t.equal((await send(url, '/_latchkey/sessions', { headers: { Cookie: second } })).status, 401);
  t.equal((await end(first, '/_latchkey/sessions')).status, 204);
  t.equal((await send(url, '/_latchkey/sessions', { headers: { Cookie: third } })).status, 401);
  t.equal((await list(first)).length, 1);
  t.ok((await list(other)).length > 0);
  t.equal(
    (await send(url, '/_latchkey/sessions', { headers: { 'Service-Key': await token('user') } })).status,
    403,
  );
});

t.test('a logout from the page clears site data; one from elsewhere does not', async (t) => {
  const leave = async (headers: Record<string, string>) =>
    send(url, '/logout', { method: 'POST', headers: { Cookie: await login('user'), ...headers } });
  t.equal((await leave({ 'Latchkey-Page': '1' })).headers['clear-site-data'], '"cache", "storage"');
  t.equal((await leave({ 'Sec-Fetch-Site': 'same-origin' })).headers['clear-site-data'], undefined);
});

t.test('a user with two factors is told that a one-time password is needed', async (t) => {
  const body = new URLSearchParams({ user: 'twofactor@example.com', password: PASSWORD });
  const reply = await send(url, '/login', { body, headers: { 'Service-OTP': otpAt(Date.now()) } });
  const [cookie = ''] = reply.headers['set-cookie'] ?? [];
  const { text, json } = await send(url, `${PAGE}session`, {
    headers: { Cookie: cookie.split(';')[0] ?? '' },
  });
  t.equal(json.one_time_password, true);
  t.notOk(text.includes(OTP_SECRET));
});

t.test('custom names, path, limits and scopes; and a disabled page', async (t) => {
  const there = await startFixture(t, {
    interface: { vendor: 'Acme', ui: { path: '/account/tokens/' } },
    tokens: { max_lifetime: '24h' },
    policy: {
      scopes: {
        global: { allow: ['*:read'], deny: ['billing:*'] },
        all: { allow: ['*'] },
        none: {},
        reports: { allow: ['api:read'], description: 'Reads reports.' },
      },
    },
  });
  const page = await send(there.url, '/account/tokens/');
  t.match(page.text, 'name="one-time-password-field" content="Acme-OTP"');
  t.equal((await send(there.url, '/account/tokens')).headers['location'], '/account/tokens/');
  const { json } = await send(there.url, '/account/tokens/session', { headers: { Cookie: await there.login('superuser') } });
  t.match(json, { key_field: 'Acme-Key', max_lifetime: 86_400 });
  t.same(json.scopes, [
    { name: 'global', title: 'global', description: 'Allows *:read, but never billing:*.' },
    { name: 'all', title: 'Full access', description: 'Can do everything that you can do, in the services and in the account.' },
    { name: 'none', title: 'none', description: 'Allows nothing.' },
    { name: 'reports', title: 'reports', description: 'Reads reports.' },
  ]);
  t.equal((await send(there.url, PAGE)).status, 401, 'the default path is ordinary');

  const off = await startFixture(t, { interface: { ui: { enabled: false } } });
  const headers = { Cookie: await off.login('superuser') };
  for (const path of [PAGE, '/_latchkey', '/_latchkey/sessions', '/_latchkey/sessions/x']) {
    t.equal((await send(off.url, path, { headers })).status, 200, `${path} belongs to the upstream`);
  }
  t.equal(off.upstream.received.length, 4);
}); // prettier-ignore
