import t from 'tap';
import type { Sent } from '../helpers/http.js';
import { startInProcess } from '../helpers/in-process.js';

const withKey = (value: string): Sent => ({ method: 'POST', headers: { 'Service-Key': value } });
const withCookie = (value: string): Sent => ({ method: 'POST', headers: { Cookie: value } });
const status = async (
  request: Awaited<ReturnType<typeof startInProcess>>['request'],
  path: string,
  sent: Sent,
) => (await request(path, sent)).status;

t.test('no caller gets a token with more rights than its own', async (t) => {
  const policy = {
    roles: {
      superuser: { allow: ['*'] },
      engineer: { allow: ['*'], deny: ['billing:*'] },
      billing: { allow: ['*:read', 'token:write', 'customer_token:write', 'billing:*'] },
      user: { allow: ['*:read'], deny: ['billing:*'] },
    },
  };
  const { request, login, create } = await startInProcess(t, { policy });
  const allowed: readonly (readonly [caller: string, owner: string, status: number])[] = [
    ['superuser', 'engineer', 200],
    ['superuser', 'billing', 200],
    ['billing', 'user', 200],
    ['billing', 'engineer', 403],
    ['billing', 'superuser', 403],
    ['engineer', 'user', 200],
    ['engineer', 'billing', 403],
    ['engineer', 'superuser', 403],
    ['billing', 'billing', 200],
  ];
  for (const [caller, owner, expected] of allowed) {
    const { id, access_token: old } = (await create(owner)).json as { id: string; access_token: string };
    const reply = await request(`/tokens/${id}/rotate`, withCookie(await login(caller)));
    t.equal(reply.status, expected, `${caller} rotates a token of ${owner}`);
    if (expected === 403) t.match(reply.json, { detail: `The role ${caller} has fewer permissions than the owner's role ${owner}` });
    t.match((await request('/tokens/self', { headers: { 'Service-Key': old } })).json, { expires_at: expected === 200 ? String : null });
  }
}); // prettier-ignore

t.test('a token rotates others within its scopes and services, not beyond its own expiry', async (t) => {
  const { request, create, token } = await startInProcess(t, { interface: { token_endpoints: 'session_or_token' } });
  const idOf = async (params: Record<string, string> = {}, user = 'superuser') => (await create(user, params)).json.id as string;
  const rotate = async (id: string, key: string) => status(request, `/tokens/${id}/rotate`, withKey(key));
  const global = await token('superuser');
  const expires_at = `${new Date(Date.now() + 3_600_000).toISOString().slice(0, 19)}Z`;
  const limited = await token('superuser', { 'services[]': 'SVC1', scope: 'global' });
  t.equal(await rotate(await idOf(), global), 200);
  t.equal(await rotate(await idOf({}, 'user'), global), 200, "another user's, as it may revoke that");
  t.equal(await rotate(await idOf({ 'services[]': 'SVC1', scope: 'purge_all' }), limited), 200);
  t.equal(await rotate(await idOf(), limited), 403, 'an unlimited one');
  t.equal(await rotate(await idOf({ 'services[]': 'SVC2' }), limited), 403, 'one of another service');
  t.equal(await rotate(await idOf({ 'services[]': 'SVC1' }, 'user'), limited), 403, "another user's");
  t.equal(await rotate(await idOf(), await token('superuser', { scope: 'global:read' })), 403, 'a token without write access');

  const slow = await token('superuser', { rate: '50/1m', addresses: '127.0.0.1' });
  t.equal(await rotate(await idOf(), slow), 403, 'one without limits');
  t.equal(await rotate(await idOf({ rate: '60/1m', addresses: '127.0.0.1' }), slow), 403, 'a faster one');
  t.equal(await rotate(await idOf({ rate: '50/1m', addresses: '127.0.0.0/8' }), slow), 403, 'one with more addresses');
  t.equal(await rotate(await idOf({ rate: '50/1m', addresses: '127.0.0.1' }), slow), 200);
  t.equal(await rotate(await idOf({ rate: '50/1m' }), global), 200, 'one with limits that the caller lacks');

  const limits = { rate: '50/1m', addresses: ['127.0.0.0/8'] };
  const bound = await startInProcess(t, { interface: { token_endpoints: 'session_or_token' }, tokens: { limits } });
  const byDefault = await bound.token('superuser');
  const ofBound = async (params: Record<string, string>) => (await bound.create('superuser', params)).json.id as string;
  const rotateBound = async (params: Record<string, string>) => status(bound.request, `/tokens/${await ofBound(params)}/rotate`, withKey(byDefault));
  for (const [params, expected] of [
    [{}, 200],
    [{ rate: '50/1m', addresses: '127.0.0.1' }, 200],
    [{ rate: '49/1m' }, 200],
    [{ rate: '51/1m' }, 403],
    [{ rate: '50/59s' }, 403],
    [{ addresses: '126.0.0.0/7' }, 403],
    [{ addresses: '::1' }, 403],
  ] as [Record<string, string>, number][])
    t.equal(await rotateBound(params), expected, `bound by the default limits: ${JSON.stringify(params)}`);
  t.equal(await status(bound.request, '/tokens/self/rotate', withKey(await bound.token('superuser', { rate: '500/1m', addresses: '127.0.0.1' }))), 200, 'itself, whatever its limits');

  const short = await token('superuser', { expires_at });
  const made = (await request(`/tokens/${await idOf()}/rotate`, withKey(short))).json;
  t.equal(Date.parse(made.expires_at), Date.parse(expires_at), 'no longer than the caller');
  const own = (await request('/tokens/self/rotate', withKey(short))).json;
  t.ok(Date.parse(own.expires_at) >= Date.parse(expires_at) - 1_000, 'its own lifetime starts again');
}); // prettier-ignore

