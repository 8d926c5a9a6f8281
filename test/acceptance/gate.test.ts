import { readFileSync } from 'node:fs';
import t from 'tap';
import { LEGACY_KEY, OPEN_STATUS, startFixture } from '../helpers/fixture.js';
import { send, sendRaw } from '../helpers/http.js';

const { url, login, token, create, upstream } = await startFixture(t, { routes: OPEN_STATUS });
const key = (value: string) => ({ headers: { 'Service-Key': value } });

t.test('responds 401 with the same bytes to every missing or invalid credential', async (t) => {
  const good = await token('superuser');
  const session = await login('superuser');
  const sets: Record<string, string>[] = [
    {},
    { 'Service-Key': '' },
    { 'Service-Key': 'x' },
    { 'Service-Key': good.slice(0, -1) },
    { 'Service-Key': `${good}x` },
    { 'Service-Key': good.toLowerCase() },
    { 'Service-Key': `${good}, x` },
    { 'Service-Key': session.split('=')[1] ?? '' },
    { Service_Key: good },
    { Authorization: `Basic ${btoa(`${good}x:`)}` },
    { Authorization: `Basic ${btoa(`a:${LEGACY_KEY}`)}` },
    { Authorization: `Bearer ${good.slice(0, -1)}` },
    { Authorization: `Bearer ${good.toLowerCase()}` },
    { Authorization: `Bearer ${LEGACY_KEY}` },
    { Cookie: `service.session=${good}` },
    { Cookie: `${session}x` },
    { Cookie: 'service.session=' },
    { Cookie: session.replace('service.session', 'service_session') },
    // An invalid key never falls back to the cookie.
    { 'Service-Key': 'bad', Cookie: session },
    { Authorization: `Bearer lk${'0'.repeat(38)}`, Cookie: session },
  ];
  for (const headers of sets) {
    const reply = await send(url, '/service/SVC1', { headers });
    t.equal(reply.status, 401, JSON.stringify(headers));
    t.equal(reply.text, '{"msg":"Provided credentials are missing or invalid"}\n');
    t.equal(reply.headers['content-type'], 'application/json');
  }
  t.equal(
    (await send(url, `/service/SVC1?service_key=${good}&Service-Key=${good}`)).status,
    401,
    'not in the query',
  );
});

t.test('responds 400 to several credentials of one kind', async (t) => {
  const good = await token('superuser');
  const session = await login('superuser');
  const twoKeys = `GET / HTTP/1.1\r\nHost: a\r\nService-Key: ${good}\r\nService-Key: ${good}\r\n\r\n`;
  t.match(await sendRaw(url, twoKeys), /^HTTP\/1\.1 400 /);
  const twoCookies = `GET / HTTP/1.1\r\nHost: a\r\nCookie: ${session}; ${session}\r\n\r\n`;
  t.match(await sendRaw(url, twoCookies), /^HTTP\/1\.1 400 /);
});

t.test('Service-Key takes precedence over the cookie', async (t) => {
  const headers = { 'Service-Key': await token('engineer'), Cookie: await login('superuser') };
  const reply = await send(url, '/service/SVC1', { headers });
  t.equal(reply.json.headers['x-auth-user-id'], 'engineer');
});

// Rows: method, path, and the status for each scope in order.
const SCOPES = ['global', 'global:read', 'purge_select', 'purge_all'];
const SCOPE_TABLE: [string, string, number, number, number, number][] = [
  ['GET', '/service/SVC1/version/1', 200, 200, 403, 403],
  ['HEAD', '/service/SVC1/version/1', 200, 200, 403, 403],
  ['OPTIONS', '/service/SVC1/version/1', 200, 200, 403, 403],
  ['PUT', '/service/SVC1/version/1/activate', 200, 403, 403, 403],
  ['POST', '/service/SVC1/purge/key-1', 200, 403, 200, 403],
  ['POST', '/service/SVC1/purge', 200, 403, 200, 403],
  ['POST', '/service/SVC1/purge_all', 200, 403, 403, 200],
  ['POST', '/purge/www.example.com/a', 200, 403, 200, 403],
  ['PURGE', '/a/b', 200, 403, 200, 403],
  ['GET', '/billing/invoices', 200, 200, 403, 403],
  ['POST', '/user', 200, 403, 403, 403],
  ['GET', '/anything', 200, 200, 403, 403],
  ['DELETE', '/anything', 200, 403, 403, 403],
  ['GET', '/tokens/self', 200, 200, 200, 200],
];

t.test('what each scope allows', async (t) => {
  for (const [i, scope] of SCOPES.entries()) {
    const secret = await token('superuser', { scope });
    for (const [method, path, ...statuses] of SCOPE_TABLE) {
      const reply = await send(url, path, { method, ...key(secret) });
      t.equal(reply.status, statuses[i], `${scope} ${method} ${path}`);
      if (reply.status === 403 && scope === 'global:read') {
        t.equal(reply.json.detail, 'Read only tokens are not allowed to access this endpoint');
      } else if (reply.status === 403 && method !== 'HEAD')
        t.match(reply.json.detail, /scope .* is not allowed to perform \w+:\w+/);
    }
  }
  const both = await token('superuser', { scope: 'purge_select purge_all' });
  for (const path of ['/service/SVC1/purge/a', '/service/SVC1/purge_all']) {
    t.equal((await send(url, path, { method: 'POST', ...key(both) })).status, 200, `the union: ${path}`);
  }
});

