import t, { type Test as T } from 'tap';
import { LEGACY_KEY, otpAt, PASSWORD, startFixture } from '../helpers/fixture.js';
import { type Reply, send } from '../helpers/http.js';
import { untilOtpStepLasts } from '../helpers/until.js';

const READ_KEYS = [
  'created_at', 'customer_id', 'expires_at', 'id', 'ip', 'last_seen_at', 'last_used_at', 'name', 'scope', 'scopes',
  'service_id', 'services', 'updated_at', 'user_agent', 'user_id',
]; // prettier-ignore
const CREATED_KEYS = [
  'access_token', 'created_at', 'customer_id', 'expires_at', 'id', 'name', 'scope', 'scopes', 'service_id', 'services',
  'updated_at', 'user_id',
]; // prettier-ignore
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/;

const fixture = await startFixture(t, { login: { max_failures: 100 } });
const { url, create, token, login } = fixture;

function isError(t: T, reply: Reply, status: number, code: string, name: string): void {
  t.equal(reply.status, status, `${name}: status`);
  t.same(Object.keys(reply.json).toSorted(), ['code', 'detail', 'msg'], `${name}: keys`);
  t.equal(reply.json.code, code, `${name}: code`);
  t.equal(reply.json.msg, code, `${name}: msg`);
  isOwnAnswer(t, reply, name);
}

function isOwnAnswer(t: T, reply: Reply, name: string): void {
  t.equal(reply.headers['content-type'], 'application/json', `${name}: exactly application/json`);
  t.equal(reply.headers['cache-control'], 'no-store', `${name}: no-store`);
  t.match(reply.headers['x-request-id'], /./, `${name}: request id`);
}

t.test('POST /tokens: response 200, one Token object including access_token', async (t) => {
  const reply = await create('superuser', { name: 'ci' });
  t.equal(reply.status, 200);
  isOwnAnswer(t, reply, 'create');
  t.same(Object.keys(reply.json).toSorted(), CREATED_KEYS);
  t.match(reply.json.id, /^[0-9A-Za-z]{22}$/);
  t.match(reply.json.access_token, /^lk[0-9A-Za-z]{38}$/);
  t.match(reply.json, {
    user_id: 'superuser', customer_id: 'C1', service_id: null, services: [], name: 'ci',
    scope: 'global', scopes: ['global'], created_at: TIME, updated_at: TIME, expires_at: null,
  }); // prettier-ignore
});

t.test('an absent name is the empty string; accepts JSON bodies and unknown parameters', async (t) => {
  const reply = await send(url, '/tokens', {
    json: {
      username: 'superuser@example.com',
      password: PASSWORD,
      scope: 'purge_select purge_all',
      extra: { a: 1 },
    },
  });
  t.equal(reply.status, 200, reply.text);
  t.match(reply.json, { name: '', scope: 'purge_select purge_all', scopes: ['purge_select', 'purge_all'] });
});

t.test('services: the union of services[], services and service_id in the order given', async (t) => {
  const rows: [string, string[], string | null][] = [
    ['service_id=SVC1', ['SVC1'], 'SVC1'],
    ['services[]=SVC1&services[]=SVC2', ['SVC1', 'SVC2'], 'SVC2'],
    ['services%5B%5D=SVC2', ['SVC2'], 'SVC2'],
    ['services=SVC2&service_id=SVC1', ['SVC2', 'SVC1'], 'SVC1'],
    ['services[]=SVC1&service_id=SVC1', ['SVC1'], 'SVC1'],
    ['', [], null],
  ];
  for (const [form, services, last] of rows) {
    const body = `username=superuser@example.com&password=${encodeURIComponent(PASSWORD)}&${form}`;
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
    const reply = await send(url, '/tokens', { body, headers });
    t.equal(reply.status, 200, `${form} ${reply.text}`);
    t.same([reply.json.services, reply.json.service_id], [services, last], form);
  }
});