t.test("every token can rotate itself, whatever its scope, services and owner's role", async (t) => {
  const { request, token } = await startInProcess(t);
  for (const user of ['user', 'engineer', 'billing', 'superuser'])
    for (const params of [{ scope: 'purge_select' }, { scope: 'global:read' }, { 'services[]': 'SVC1', scope: 'purge_all' }] as Record<string, string>[]) {
      const old = await token(user, params);
      const { json } = await request('/tokens/self/rotate', withKey(old));
      t.match(json, { user_id: user, scope: params['scope'], access_token: /^lk/ }, `${user} ${params['scope']}`);
      for (const key of [old, json.access_token as string])
        t.equal((await request('/tokens/self', { headers: { 'Service-Key': key } })).status, 200, 'both are valid');
    }
}); // prettier-ignore

t.test('the old token ends with its overlap; a token that was not rotated looks as before', async (t) => {
  const { request, token, opened } = await startInProcess(t, { tokens: { rotation: { overlap: '1h', max_overlap: '2h' } } });
  const old = await token('user');
  const plain = (await request('/tokens/self', { headers: { 'Service-Key': old } })).json;
  t.notOk('predecessor_id' in plain);
  const first = await request('/tokens/self/rotate', withKey(old));
  const { expires_at: usual } = (await request('/tokens/self', { headers: { 'Service-Key': old } })).json;
  t.ok(Math.abs(Date.parse(usual) - Date.now() - 3_600_000) < 60_000, usual);
  t.strictSame(Object.keys(first.json).toSorted(), [...Object.keys(plain).filter((name) => !['last_seen_at', 'last_used_at', 'ip', 'user_agent'].includes(name)), 'access_token', 'predecessor_id'].toSorted());
  t.match(first.audit, [
    { event: 'token.created', target: { token_id: first.json.id, predecessor_id: plain.id }, actor: { token_id: plain.id } },
    { event: 'token.rotated', target: { token_id: plain.id, successor_id: first.json.id, expires_at: usual } },
  ]);
  const longer = await request('/tokens/self/rotate', { ...withKey(old), body: new URLSearchParams({ overlap: '7200' }) });
  t.equal(longer.status, 200);
  t.equal((await request('/tokens/self', { headers: { 'Service-Key': old } })).json.expires_at, usual, 'no rotation extends it');
  const ended = await request('/tokens/self/rotate', { ...withKey(old), json: { overlap: 0 } });
  t.equal(ended.status, 200);
  t.match(await request('/tokens/self', { headers: { 'Service-Key': old } }), { status: 401, json: { msg: /^Token \w+ expired at / } });
  for (const reply of [first, longer, ended])
    t.equal((await request('/tokens/self', { headers: { 'Service-Key': reply.json.access_token } })).status, 200, 'every response has a valid token');
  t.equal(await opened.store.tokens.countInOverlap(Date.now()), 0);
  const self = (await request('/tokens/self', { headers: { 'Service-Key': first.json.access_token } })).json;
  t.equal(self.predecessor_id, plain.id);
  const revoked = await request('/tokens/self', { method: 'DELETE', headers: { 'Service-Key': longer.json.access_token } });
  t.strictSame(revoked.audit.map(({ target }) => Object.keys(target as object)), [['token_id']], 'only a rotated one reports its last use');
}); // prettier-ignore

t.test('revoking a token in its overlap reports its last use', async (t) => {
  const { request, login, token } = await startInProcess(t);
  const old = await token('superuser');
  const { json } = await request('/tokens/self/rotate', { ...withKey(old), headers: { 'Service-Key': old, 'User-Agent': 'rotator/1' } });
  const { status, audit } = await request(`/tokens/${json.predecessor_id}`, { method: 'DELETE', headers: { Cookie: await login('superuser') } });
  t.equal(status, 204);
  t.match(audit, [{ event: 'token.revoked', target: { token_id: json.predecessor_id, successor_id: json.id, last_ip: '127.0.0.1', last_user_agent: 'rotator/1' } }]);
}); // prettier-ignore

t.test('at the limit of active tokens', async (t) => {
  const { request, create, token } = await startInProcess(t, { tokens: { max_per_user: 1 } });
  const old = await token('user');
  t.equal((await create('user')).status, 422);
  const { status, json } = await request('/tokens/self/rotate', withKey(old));
  t.equal(status, 200, 'the replacement takes the place of the old one');
  t.match(await request('/tokens/self/rotate', withKey(old)), { status: 422, json: { detail: /1 active tokens/ } });
  t.match(await request('/tokens/self/rotate', withKey(json.access_token as string)), { status: 422 });
  t.equal((await request('/tokens/self', { method: 'DELETE', headers: { 'Service-Key': old } })).status, 204);
  t.equal((await request('/tokens/self/rotate', withKey(json.access_token as string))).status, 200);
}); // prettier-ignore