t.test(
  'what each role allows, by token and by session; billing endpoints need billing or superuser',
  async (t) => {
    const rows: [string, string, Record<string, number>][] = [
      ['GET', '/service/SVC1', { superuser: 200, billing: 200, engineer: 200, user: 200 }],
      ['PUT', '/service/SVC1', { superuser: 200, billing: 403, engineer: 200, user: 403 }],
      ['GET', '/billing', { superuser: 200, billing: 200, engineer: 403, user: 403 }],
      ['POST', '/billing/x', { superuser: 200, billing: 200, engineer: 403, user: 403 }],
      ['POST', '/user', { superuser: 200, billing: 403, engineer: 403, user: 403 }],
      ['POST', '/invitations', { superuser: 200, billing: 403, engineer: 403, user: 403 }],
      ['POST', '/service-authorizations', { superuser: 200, billing: 403, engineer: 403, user: 403 }],
    ];
    for (const role of ['superuser', 'billing', 'engineer', 'user']) {
      const credentials = [{ 'Service-Key': await token(role) }, { Cookie: await login(role) }];
      for (const headers of credentials) {
        for (const [method, path, expected] of rows) {
          const reply = await send(url, path, { method, headers });
          t.equal(reply.status, expected[role], `${role} ${Object.keys(headers)[0]} ${method} ${path}`);
          if (reply.status === 403) t.match(reply.json.detail, new RegExp(`role ${role} .* \\w+:\\w+`));
        }
      }
    }
  },
);

t.test('enforces a service limit, and actions denied to service-limited tokens', async (t) => {
  const limited = await token('superuser', new URLSearchParams('services[]=SVC1'));
  const rows: [string, string, number, RegExp | undefined][] = [
    ['GET', '/service/SVC1', 200, undefined],
    ['GET', '/service/SVC1/version/1', 200, undefined],
    ['GET', '/service/SVC2', 403, /service:read on service SVC2/],
    ['GET', '/service/svc1', 403, /svc1/],
    ['POST', '/service/SVC2/purge/x', 403, /purge:select on service SVC2/],
    ['GET', '/anything', 200, undefined],
    ['POST', '/billing', 200, undefined],
    ['GET', '/user/1', 200, undefined],
    ['POST', '/user', 403, /user:write/],
    ['PUT', '/user/1', 403, /user:write/],
    ['DELETE', '/user/nobody', 403, /user:write/],
    ['POST', '/users', 403, /user:write/],
    ['POST', '/invitations', 403, /invitation:write/],
    ['POST', '/service-authorizations', 403, /service_authorization:write/],
    ['PATCH', '/service_authorizations/1', 403, /service_authorization:write/],
  ];
  for (const [method, path, status, detail] of rows) {
    const reply = await send(url, path, { method, ...key(limited) });
    t.equal(reply.status, status, `${method} ${path}`);
    if (detail) t.match(reply.json.detail, detail);
  }
  const purge = await token(
    'superuser',
    new URLSearchParams('scope=purge_select&services[]=SVC1&services[]=SVC2'),
  );
  for (const service of ['SVC1', 'SVC2']) {
    t.equal((await send(url, `/service/${service}/purge/a`, { method: 'POST', ...key(purge) })).status, 200);
  }
});

t.test('refuses to delete a user with active tokens, through the proxy too', async (t) => {
  const root = await token('superuser');
  const { id, access_token } = (await create('engineer')).json;
  const before = upstream.received.length;
  const refused = await send(url, '/user/engineer', { method: 'DELETE', ...key(root) });
  t.equal(refused.status, 400);
  t.same(refused.json, { msg: 'Bad request', detail: 'user has active API tokens' });
  t.equal(upstream.received.length, before, 'the upstream was not asked');
  const owned = await send(url, '/customer/C1/tokens', { headers: { Cookie: await login('superuser') } });
  for (const each of owned.json.filter((entry: { user_id: string }) => entry.user_id === 'engineer')) {
    await send(url, `/tokens/${each.id}`, {
      method: 'DELETE',
      headers: { Cookie: await login('superuser') },
    });
  }
  t.ok(id && access_token);
  t.equal(
    (await send(url, '/user/engineer', { method: 'DELETE', ...key(root) })).status,
    200,
    'allowed after the revocation',
  );
});

