import t from 'tap';
import { makeClock } from '../helpers/clock.js';
import { otpAt, PASSWORD, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';

const clock = makeClock(temporaryFolder(t));
const { url, login, token, upstream } = await startFixture(t, {}, { env: clock.env });

const post = (params: Record<string, string>, headers: Record<string, string> = {}) =>
  send(url, '/login', { body: new URLSearchParams(params), headers });

t.test(
  'POST /login responds 200 with user and customer, and one Set-Cookie whose first pair is the session',
  async (t) => {
    const reply = await post({ user: 'Billing@Example.com', password: PASSWORD });
    t.equal(reply.status, 200);
    t.equal(reply.headers['content-type'], 'application/json');
    t.same(reply.json, {
      user: {
        id: 'billing',
        name: 'billing',
        login: 'billing@example.com',
        role: 'billing',
        customer_id: 'C1',
      },
      customer: { id: 'C1', name: 'One' },
    });
    const cookies = reply.headers['set-cookie'] ?? [];
    t.equal(cookies.length, 1);
    const [pair = '', ...attributes] = (cookies[0] ?? '').split('; ');
    t.match(pair, /^service\.session=[A-Za-z0-9_-]{43}$/);
    t.same(attributes.toSorted(), ['HttpOnly', 'Max-Age=43200', 'Path=/', 'SameSite=Lax']);
  },
);

t.test('each refusal of POST /login', async (t) => {
  const rows: [string, Record<string, string>, number, string][] = [
    ['wrong password', { user: 'user@example.com', password: 'wrong' }, 401, 'invalid_grant'],
    ['unknown user', { user: 'nobody@example.com', password: PASSWORD }, 401, 'invalid_grant'],
    ['no password', { user: 'user@example.com' }, 400, 'invalid_request'],
    ['no user', { password: PASSWORD }, 400, 'invalid_request'],
    [
      'the parameter name of POST /tokens',
      { username: 'user@example.com', password: PASSWORD },
      400,
      'invalid_request',
    ],
    ['locked', { user: 'locked@example.com', password: PASSWORD }, 400, 'account_locked'],
    ['no one-time password', { user: 'twofactor@example.com', password: PASSWORD }, 400, '2fa.verify'],
    ['the synthetic user', { user: 'global-api-token+C1', password: '' }, 400, 'invalid_request'],
    [
      'the synthetic user, some password',
      { user: 'global-api-token+C1', password: 'x' },
      401,
      'invalid_grant',
    ],
  ];
  for (const [name, params, status, code] of rows) {
    const reply = await post(params);
    t.equal(reply.status, status, name);
    t.match(reply.json, { msg: code, code, detail: /./ }, name);
    t.equal(reply.headers['set-cookie'], undefined, name);
  }
  const json = await send(url, '/login', { json: { user: { $ne: null }, password: { $ne: null } } });
  t.equal(json.json.code, 'invalid_request', 'objects are not strings');
});

t.test('a user with two-factor authentication must send Service-OTP', async (t) => {
  const reply = await post(
    { user: 'twofactor@example.com', password: PASSWORD },
    { 'Service-OTP': otpAt(Date.now()) },
  );
  t.equal(reply.status, 200, reply.text);
});

t.test('a session authenticates requests, ends with POST /logout, and is new at every login', async (t) => {
  const [first, second] = [await login('superuser'), await login('superuser')];
  t.not(first, second);
  const works = async (cookie: string) =>
    (await send(url, '/tokens', { headers: { Cookie: cookie } })).status;
  t.same([await works(first), await works(second)], [200, 200]);
  const out = await send(url, '/logout', { method: 'POST', headers: { Cookie: first } });
  t.equal(out.status, 204);
  t.match(out.headers['set-cookie']?.[0], /^service\.session=; .*Max-Age=0/);
  t.same([await works(first), await works(second)], [401, 200]);
  t.equal((await send(url, '/logout', { method: 'POST' })).status, 401, 'nothing to end');
});

t.test(
  'a cookie set before the login is not a session, and a login ends the session it was sent with (fixation)',
  async (t) => {
    const planted = `service.session=${'a'.repeat(43)}`;
    const reply = await post({ user: 'superuser@example.com', password: PASSWORD }, { Cookie: planted });
    t.notMatch(reply.headers['set-cookie']?.[0], planted);
    t.equal((await send(url, '/tokens', { headers: { Cookie: planted } })).status, 401);
  },
);

t.test('accepts the whole Set-Cookie text sent back as Cookie', async (t) => {
  const reply = await post({ user: 'superuser@example.com', password: PASSWORD });
  const text = reply.headers['set-cookie']?.[0] ?? '';
  t.equal((await send(url, '/tokens', { headers: { Cookie: text } })).status, 200);
});

t.test('requests by cookie that change something must be same-origin', async (t) => {
  const Cookie = await login('superuser');
  const host = new URL(url).host;
  const rows: [string, string, Record<string, string>, number][] = [
    ['POST', '/x', {}, 200],
    ['POST', '/x', { 'Sec-Fetch-Site': 'same-origin' }, 200],
    ['POST', '/x', { 'Sec-Fetch-Site': 'none' }, 200],
    ['POST', '/x', { Origin: `http://${host}` }, 200],
    ['POST', '/x', { Origin: 'https://evil.example' }, 403],
    ['POST', '/x', { Origin: 'null' }, 403],
    ['POST', '/x', { Origin: `http://${host}.evil.example` }, 403],
    ['POST', '/x', { 'Sec-Fetch-Site': 'cross-site' }, 403],
    ['POST', '/x', { 'Sec-Fetch-Site': 'same-site', Origin: `http://${host}` }, 403],
    ['GET', '/x', { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' }, 200],
    ['POST', '/logout', { Origin: 'https://evil.example' }, 403],
    ['POST', '/tokens', { Origin: 'https://evil.example' }, 403],
  ];
  for (const [method, path, headers, status] of rows) {
    const reply = await send(url, path, { method, headers: { ...headers, Cookie } });
    t.equal(reply.status, status, `${method} ${path} ${JSON.stringify(headers)}`);
  }
  const key = await token('superuser');
  const byKey = await send(url, '/x', {
    method: 'POST',
    headers: { 'Service-Key': key, Origin: 'https://evil.example' },
  });
  t.equal(byKey.status, 200, 'browsers never send a key by themselves');
});

t.test('after five wrong passwords, responds 429 with Retry-After, even to the right one', async (t) => {
  clock.stop();
  const statuses: number[] = [];
  for (let i = 0; i < 5; i++)
    statuses.push((await post({ user: 'engineer@example.com', password: 'wrong' })).status);
  t.same(statuses, [401, 401, 401, 401, 401]);
  const reply = await post({ user: 'engineer@example.com', password: PASSWORD });
  t.equal(reply.status, 429);
  t.match(reply.headers['retry-after'], /^\d+$/);
  t.same(Object.keys(reply.json), ['msg', 'detail']);
  for (let i = 0; i < 6; i++) await post({ user: 'ghost@example.com', password: 'wrong' });
  t.equal(
    (await post({ user: 'ghost@example.com', password: 'wrong' })).status,
    429,
    'unknown users are counted the same way',
  );
  t.equal(
    (await post({ user: 'user@example.com', password: PASSWORD })).status,
    200,
    'other users are not throttled',
  );
  clock.set(`+${Number(reply.headers['retry-after']) + 2}s`);
  t.equal((await post({ user: 'engineer@example.com', password: PASSWORD })).status, 200, 'after the wait');
});

t.test('concurrent wrong attempts get no larger allowance', async (t) => {
  clock.stop();
  const attempts = Array.from({ length: 15 }, () => post({ user: 'billing@example.com', password: 'wrong' }));
  const statuses = (await Promise.all(attempts)).map((reply) => reply.status);
  t.equal(statuses.filter((status) => status === 401).length, 5, statuses.join());
});

t.test('only requests of the origin table reached the upstream', async (t) => {
  t.ok(upstream.received.length > 0);
  t.notOk(upstream.received.some(({ target }) => target !== '/x'));
});