t.test('every error of POST /tokens', async (t) => {
  const rows: [string, Record<string, string>, number, string][] = [
    ['no username', { username: '' }, 400, 'invalid_request'],
    ['no password', { password: '' }, 400, 'invalid_request'],
    ['a password that is too long', { password: 'x'.repeat(5_000) }, 400, 'invalid_request'],
    ['wrong password', { password: 'wrong' }, 400, 'invalid_grant'],
    ['unknown user', { username: 'nobody@example.com' }, 400, 'invalid_grant'],
    ['unknown scope', { scope: 'everything' }, 400, 'invalid_scope'],
    ['one unknown scope of two', { scope: 'global nothing' }, 400, 'invalid_scope'],
    ['an empty scope', { scope: '' }, 400, 'invalid_scope'],
    ['locked, right password', { username: 'locked@example.com' }, 400, 'account_locked'],
    ['locked, wrong password', { username: 'locked@example.com', password: 'wrong' }, 400, 'invalid_grant'],
    ['no one-time password', { username: 'twofactor@example.com' }, 400, '2fa.verify'],
    ['invalid date-time', { expires_at: 'tomorrow' }, 422, 'Unprocessable Entity'],
    ['a date-time without offset', { expires_at: '2099-01-01T00:00:00' }, 422, 'Unprocessable Entity'],
    ['a date-time in the past', { expires_at: '2001-01-01T00:00:00Z' }, 422, 'Unprocessable Entity'],
    ['an empty service', { 'services[]': '' }, 422, 'Unprocessable Entity'],
    ['a service that the customer does not have', { service_id: 'SVC3' }, 422, 'Unprocessable Entity'],
    ['a control character in the name', { name: 'a\r\nX-Injected: 1' }, 422, 'Unprocessable Entity'],
    ['a name that is too long', { name: 'x'.repeat(256) }, 422, 'Unprocessable Entity'],
    // The order of checks: the first fault is reported.
    ['wrong password and scope', { password: 'wrong', scope: 'nothing' }, 400, 'invalid_grant'],
    [
      'no one-time password and wrong scope',
      { username: 'twofactor@example.com', scope: 'x' },
      400,
      '2fa.verify',
    ],
    ['wrong scope and date', { scope: 'nothing', expires_at: 'x' }, 400, 'invalid_scope'],
  ];
  for (const [name, params, status, code] of rows) {
    const body = new URLSearchParams({ username: 'superuser@example.com', password: PASSWORD, ...params });
    isError(t, await send(url, '/tokens', { body }), status, code, name);
  }
});

t.test('an unknown user and a wrong password get the same bytes', async (t) => {
  const reply = (username: string) =>
    send(url, '/tokens', { body: new URLSearchParams({ username, password: 'wrong password' }) });
  const [known, unknown] = [await reply('superuser@example.com'), await reply('nobody@example.com')];
  t.equal(known.text, unknown.text);
  const names = (r: Reply) => r.rawHeaders.filter((_, i) => i % 2 === 0);
  t.same(names(known), names(unknown));
});

t.test('a form of another type, a malformed body and one over 64 KiB', async (t) => {
  const plain = await send(url, '/tokens', { body: 'a', headers: { 'Content-Type': 'text/plain' } });
  t.equal(plain.status, 400);
  const broken = await send(url, '/tokens', {
    body: '{"a":',
    headers: { 'Content-Type': 'application/json' },
  });
  t.equal(broken.status, 400);
  const large = await send(url, '/tokens', { body: new URLSearchParams({ name: 'x'.repeat(70_000) }) });
  t.equal(large.status, 413);
  const chunked = await send(url, '/tokens', {
    body: `name=${'x'.repeat(70_000)}`,
    headers: { 'Content-Type': 'application/x-www-form-urlencoded', 'Transfer-Encoding': 'chunked' },
  });
  t.equal(chunked.status, 413);
});

t.test('expires_at: offsets, fractions, and a space where an unencoded + was meant', async (t) => {
  const year = new Date().getUTCFullYear() + 1;
  for (const [text, shown] of [
    [`${year}-01-31T12:00:00Z`, `${year}-01-31T12:00:00+00:00`],
    [`${year}-01-31T12:00:00.5+02:00`, `${year}-01-31T10:00:00+00:00`],
    [`${year}-01-31T12:00:00 02:00`, `${year}-01-31T10:00:00+00:00`],
  ] as const) {
    const reply = await create('superuser', { expires_at: text });
    t.equal(reply.json.expires_at, shown, text);
  }
});

t.test('after expires_at, every request with the token returns 401', async (t) => {
  const at = Math.floor(Date.now() / 1000) * 1000 + 4_000;
  const created = await create('superuser', { expires_at: new Date(at).toISOString() });
  const headers = { 'Service-Key': created.json.access_token as string };
  t.equal((await send(url, '/tokens/self', { headers })).status, 200, 'before');
  await new Promise((wait) => setTimeout(wait, Math.max(0, at - Date.now() + 20)));
  for (const path of ['/tokens/self', '/service/SVC1', '/anything']) {
    const reply = await send(url, path, { headers });
    t.equal(reply.status, 401, path);
    t.same(reply.json, { msg: `Token ${created.json.id} expired at ${created.json.expires_at}` }, path);
  }
});

