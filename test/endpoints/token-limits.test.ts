import * as fc from 'fast-check';
import t from 'tap';
import { digestOf } from '../../src/domain/secret.js';
import { LEGACY_KEY } from '../helpers/fixture.js';
import { type Handled, startInProcess } from '../helpers/in-process.js';
import { options, told } from '../helpers/property.js';

const server = await startInProcess(t);
const { request, create, token, login, opened } = server;
const cookie = { Cookie: await login('superuser') };
const UNAUTHENTICATED = { msg: 'Provided credentials are missing or invalid' };

const patch = (id: string, json: unknown, headers: Record<string, string> = cookie) =>
  request(`/tokens/${id}`, { method: 'PATCH', headers, json });
const use = (key: string, path = '/x') => request(path, { headers: { 'Service-Key': key } });

/** Possible limits of a token, and whether each admits a client at 127.0.0.1. */
const RATES = [null, '1000/1m', '5/1s'] as const;
const ADDRESSES = [
  [null, true],
  [['127.0.0.0/8'], true],
  [['::ffff:127.0.0.1'], true],
  [['10.0.0.0/8', '::1'], false],
] as const;

const change = fc.record(
  {
    suspended: fc.boolean(),
    rate: fc.constantFrom(...RATES),
    addresses: fc.constantFrom(...ADDRESSES.map(([texts]) => texts)),
  },
  { requiredKeys: [] },
);

t.test('after changes in any order, the last of each kind applies, and responses show those set', async (t) => {
  const details = await fc.check(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 6 }), async (changes) => {
      const { json: created } = await create('superuser');
      const state: { suspended: boolean; rate: string | null; addresses: readonly string[] | null } = { suspended: false, rate: null, addresses: null };
      for (const each of changes) {
        const { json, status } = await patch(created.id, each);
        if (status !== 200) throw new Error(`${status}`);
        Object.assign(state, each);
        const shown = { ...(state.suspended ? { suspended: true } : {}), ...(state.rate === null ? {} : { rate: state.rate }), ...(state.addresses === null ? {} : { addresses: state.addresses }) };
        const { suspended, rate, addresses } = json;
        if (JSON.stringify({ suspended, rate, addresses }) !== JSON.stringify({ suspended: undefined, rate: undefined, addresses: undefined, ...shown })) throw new Error(JSON.stringify(json));
        for (const name of ['suspended', 'rate', 'addresses']) if (name in json !== name in shown) throw new Error(`${name} in an answer`);
        const isIn = ADDRESSES.find(([texts]) => texts === state.addresses)?.[1] === true;
        const expected = state.suspended ? 401 : isIn ? 200 : 403;
        const got = await use(created.access_token);
        if (got.status !== expected) throw new Error(`${got.status} instead of ${expected} with ${JSON.stringify(state)}`);
      }
    }),
    options<[object[]]>(60),
  );
  t.notOk(details.failed, told(details));
}); // prettier-ignore

t.test('a token without limits is unchanged: when created, when shown, and after limits are removed', async (t) => {
  const { json: created } = await create('superuser');
  const { access_token: key, ...plain } = created;
  const fields = Object.keys(plain).toSorted();
  t.strictSame(fields, ['created_at', 'customer_id', 'expires_at', 'id', 'name', 'scope', 'scopes', 'service_id', 'services', 'updated_at', 'user_id']);
  await patch(created.id, { rate: '5/1m', addresses: ['127.0.0.1'], suspended: true });
  const { json: again } = await patch(created.id, { rate: null, addresses: null, suspended: false });
  t.strictSame(Object.keys(again).toSorted(), [...fields, 'ip', 'last_seen_at', 'last_used_at', 'user_agent'].toSorted());
  t.equal((await opened.store.tokens.get(created.id))?.token.restrictions, undefined);
  t.equal((await use(key)).status, 200);
}); // prettier-ignore

