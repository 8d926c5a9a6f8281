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

t.test('only the owner of a token can rotate it', async (t) => {
  const { request, login, create } = await startInProcess(t);
  const { id, access_token: old } = (await create('user')).json as { id: string; access_token: string };
  t.match(await request(`/tokens/${id}/rotate`, withCookie(await login('superuser'))), {
    status: 403,
    json: { detail: 'Only the owner of a token can rotate it; revoke it instead' },
    audit: [{ event: 'access.denied', reason: 'other_user' }],
  });
  t.match((await request('/tokens/self', { headers: { 'Service-Key': old } })).json, { expires_at: null }, 'unchanged');
}); // prettier-ignore

t.test('a token is rotated once; revoking, suspending and resuming it reaches all that came from it', async (t) => {
  const { request, login, create, token } = await startInProcess(t);
  const { id: root, access_token: leaked } = (await create('superuser')).json as { id: string; access_token: string };
  const keys = [leaked];
  const ids = [root];
  for (let i = 0; i < 3; i++) {
    const { json } = await request('/tokens/self/rotate', withKey(keys.at(-1)!));
    keys.push(json.access_token as string);
    ids.push(json.id as string);
  }
  const outcomes = async () => Promise.all(keys.map(async (key) => (await request('/x', { headers: { 'Service-Key': key } })).status));
  for (const about of ['a second rotation', 'a third one'])
    t.match(await request('/tokens/self/rotate', withKey(leaked)), {
      status: 422,
      json: { code: 'Unprocessable Entity', detail: new RegExp(`already replaced by ${ids[1]}`) },
      audit: [{ event: 'token.rotation_repeated', outcome: 'denied', target: { token_id: root, user_id: 'superuser', customer_id: 'C1', successor_id: ids[1] }, actor: { token_id: root } }],
    }, about);
  const cookie = { Cookie: await login('superuser') };
  for (const [suspended, status] of [[true, 401], [false, 200]] as const) {
    const changed = await request(`/tokens/${ids[1]}`, { method: 'PATCH', headers: cookie, json: { suspended } });
    t.match(changed, { status: 200, headers: { 'latchkey-further-tokens': '2' } });
    t.match(changed.audit, ids.slice(1).map((id) => ({ event: 'token.changed', target: { token_id: id, suspended: String(suspended) } })));
    t.strictSame(changed.audit.map(({ target }) => (target as { ancestor_id?: string }).ancestor_id), [undefined, ids[1], ids[1]]);
    t.same(await outcomes(), [200, status, status, status]);
  }
  t.notOk('latchkey-further-tokens' in (await request(`/tokens/${root}`, { method: 'PATCH', headers: cookie, json: { rate: '900/1m' } })).headers, 'limits are its own');
  const other = await token('superuser');
  const revoked = await request('/tokens', { method: 'DELETE', headers: cookie, json: { data: [{ type: 'token', id: root }] } });
  t.match(revoked, { status: 204, headers: { 'latchkey-further-tokens': '3' } });
  t.match(revoked.audit, ids.map((id) => ({ event: 'token.revoked', outcome: 'success', target: { token_id: id } })));
  t.same(await outcomes(), [401, 401, 401, 401]);
  t.equal((await request('/x', { headers: { 'Service-Key': other } })).status, 200);
}); // prettier-ignore

t.test('a token whose record is gone can be revoked while one that came from it exists, by those who may', async (t) => {
  const { request, login, token, opened } = await startInProcess(t);
  const { json: made } = await request('/tokens/self/rotate', withKey(await token('user')));
  const gone = made.predecessor_id as string;
  await opened.store.directory.change({ removeTokens: [gone] }, Date.now());
  const path = `/tokens/${gone}`;
  const revoke = async (user: string) => request(path, { method: 'DELETE', headers: { Cookie: await login(user) } });
  for (const [user, status] of [['other', 404], ['billing', 403], ['superuser', 204], ['superuser', 404]] as const)
    t.equal((await revoke(user)).status, status, user);
  t.equal((await request('/x', { headers: { 'Service-Key': made.access_token } })).status, 401);
}); // prettier-ignore

t.test('a token rotates others within its scopes and services, not beyond its own expiry', async (t) => {
  const { request, create, token } = await startInProcess(t, { interface: { token_endpoints: 'session_or_token' } });
  const idOf = async (params: Record<string, string> = {}, user = 'superuser') => (await create(user, params)).json.id as string;
  const rotate = async (id: string, key: string) => status(request, `/tokens/${id}/rotate`, withKey(key));
  const global = await token('superuser');
  const expires_at = `${new Date(Date.now() + 3_600_000).toISOString().slice(0, 19)}Z`;
  const limited = await token('superuser', { 'services[]': 'SVC1', scope: 'global' });
  t.equal(await rotate(await idOf(), global), 200);
  t.equal(await rotate(await idOf({}, 'user'), global), 403, "another user's");
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
  const next = first.json.access_token as string;
  const ended = await request('/tokens/self/rotate', { ...withKey(next), json: { overlap: 0 } });
  t.equal(ended.status, 200);
  t.match(await request('/tokens/self', { headers: { 'Service-Key': next } }), { status: 401, json: { msg: /^Token \w+ expired at / } });
  const last = ended.json.access_token as string;
  t.equal((await request('/tokens/self', { headers: { 'Service-Key': last } })).json.predecessor_id, first.json.id);
  t.equal(await opened.store.tokens.countInOverlap(Date.now()), 1);
  const revoked = await request('/tokens/self', { method: 'DELETE', headers: { 'Service-Key': last } });
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
  t.match(await request('/tokens/self/rotate', withKey(json.access_token as string)), { status: 422, json: { detail: /already has 1 tokens in their overlap/ } });
}); // prettier-ignore