t.test('sends exact identity headers for each credential, and never those of the client', async (t) => {
  const spoofed = {
    'X-Auth-User-Id': 'evil',
    x_auth_user_id: 'evil',
    'X.Auth.Role': 'evil',
    'X-Auth-Services': 'evil',
    'X-Auth-Token-Id': 'evil',
    'X-Forwarded-For': '6.6.6.6',
    'X-Forwarded-Proto': 'https',
    'X-Real-IP': '6.6.6.6',
    Forwarded: 'for=6.6.6.6',
    'X-Original-URL': '/evil',
    'X-HTTP-Method-Override': 'DELETE',
    Proxy: 'evil',
    Connection: 'X-Auth-User-Id',
  };
  const identity = (headers: Record<string, string>) =>
    Object.fromEntries(Object.entries(headers).filter(([name]) => /^x[-_.]auth/.test(name)));
  const made = (await create('engineer', new URLSearchParams('scope=global&services[]=SVC1&services[]=SVC2')))
    .json;
  const byToken = await send(url, '/service/SVC1', {
    headers: { ...spoofed, 'Service-Key': made.access_token },
  });
  t.same(identity(byToken.json.headers), {
    'x-auth-user-id': 'engineer',
    'x-auth-customer-id': 'C1',
    'x-auth-login': 'engineer@example.com',
    'x-auth-role': 'engineer',
    'x-auth-scope': 'global',
    'x-auth-services': 'SVC1,SVC2',
    'x-auth-credential': 'token',
    'x-auth-token-id': made.id,
  });
  const Cookie = `a=1; ${await login('superuser')}; b=2`;
  const bySession = await send(url, '/service/SVC1', { headers: { ...spoofed, Cookie } });
  t.same(identity(bySession.json.headers), {
    'x-auth-user-id': 'superuser',
    'x-auth-customer-id': 'C1',
    'x-auth-login': 'superuser@example.com',
    'x-auth-role': 'superuser',
    'x-auth-scope': 'global',
    'x-auth-credential': 'session',
  });
  t.equal(bySession.json.headers.cookie, 'a=1; b=2', 'other cookies are kept');
  const open = await send(url, '/status', {
    headers: { ...spoofed, 'Service-Key': made.access_token, Cookie },
  });
  t.equal(open.status, 200, 'a route without authentication');
  t.same(identity(open.json.headers), {}, 'adds none and still removes those of the client');
  for (const reply of [byToken, bySession, open]) {
    t.notMatch(JSON.stringify(reply.json), /evil|6\.6\.6\.6|service-key|service\.session|lk[0-9A-Za-z]{38}/i);
    t.equal(reply.json.headers['x-forwarded-for'], '127.0.0.1');
    t.equal(reply.headers['x-request-id'], reply.json.headers['x-request-id'], 'the same id on both sides');
  }
});

t.test('forwards targets byte for byte, including // and %2F in a purge', async (t) => {
  const secret = await token('superuser', { scope: 'purge_select' });
  for (const target of [
    '/purge/http://www.example.com/a?x=1',
    '/service/SVC1/purge/a%20b',
    '/service/SVC1/purge/a%2Fb%2fc',
    '/service/SVC1/purge/a/b',
    '/purge/%E4%BD%A0?q=%zz//..',
  ]) {
    const reply = await send(url, target, { method: 'POST', ...key(secret) });
    t.equal(reply.status, 200, target);
    t.equal(upstream.received.at(-1)?.target, target);
  }
  for (const target of [
    '/service/SVC1/purge/../purge_all',
    '//service/SVC1/purge_all',
    '/service/SVC1%2fpurge_all',
    '/a/%2e%2e/b',
  ]) {
    const reply = await send(url, target, { method: 'POST', ...key(secret) });
    t.equal(reply.status, 400, target);
  }
});

t.test('limits: 16 KiB of fields, 100 fields, 8 KiB target; methods', async (t) => {
  const good = key(await token('superuser'));
  t.equal((await send(url, '/x', { headers: { 'X-Big': 'a'.repeat(17_000) } })).status, 431);
  const many = Object.fromEntries(Array.from({ length: 120 }, (_, i) => [`X-${i}`, 'a']));
  t.equal((await send(url, '/x', { headers: many })).status, 431);
  t.equal((await send(url, `/${'a'.repeat(9_000)}`, good)).status, 414);
  t.equal((await send(url, '/x', { method: 'TRACE', ...good })).status, 405);
  t.match(await sendRaw(url, 'GARBAGE\r\n\r\n'), /^HTTP\/1\.1 400 [\s\S]*\{"msg":"Bad request"/);
});

t.test('the log names the refusing rule with its line', async (t) => {
  const own = await startFixture(t, {
    policy: {
      roles: { engineer: { allow: ['*'], deny: ['billing:read'] }, user: {}, billing: {}, superuser: {} },
    },
  });
  const secret = await own.token('engineer');
  t.equal((await send(own.url, '/billing', key(secret))).status, 403);
  const record = () =>
    own.server
      .stdout()
      .split('\n')
      .find((line) => line.includes('"status":403'));
  while (record() === undefined) await new Promise((wait) => setTimeout(wait, 20));
  const { rule, outcome, action } = JSON.parse(record() ?? '{}');
  const [, line] = /^policy\.roles\.engineer\.deny\.0, line (\d+)$/.exec(rule) ?? [];
  t.match(readFileSync(own.configFile, 'utf8').split('\n')[Number(line) - 1], /billing:read/);
  t.match({ outcome, action }, { outcome: 'role', action: 'billing:read' });
});