t.test('GET /tokens/self: the token of the request, including this use', async (t) => {
  const headers = { 'Service-Key': await token('engineer', { name: 'self' }), 'User-Agent': 'probe/1' };
  const reply = await send(url, '/tokens/self', { headers });
  t.equal(reply.status, 200);
  t.same(Object.keys(reply.json).toSorted(), READ_KEYS);
  t.match(reply.json, { name: 'self', ip: '127.0.0.1', user_agent: 'probe/1', last_seen_at: TIME });
  t.equal(reply.json.last_used_at, reply.json.last_seen_at);
  const nameless = await send(url, '/tokens/self', { headers: { 'Service-Key': headers['Service-Key'] } });
  t.equal(nameless.json.user_agent, null, 'null without a User-Agent');
});

t.test(
  'GET /tokens: the tokens of the user, without access_token, ordered by created_at, then id',
  async (t) => {
    const cookie = await login('billing');
    await create('billing', { name: 'a' });
    await create('billing', { name: 'b' });
    const reply = await send(url, '/tokens', { headers: { Cookie: cookie } });
    t.equal(reply.status, 200);
    t.equal(reply.json.length, 2);
    for (const each of reply.json) {
      t.same(Object.keys(each).toSorted(), READ_KEYS);
      t.match(each, {
        user_id: 'billing',
        last_seen_at: null,
        last_used_at: null,
        ip: null,
        user_agent: null,
      });
    }
    const order = reply.json.map(
      (each: { created_at: string; id: string }) => `${each.created_at} ${each.id}`,
    );
    t.same(order, order.toSorted());
  },
);

t.test('GET /customer/:id/tokens: all tokens of the customer; 403 for another customer', async (t) => {
  const cookie = await login('billing');
  const reply = await send(url, '/customer/C1/tokens', { headers: { Cookie: cookie } });
  t.equal(reply.status, 200);
  const owners = new Set(reply.json.map((each: { user_id: string }) => each.user_id));
  t.ok(owners.has('superuser') && owners.has('billing'), 'several users');
  t.notOk(owners.has('other'), 'none of C2');
  t.equal((await send(url, '/customer/C2/tokens', { headers: { Cookie: cookie } })).status, 403);
  t.equal((await send(url, '/customer/nope/tokens', { headers: { Cookie: cookie } })).status, 403);
});

t.test('which role and credential may use the list and delete endpoints', async (t) => {
  const own: Record<string, [number, number, number]> = {
    // [GET /tokens, GET /customer/C1/tokens, DELETE /tokens/:id of the user]
    superuser: [200, 200, 204],
    billing: [200, 200, 204],
    engineer: [403, 403, 403],
    user: [403, 403, 403],
  };
  for (const [role, expected] of Object.entries(own)) {
    const headers = { Cookie: await login(role) };
    const { id } = (await create(role)).json;
    t.same(
      [
        (await send(url, '/tokens', { headers })).status,
        (await send(url, '/customer/C1/tokens', { headers })).status,
        (await send(url, `/tokens/${id}`, { method: 'DELETE', headers })).status,
      ],
      expected,
      role,
    );
    const key = { 'Service-Key': await token(role) };
    for (const [method, path] of [
      ['GET', '/tokens'],
      ['GET', '/customer/C1/tokens'],
      ['DELETE', `/tokens/${id}`],
    ] as const) {
      const reply = await send(url, path, { method, headers: key });
      t.equal(reply.status, 403, `${role} token ${method} ${path}`);
      t.match(reply.json.detail, /session/, 'says which kind of credential it accepts');
    }
    const self = await send(url, '/tokens/self', { headers });
    t.equal(self.status, 403, `${role} session at /tokens/self`);
    t.match(self.json.detail, /API token/);
  }
});

t.test('GET and DELETE /tokens/:id: 404 for an unknown token or one of another customer', async (t) => {
  const headers = { Cookie: await login('superuser') };
  const foreign = (await create('other')).json.id;
  for (const id of ['0000000000000000000000', foreign]) {
    for (const method of ['GET', 'DELETE']) {
      const reply = await send(url, `/tokens/${id}`, { method, headers });
      t.equal(reply.status, 404, `${method} ${id}`);
      t.same(reply.json, { msg: 'Record not found', detail: `Cannot find token '${id}'` });
    }
  }
  const { id } = (await create('engineer', { name: 'shown' })).json;
  t.match((await send(url, `/tokens/${id}`, { headers })).json, { id, name: 'shown' });
});

t.test("only a superuser can delete another user's token", async (t) => {
  const { id, access_token } = (await create('engineer')).json;
  const billing = await send(url, `/tokens/${id}`, {
    method: 'DELETE',
    headers: { Cookie: await login('billing') },
  });
  t.equal(billing.status, 403);
  const key = { 'Service-Key': access_token };
  t.equal((await send(url, '/tokens/self', { headers: key })).status, 200, 'still valid');
  const root = await send(url, `/tokens/${id}`, {
    method: 'DELETE',
    headers: { Cookie: await login('superuser') },
  });
  t.equal(root.status, 204);
  t.equal((await send(url, '/tokens/self', { headers: key })).status, 401, 'revoked');
});