t.test('suspended: same bytes as unknown everywhere, even for the token itself, without its expiry', async (t) => {
  const { access_token: key, id } = (await create('superuser', { suspended: 'true' })).json;
  for (const [path, method] of [['/x', 'GET'], ['/x', 'POST'], ['/tokens/self', 'GET'], ['/tokens/self', 'DELETE'], [`/tokens/${id}`, 'PATCH']] as const) {
    const [suspended, unknown] = await Promise.all([key, `${key.slice(0, -1)}x`].map((each) => request(path, { method, headers: { 'Service-Key': each } })));
    t.equal(suspended?.status, 401);
    t.equal(suspended?.text, unknown?.text);
    t.strictSame(Object.keys(suspended?.headers ?? {}), Object.keys(unknown?.headers ?? {}));
    t.equal(suspended?.log.at(-1)?.['outcome'], 'unauthenticated');
  }
  t.match((await request(`/tokens/${id}`, { headers: cookie })).json, { suspended: true, last_seen_at: null }, 'a refused request is not a use');
  const found = await opened.store.tokens.get(id);
  if (found === undefined) throw new Error('the token is missing');
  await opened.store.directory.change({ removeTokens: [id] }, Date.now());
  await opened.store.directory.change({ tokens: [{ ...found.token, expiresAt: Date.now() - 1 }] }, Date.now());
  t.same((await use(key)).json, UNAUTHENTICATED);
  t.equal((await patch(id, { suspended: false })).status, 200);
  t.match((await use(key)).json, { msg: /expired at/ });
}); // prettier-ignore

t.test('who may change a token: a session that may revoke it, and never a token', async (t) => {
  const { json: created } = await create('engineer', { addresses: '10.0.0.0/8' });
  const wide = { addresses: null };
  const key = { 'Service-Key': await token('superuser') };
  t.match(await patch(created.id, wide, key), { status: 403, json: { detail: /requires a session/ } });
  t.equal((await patch(created.id, wide, { 'Service-Key': created.access_token })).status, 403);
  t.equal((await patch(created.id, wide, { Cookie: await login('engineer') })).status, 403, 'engineers may not revoke either');
  t.equal((await patch(created.id, wide, { Cookie: await login('other') })).status, 404);
  t.equal((await opened.store.tokens.get(created.id))?.token.restrictions?.addresses?.length, 1);
  t.equal((await patch(created.id, wide)).status, 200);
  const legacy = (await request('/customer/C1/tokens', { headers: cookie })).json as { id: string; user_id: string; name: string }[];
  const old = (await Promise.all(legacy.map(async ({ id }) => opened.store.tokens.get(id)))).find((each) => each?.token.kind === 'legacy_key')?.token.id ?? '';
  t.equal((await patch(old, { suspended: true })).status, 200, 'a legacy key is a token too');
  t.same((await use(LEGACY_KEY)).json, UNAUTHENTICATED);
  await patch(old, { suspended: false });
  t.equal((await use(LEGACY_KEY)).status, 200);
}); // prettier-ignore

t.test('rejects invalid limits', async (t) => {
  const { json: created } = await create('superuser');
  const many = Array.from({ length: 101 }, (_, i) => `10.0.0.${i}`);
  for (const [json, detail] of [
    [{ rate: '600' }, /^rate must be a rate like 600\/1m: 1 to 1000000 requests in 1s to 31d$/],
    [{ rate: 600 }, /^rate must be a string/],
    [{ addresses: [] }, /must name an address/],
    [{ addresses: '10.0.0.0/8' }, /must be a list/],
    [{ addresses: ['10.1.2.3/8'] }, /without bits set after the prefix/],
    [{ addresses: ['localhost'] }, /addresses must be/],
    [{ addresses: [1] }, /addresses must be/],
    [{ addresses: many }, /More than 100/],
    [{ suspended: 'true' }, /must be true or false/],
    [{ Rate: '5/1m' }, /not "Rate"/],
    [{ suspended: true, expires_at: '2099-01-01T00:00:00Z' }, /not "expires_at"/],
  ] as const)
    t.match(await patch(created.id, json), { status: 422, json: { code: 'Unprocessable Entity', detail } }, JSON.stringify(json).slice(0, 60));
  t.equal((await opened.store.tokens.get(created.id))?.token.updatedAt, Date.parse(created.updated_at), 'nothing was changed');
  for (const [name, value] of [['rate', ''], ['addresses', ''], ['addresses[]', '1.2.3.4,5.6.7.8'], ['suspended', 'yes'], ['suspended', '']] as const)
    t.equal((await create('superuser', { [name]: value })).status, 422, `${name}=${value}`);
  const list = new URLSearchParams([['addresses[]', '10.0.0.0/8'], ['addresses[]', '::1'], ['addresses[]', '::1']]);
  t.same((await create('superuser', list)).json.addresses, ['10.0.0.0/8', '::1']);
}); // prettier-ignore

