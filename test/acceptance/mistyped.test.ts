import t from 'tap';
import { PASSWORD, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { EVERY_CASE } from '../helpers/nightly.js';

const { url, login } = await startFixture(t);
const OWN = { username: 'superuser@example.com', password: PASSWORD };

/** Misspelled names of restrictions, with the name that was meant. */
const MEANT: readonly (readonly [string, string])[] = [
  ...['scopes', 'Scope', 'SCOPE', 'scpe', 'sscope', 'scop', 'scopa', 'socpe', 'Scopes', 'scope_', ' scope', 'scopes[]', 'scopes[0]', 'SCOPE[]', 'scope[a]', 'scope[0][id]', 'scope[][]', 's[cope', '[scope', 'scop]'].map((name) => [name, 'scope'] as const),
  ...['Services', 'SERVICES[]', 'service', 'Service', 'service[]', 'service[0]', 'servics', 'servcies', 'servicess', 'xservices', 'Services[0]', 'services[a]', 'services[0][id]', 'services[', 'services[x', 'service_s', 'serv[ices', 'servic[s', ']services'].map((name) => [name, 'services'] as const),
  ...['services{]', 'services]]', 'services(]', 'servicesX]', 'Services)]'].map((name) => [name, 'services[]'] as const),
  ...['Service_ID', 'service_Id', 'serviceId', 'ServiceID', 'service-id', 'service_ids', 'service_id_', 'servce_id', 'serviceid', 'service_ids[]', 'service_ids[0]', 'service_id[x]'].map((name) => [name, 'service_id'] as const),
  ...['expires', 'Expires', 'expiry', 'expires_in', 'expiration', 'EXPIRATION', 'expiresAt', 'ExpiresAt', 'expires-at', 'expire_at', 'expired_at', 'expires_at_', 'Expires_At', 'expires_at[]', 'expires_at[0]', 'exipres_at', 'expires_ta', 'expires[]'].map((name) => [name, 'expires_at'] as const),
  ...['Rate', 'rates', 'rte', 'rate[]', 'rate_limit', 'RateLimit'].map((name) => [name, 'rate'] as const),
  ...['Addresses', 'address', 'adresses', 'addresses[a]', 'address[]', 'cidr', 'CIDRs'].map((name) => [name, 'addresses'] as const),
  ...['suspend', 'Suspended', 'suspnded', 'suspended[]'].map((name) => [name, 'suspended'] as const),
]; // prettier-ignore
/** The suite tries some on a server; `test/properties/mistyped.test.ts` has the rule. */
const TRIED = MEANT.filter((_, i) => EVERY_CASE || i % 6 === 0);
/** Unrelated names, and misspellings of a parameter that is not a restriction. */
const IGNORED = ['names', 'Name', 'nam', 'name[]', 'sco', 'scoops', 'copes', 'servers', 'service_name', 'service_version', 'services_all', 'id', 'ids', 'expire', 'expiring', 'expires_on', 'expiration_date', 'created_at', 'grant_type', 'audience', 'user', 'otp', '', '[]', '__proto__', 'constructor']; // prettier-ignore

const asForm = (name: string, value: string) => ({
  body: new URLSearchParams([...Object.entries(OWN), [name, value]]),
});
const asJson = (name: string, value: unknown) => ({
  body: `${JSON.stringify(OWN).slice(0, -1)},${JSON.stringify(name)}:${JSON.stringify(value)}}`,
  method: 'POST',
  headers: { 'Content-Type': 'application/json' },
});

t.test('refuses a misspelled restriction and suggests the right name, in forms and JSON', async (t) => {
  for (const [name, meant] of TRIED) {
    const detail = `The parameter ${JSON.stringify(name)} is not accepted; send ${JSON.stringify(meant)} in the body`;
    const sent = [asForm(name, 'purge_all'), asForm(name, ''), ...['purge_all', ['purge_all'], { a: 1 }, 30].map((value) => asJson(name, value))];
    for (const each of sent) {
      const { status, json } = await send(url, '/tokens', each);
      t.equal(status, 422, name);
      t.same(json, { msg: 'Unprocessable Entity', code: 'Unprocessable Entity', detail });
    }
  }
}); // prettier-ignore

t.test('ignores every other parameter, and null in JSON', async (t) => {
  for (const name of IGNORED) {
    t.match(await send(url, '/tokens', asForm(name, 'x')), { status: 200, json: { scope: 'global' } }, name);
    t.equal((await send(url, '/tokens', asJson(name, ['x']))).status, 200, name);
  }
  for (const [name] of TRIED) t.equal((await send(url, '/tokens', asJson(name, null))).status, 200, name);
});

t.test('accepts the exact names in every list notation', async (t) => {
  for (const [name, value] of [['scope', 'global:read'], ['scope[]', 'global:read'], ['scope[0]', 'global:read'], ['services', 'SVC1'], ['services[]', 'SVC1'], ['services[0]', 'SVC1'], ['services[12]', 'SVC1'], ['service_id', 'SVC1'], ['service_id[]', 'SVC1'], ['expires_at', '2099-01-01T00:00:00Z'], ['rate', '600/1m'], ['addresses', '127.0.0.1'], ['addresses[]', '::1'], ['addresses[0]', '10.0.0.0/8'], ['suspended', 'false'], ['name', 'x']] as const) {
    t.equal((await send(url, '/tokens', asForm(name, value))).status, 200, name);
  }
}); // prettier-ignore

t.test('reveals nothing without the right password, and reports a wrong scope first', async (t) => {
  const wrong = { ...OWN, password: 'wrong', scopes: 'purge_all' };
  t.match(await send(url, '/tokens', { body: new URLSearchParams(wrong) }), { status: 400, json: { code: 'invalid_grant' } });
  const both = { ...OWN, scope: 'none', expires: '30' };
  t.match(await send(url, '/tokens', { body: new URLSearchParams(both) }), { status: 400, json: { code: 'invalid_scope' } });
  t.equal((await send(url, '/tokens', { headers: { Cookie: await login('superuser') } })).status, 200);
}); // prettier-ignore

t.test('refuses a restriction in the query, because only the body is read', async (t) => {
  const body = new URLSearchParams(OWN);
  const meant = [...TRIED, ...['scope', 'scope[]', 'services', 'services[0]', 'service_id', 'expires_at', 'rate', 'addresses', 'suspended'].map((name) => [name, name.replace(/\[.*/, '')] as const)];
  for (const [name, right] of meant) {
    const { status, json } = await send(url, `/tokens?${new URLSearchParams([[name, 'x']])}`, { body });
    t.equal(status, 422, name);
    t.equal(json.detail, `The parameter ${JSON.stringify(name)} is not accepted; send ${JSON.stringify(right)} in the body`);
  }
  for (const name of IGNORED) t.equal((await send(url, `/tokens?${new URLSearchParams([[name, 'x']])}`, { body })).status, 200, name);

  const { id, access_token: key } = (await send(url, '/tokens', { body })).json;
  const [Cookie, form] = [await login('superuser'), { body: '', headers: { 'Service-Key': key } }];
  for (const query of ['suspended=true', 'Suspended=true', 'rate=1/1m', 'addresses[]=10.0.0.1', 'address=10.0.0.1']) {
    const change = await send(url, `/tokens/${id}?${query}`, { method: 'PATCH', headers: { Cookie }, json: {} });
    t.match(change, { status: 422, json: { detail: / is not accepted; send "(suspended|rate|addresses)" in the body$/ } }, query);
  }
  for (const query of ['overlap=0', 'Overlap=0', 'overlaps=0']) {
    t.match(await send(url, `/tokens/self/rotate?${query}`, { method: 'POST', ...form }), { status: 422, json: { detail: / is not accepted; send "overlap" in the body$/ } }, query);
    t.match(await send(url, `/tokens/${id}/rotate?${query}`, { method: 'POST', headers: { Cookie } }), { status: 422 }, query);
  }
  t.match((await send(url, '/tokens/self', form)).json, { expires_at: null, rate: undefined, suspended: undefined }, 'nothing changed');
  t.equal((await send(url, `/tokens/${id}?x=1`, { method: 'PATCH', headers: { Cookie }, json: {} })).status, 200);
  t.equal((await send(url, '/tokens/self/rotate?x=1', { method: 'POST', ...form })).status, 200);
}); // prettier-ignore

t.test('refuses several values for a single-valued restriction as ambiguous', async (t) => {
  for (const [name, one, other] of [['expires_at', '2098-01-01T00:00:00Z', '2099-01-01T00:00:00Z'], ['rate', '1/1m', '600/1m'], ['suspended', 'true', 'false']] as const) {
    const form = { body: new URLSearchParams([...Object.entries(OWN), [name, one], [name, other]]) };
    for (const sent of [form, asJson(name, [one, other])]) {
      const { status, json } = await send(url, '/tokens', sent);
      t.equal(status, 422, name);
      t.match(json.detail, new RegExp(`^${name} must be `));
    }
  }
}); // prettier-ignore