t.test('DELETE /tokens/self: 204, no body; then the same bytes as for an unknown token', async (t) => {
  const headers = { 'Service-Key': await token('user', { scope: 'purge_select', service_id: 'SVC1' }) };
  const reply = await send(url, '/tokens/self', { method: 'DELETE', headers });
  t.equal(reply.status, 204);
  t.equal(reply.text, '');
  t.equal(reply.headers['content-type'], undefined);
  const after = await send(url, '/service/SVC1', { headers });
  const unknown = await send(url, '/service/SVC1', { headers: { 'Service-Key': `lk${'x'.repeat(38)}` } });
  t.equal(after.status, 401);
  t.equal(after.text, '{"msg":"Provided credentials are missing or invalid"}\n');
  t.equal(after.text, unknown.text);
  const comparable = (r: Reply) =>
    r.rawHeaders.map((value, i, all) =>
      i % 2 && /^(x-request-id|date)$/i.test(all[i - 1] ?? '') ? '' : value,
    );
  t.same(comparable(after), comparable(unknown), 'the same header fields');
});

t.test('DELETE /tokens revokes several at once, all or nothing', async (t) => {
  const headers = { Cookie: await login('superuser') };
  const made = [(await create('superuser')).json, (await create('engineer')).json];
  const data = made.map(({ id }) => ({ type: 'token', id }));
  const works = async (secret: string) =>
    (await send(url, '/tokens/self', { headers: { 'Service-Key': secret } })).status === 200;

  const partly = await send(url, '/tokens', {
    method: 'DELETE',
    headers,
    json: { data: [...data, { type: 'token', id: 'x' }] },
  });
  t.equal(partly.status, 404);
  t.ok((await works(made[0].access_token)) && (await works(made[1].access_token)), 'none revoked');

  for (const json of [
    {},
    { data: [] },
    { data: [{ type: 'user', id: 'a' }] },
    { data: 'x' },
    [],
    null,
    { data: [null] },
  ]) {
    const reply = await send(url, '/tokens', { method: 'DELETE', headers, json });
    t.equal(reply.status, 400, JSON.stringify(json));
  }
  const mediaType = { ...headers, 'Content-Type': 'application/vnd.api+json' };
  const all = await send(url, '/tokens', { method: 'DELETE', headers: mediaType, json: { data } });
  t.equal(all.status, 204, all.text);
  t.notOk((await works(made[0].access_token)) || (await works(made[1].access_token)), 'both revoked');
});

t.test('a legacy key is accepted in Service-Key and belongs to "Global API Token"', async (t) => {
  const headers = { 'Service-Key': LEGACY_KEY };
  const self = await send(url, '/tokens/self', { headers });
  t.equal(self.status, 200);
  t.match(self.json, {
    scope: 'global',
    services: [],
    service_id: null,
    customer_id: 'C1',
    expires_at: null,
  });
  const proxied = await send(url, '/billing/x', { method: 'POST', headers });
  t.equal(proxied.status, 200, 'a superuser of the account');
  t.equal(proxied.json.headers['x-auth-credential'], 'legacy_key');
  t.equal((await send(url, '/tokens/self', { headers: { 'Service-Key': `${LEGACY_KEY}x` } })).status, 401);
  t.notMatch(JSON.stringify(proxied.json), LEGACY_KEY, 'the upstream does not receive the key');
});

t.test('two-factor authentication: accepts the current code and its neighbors, each once', async (t) => {
  const attempt = (otp: string) =>
    send(url, '/tokens', {
      body: new URLSearchParams({ username: 'twofactor@example.com', password: PASSWORD }),
      headers: { 'Service-OTP': otp },
    });
  await untilOtpStepLasts(10_000);
  const now = Date.now();
  for (const [name, otp] of [
    ['two steps ago', otpAt(now - 60_000)],
    ['two steps ahead', otpAt(now + 60_000)],
    ['not a one-time password', 'abcdef'],
    ['empty', ''],
  ] as const) {
    const reply = await attempt(otp);
    isError(t, reply, 400, '2fa.verify', name);
    t.equal(reply.json.detail, 'Invalid one-time password');
  }
  const parallel = await Promise.all(Array.from({ length: 10 }, () => attempt(otpAt(now))));
  t.equal(parallel.filter((reply) => reply.status === 200).length, 1, 'ten at once, one succeeds');
  isError(t, await attempt(otpAt(now - 30_000)), 400, '2fa.verify', 'an earlier step after a later one');
  t.equal((await attempt(otpAt(now + 30_000))).status, 200, 'the next step');
});