t.test('a form changes limits like JSON, and removes none', async (t) => {
  const { json: created } = await create('superuser');
  const byForm = (pairs: [string, string][]) => request(`/tokens/${created.id}`, { method: 'PATCH', headers: { ...cookie, 'Content-Type': 'application/x-www-form-urlencoded' }, body: new URLSearchParams(pairs).toString() });
  const limits = { suspended: true, rate: '600/1m', addresses: ['10.0.0.0/8', '::1'] };
  t.match(await byForm([['suspended', 'true'], ['rate', '600/1m'], ['addresses[]', '10.0.0.0/8'], ['addresses[]', '::1']]), { status: 200, json: limits });
  t.match(await byForm([['suspended', 'false']]), { status: 200, json: { ...limits, suspended: undefined } });
  t.match(await byForm([['addresses', '192.0.2.1']]), { status: 200, json: { rate: '600/1m', addresses: ['192.0.2.1'] } });
  for (const [name, value] of [['rate', ''], ['addresses', ''], ['suspended', ''], ['suspended', 'yes'], ['suspended', 'null'], ['rate', 'null'], ['Rate', '1/1m'], ['suspend', 'true'], ['name', 'x'], ['__proto__', 'x']] as const)
    t.equal((await byForm([[name, value]])).status, 422, `${name}=${value}`);
  t.equal((await byForm([['rate', '1/1m'], ['rate', '2/1m']])).status, 422);
  t.equal((await byForm([])).status, 400);
  t.match((await request(`/tokens/${created.id}`, { headers: cookie })).json, { rate: '600/1m', addresses: ['192.0.2.1'] });
}); // prettier-ignore

t.test('audits a change with the new limits, and applies concurrent changes', async (t) => {
  const { json: created, audit } = (await create('superuser', { rate: '5/1m' })) as Handled;
  t.match(audit.at(-1), { event: 'token.created', target: { rate: '5/1m' } });
  const { audit: changed } = await patch(created.id, { suspended: false, addresses: ['::1'], rate: null });
  t.match(changed, [{ event: 'token.changed', outcome: 'success', target: { token_id: created.id, suspended: 'false', addresses: ['::1'], rate: null }, actor: { user_id: 'superuser' } }]);
  const { Tokens } = await import('../../src/accounts/tokens.js');
  const settings = server.loaded.config.tokens;
  const own = new Tokens(opened.store, { pending: () => undefined }, settings, []);
  await Promise.all([own.change(created.id, { suspended: true }, 1, []), own.change(created.id, { rate: '7/1m' }, 1, []), own.change(created.id, { addresses: ['10.0.0.0/8'] }, 1, [])]);
  t.strictSame((await opened.store.tokens.get(created.id))?.token.restrictions, { suspended: true, rate: '7/1m', addresses: ['10.0.0.0/8'] });
}); // prettier-ignore

t.test('the rate: refuses requests over it, except revocations; other tokens are not affected', async (t) => {
  const key = await token('superuser', { rate: '3/1h' });
  const statuses = [];
  for (const path of ['/x', '/tokens/self', '/billing/x', '/x', '/tokens/self']) statuses.push((await use(key, path)).status);
  t.same(statuses, [200, 200, 200, 429, 429]);
  const over = await use(key);
  t.match(over, { json: { msg: 'Too many requests', detail: 'The token has reached its request rate' }, headers: { 'retry-after': /^1[12]\d\d$/ } });
  t.equal(over.forwarded, undefined);
  t.equal((await use(await token('superuser', { rate: '3/1h' }))).status, 200, 'each token has its own');
  t.equal((await request('/tokens/self', { method: 'DELETE', headers: { 'Service-Key': key } })).status, 204);
}); // prettier-ignore

t.test('checks the rate after the credential and before the policy', async (t) => {
  const both = await token('superuser', { scope: 'purge_all', addresses: '10.0.0.0/8' });
  t.match((await use(both)).log.at(-1), { outcome: 'address', token_id: String });
  const slow = await token('superuser', { scope: 'purge_all', rate: '1/1h' });
  t.equal((await use(slow)).log.at(-1)?.['outcome'], 'scope', 'requests that the policy refuses are counted');
  t.equal((await use(slow)).log.at(-1)?.['outcome'], 'token_rate');
});

t.test('tokens.limits apply to a token without its own', async (t) => {
  const limits = { rate: '2/1h', addresses: ['10.0.0.0/8'] };
  const narrow = await startInProcess(t, { tokens: { limits }, interface: { account_endpoints: true } });
  const ask = (key: string) => narrow.request('/x', { headers: { 'Service-Key': key } });
  const plain = await narrow.create('superuser');
  t.notOk('rate' in plain.json || 'addresses' in plain.json, 'responses show only its own');
  t.equal((await ask(plain.json.access_token)).status, 403);
  t.equal((await ask(LEGACY_KEY)).status, 403, 'a legacy key too');
  const here = await narrow.token('superuser', { addresses: '127.0.0.1' });
  t.same([(await ask(here)).status, (await ask(here)).status, (await ask(here)).status], [200, 200, 429]);
  const own = await narrow.token('superuser', { addresses: '127.0.0.1', rate: '3/1h' });
  t.same([await ask(own), await ask(own), await ask(own), await ask(own)].map(({ status }) => status), [200, 200, 200, 429]);
  t.equal((await narrow.request('/x', { headers: { Cookie: await narrow.login('superuser') } })).status, 200, 'not to a session');
  const sudo = await narrow.request('/sudo', { method: 'POST', headers: { 'Service-Key': plain.json.access_token }, body: new URLSearchParams({ password: 'x' }) });
  t.match(sudo, { status: 403, json: { detail: /not accepted from the address 127.0.0.1/ } }, 'also where a password is required');
}); // prettier-ignore

t.test("rotating does not reset a token's rate, unless the caller may change limits", async (t) => {
  const Cookie = cookie.Cookie;
  const rotate = async (key: string) => request('/tokens/self/rotate', { method: 'POST', headers: { 'Service-Key': key } });
  for (const limits of [undefined, { rate: '4/1h' }]) {
    const on = limits === undefined ? server : await startInProcess(t, { tokens: { limits } });
    const ask = async (key: string, path = '/x', method = 'GET') => on.request(path, { method, headers: { 'Service-Key': key } });
    let key = await on.token('superuser', limits === undefined ? { rate: '4/1h' } : {});
    const first = key;
    for (let i = 0; i < 3; i++) {
      const rotated = await ask(key, '/tokens/self/rotate', 'POST');
      t.equal(rotated.status, 200);
      t.notOk('rateId' in rotated.json || 'rate_id' in rotated.json);
      key = rotated.json.access_token;
    }
    t.equal((await ask(key)).status, 200, 'the fourth request in total');
    for (const each of [key, first]) t.equal((await ask(each)).status, 429);
    const { token: gone } = (await on.opened.store.tokens.find(digestOf(first))) ?? {};
    await on.opened.store.directory.change({ removeTokens: [gone?.id ?? ''] }, Date.now());
    t.equal((await ask(key)).status, 429, 'the bucket outlives the first token');
    await on.opened.store.maintenance.removeExpired(Date.now(), Date.now(), 100);
    t.equal((await ask(key)).status, 429);
  }
  const { json: made } = await create('superuser', { rate: '1/1h' });
  t.equal((await use(made.access_token)).status, 200);
  t.equal((await rotate(made.access_token)).status, 429);
  const fresh = await request(`/tokens/${made.id}/rotate`, { method: 'POST', headers: { Cookie } });
  t.match(fresh.json, { rate: '1/1h' });
  t.same([(await use(fresh.json.access_token)).status, (await use(fresh.json.access_token)).status], [200, 429]);
}); // prettier-ignore
