import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { WebSocketServer } from 'ws';
import { selfSigned } from '../helpers/certificates.js';
import { DECIDES, entrancesOf } from '../helpers/entrances.js';
import { PASSWORD, startFixture } from '../helpers/fixture.js';
import { freshMetrics, send } from '../helpers/http.js';
import { openHttp2 } from '../helpers/http2.js';
import { KeyServer, newPair } from '../helpers/key-server.js';
import { run, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { rememberSecret } from '../helpers/secrets.js';
import { matchLog, until } from '../helpers/until.js';

/* A JWT of another issuer as a credential, at every entrance of a started process. */

const issuer = await KeyServer.start(t, await newPair('one'));
const SUBJECTS = [
  { claims: { ref: 'refs/heads/main' }, customer_id: 'C1', role: 'engineer', services: ['SVC1'] },
  { claims: { sub: 'repo:acme/*' }, customer_id: 'C1', role: 'user', scope: ['global:read'] },
];
const ISSUER = { name: 'ci', issuer: issuer.url, audience: 'latchkey', subjects: SUBJECTS };

const { cert, key } = selfSigned(temporaryFolder(t), 'latchkey');
const folder = temporaryFolder(t);
const CONFIG = {
  listen: { host: '127.0.0.1', port: 0, tls: { cert, key } },
  decision: { host: '127.0.0.1', port: 0, grpc: { port: 0 } },
  interface: { token_endpoints: 'session_or_token', account_endpoints: true },
  audit: { to: join(folder, 'audit.jsonl') },
  routes: [
    { path: '/open', auth: 'none' },
    { path: '/billing', action: 'billing' },
    { path: '/service/:service_id', action: 'service', service: 'service_id' },
  ],
  jwt_issuers: [ISSUER],
};
const { url, server, token, login, upstream } = await startFixture(t, CONFIG);
const sockets = new WebSocketServer({ server: upstream.server });
sockets.on('connection', (socket) => socket.close());
const entrances = entrancesOf(server, await openHttp2(t, url));

/** Signs a JWT that must not appear in any output. */
async function jwtOf(...signed: Parameters<KeyServer['sign']>): Promise<string> {
  const jwt = await issuer.sign(...signed);
  rememberSecret(jwt);
  return jwt;
}
const main = await jwtOf({ ref: 'refs/heads/main' });
const reader = await jwtOf({});

t.test('is authorized like a token with the same role, scope and services', async (t) => {
  const rows: [string, string, string, number, RegExp?][] = [
    ['GET', '/service/SVC1', main, 200], ['PUT', '/service/SVC1', main, 200], ['GET', '/service/SVC2', main, 403, /service:read on service SVC2/],
    ['GET', '/billing', main, 403, /role engineer/], ['GET', '/open', main, 200], ['GET', '/service/SVC2', reader, 200], ['PUT', '/service/SVC1', reader, 403, /Read only/],
    ['GET', '/x', await jwtOf({ sub: 'repo:evil/x' }), 401], ['GET', '/x', await jwtOf({ aud: 'another' }), 401], ['GET', '/x', await jwtOf({ iss: 'https://unknown.example' }), 401],
  ];
  for (const [name, ask] of Object.entries(entrances)) {
    for (const [method, path, jwt, status, detail] of rows) {
      if (name === 'WebSocket' && method !== 'GET') continue;
      const reply = await ask({ method, path, headers: { Authorization: `Bearer ${jwt}` } });
      t.equal(reply.status, name === 'WebSocket' && status === 200 ? 101 : status, `${name}: ${method} ${path}`);
      if (detail !== undefined) t.match(reply.json.detail, detail);
      if (status !== 401) continue;
      t.equal(reply.text, '{"msg":"Provided credentials are missing or invalid"}\n');
      t.match(reply.headers['www-authenticate'], /Bearer realm="api", error="invalid_token"$/);
    }
  }
}); // prettier-ignore

t.test('does not fall back to another credential', async (t) => {
  const bad = await jwtOf({ aud: 'another' });
  const session = await login('superuser');
  const secret = await token('superuser');
  for (const [name, ask] of Object.entries(entrances)) {
    const beside = await ask({ method: 'GET', path: '/x', headers: { Authorization: `Bearer ${bad}`, Cookie: session } });
    t.equal(beside.status, 401, name);
    for (const jwt of [bad, main]) {
      const both = await ask({ method: 'GET', path: '/x', headers: { Authorization: `Bearer ${jwt}`, 'Service-Key': secret } });
      t.equal(both.status, DECIDES.has(name) ? 403 : 400, name);
    }
  }
}); // prettier-ignore

t.test('tells the upstream the subject, and removes JWTs of configured issuers', async (t) => {
  await send(url, '/service/SVC1', { headers: { Authorization: `Bearer ${main}` } });
  const headers: Record<string, unknown> = upstream.received.at(-1)?.headers ?? {};
  t.match(headers, {
    'x-auth-user-id': 'ci/repo:acme/x', 'x-auth-customer-id': 'C1', 'x-auth-role': 'engineer', 'x-auth-scope': 'global', 'x-auth-services': 'SVC1', 'x-auth-credential': 'jwt',
  });
  t.same([headers['x-auth-token-id'], headers['authorization']], [undefined, undefined]);
  const other = await jwtOf({ iss: 'https://unknown.example' });
  for (const [Authorization, wanted] of [[`Bearer ${main}`, undefined], [`bearer\t${main}`, undefined], [`Bearer ${other}`, `Bearer ${other}`]] as const) {
    await send(url, '/open', { headers: { Authorization } });
    t.equal(upstream.received.at(-1)?.headers.authorization, wanted);
    const told = await entrances['forward-auth']({ method: 'GET', path: '/open', headers: { Authorization } });
    t.equal(told.headers.authorization, wanted);
  }
}); // prettier-ignore

t.test('built-in endpoints refuse it, except the one that describes it', async (t) => {
  const headers = { Authorization: `Bearer ${main}` };
  const self = await send(url, '/tokens/self', { headers });
  t.equal(self.status, 200);
  t.match(self.json, { user_id: 'ci/repo:acme/x', customer_id: 'C1', name: 'JWT of ci', scope: 'global', services: ['SVC1'], expires_at: /^20/ });
  for (const [method, path] of [['DELETE', '/tokens/self'], ['GET', '/tokens'], ['POST', '/tokens'], ['POST', '/tokens/self/rotate'], ['POST', '/tokens/x/rotate'], ['PATCH', '/tokens/x'], ['DELETE', '/tokens'], ['GET', '/tokens/x'], ['DELETE', '/tokens/x'], ['GET', '/customer/C1/tokens'],
    ['GET', '/current_user'], ['GET', '/current_customer'], ['GET', '/verify'], ['POST', '/sudo'], ['GET', '/_latchkey/sessions']] as const) {
    const body = method === 'POST' ? { body: new URLSearchParams({ password: 'x' }) } : {};
    const { status, json } = await send(url, path, { method, headers, ...body });
    t.match([status, json.detail], [403, /JWT/], `${method} ${path}`);
  }
  const body = new URLSearchParams({ username: 'superuser@example.com', password: PASSWORD });
  t.equal((await send(url, '/tokens', { headers, body })).status, 403, 'a password in the request does not help');
  const bad = { Authorization: `Bearer ${await jwtOf({ aud: 'another' })}` };
  t.equal((await send(url, '/tokens', { headers: bad, body })).status, 401);
  t.equal((await send(url, '/_latchkey/', { headers: bad })).status, 200, 'public endpoints ignore it');
}); // prettier-ignore

t.test('log, audit log and metrics name issuer and subject', async (t) => {
  const reply = await send(url, '/billing', { headers: { Authorization: `Bearer ${main}` } });
  const id = String(reply.headers['x-request-id']);
  await until(() => server.stdout().includes(id), 'the log record');
  const line = server.stdout().split('\n').find((each) => each.includes(id)) ?? '{}';
  t.match(JSON.parse(line), { credential: 'jwt', issuer: 'ci', subject: 'repo:acme/x', user_id: 'ci/repo:acme/x' });
  const entry = readFileSync(join(folder, 'audit.jsonl'), 'utf8').split('\n').find((each) => each.includes(id)) ?? '{}';
  t.match(JSON.parse(entry), { event: 'access.denied', actor: { credential: 'jwt', issuer: 'ci', subject: 'repo:acme/x' } });
  const metrics = await freshMetrics(server.admin);
  t.match(metrics, /latchkey_jwt_verifications_total\{issuer="ci",outcome="valid"\} \d/);
  t.match(metrics, /latchkey_jwt_verifications_total\{issuer="ci",outcome="no_subject"\} \d/);
  t.match(metrics, /latchkey_jwt_key_fetches_total\{issuer="ci",outcome="succeeded"\} 1/);
}); // prettier-ignore

t.test('responds 503, never 401, while keys cannot be fetched; known keys stay valid', async (t) => {
  const away = await KeyServer.start(t, await newPair('away'));
  away.behaviour = 'error';
  const fixture = await startFixture(t, { jwt_issuers: [{ ...ISSUER, issuer: away.url }] });
  const ask = async () => (await send(fixture.url, '/x', { headers: { Authorization: `Bearer ${await away.sign({})}` } })).status;
  t.equal(await ask(), 503);
  t.equal(await ask(), 503);
  t.same(away.asked, ['/.well-known/openid-configuration'], 'one fetch during the cooldown');
  await matchLog(t, fixture.server, /"issuer":"ci","reason":"http[^"]* responded with 500"[^\n]*issuer keys unreachable/);
  away.behaviour = 'keys';
  await until(async () => (await ask()) === 200, 'valid seconds after keys can be fetched', 5_000);
  away.published = [await newPair('next')];
  t.equal(await ask(), 200, 'a new key is valid at once');
  const made = async (kid: string) => (await send(fixture.url, '/x', { headers: { Authorization: `Bearer ${await away.sign({}, undefined, { kid })}` } })).status;
  const before = away.asked.length;
  for (let i = 0; i < 20; i++) t.equal(await made(`made-up-${i}`), 401);
  t.ok(away.asked.length - before <= 4, 'invented key ids cause at most two fetches');
}); // prettier-ignore

t.test('a reload changes the issuers', async (t) => {
  const fixture = await startFixture(t, { jwt_issuers: [ISSUER] });
  const ask = async (jwt: string) => (await send(fixture.url, '/x', { headers: { Authorization: `Bearer ${jwt}` } })).status;
  const other = await jwtOf({ aud: 'other' });
  t.same([await ask(reader), await ask(other)], [200, 401]);
  writeFileSync(fixture.configFile, readFileSync(fixture.configFile, 'utf8').replace('audience: latchkey', 'audience: other'));
  t.equal((await send(fixture.server.admin, '/-/reload', { method: 'POST' })).status, 200);
  t.same([await ask(reader), await ask(other)], [401, 200], 'for a remembered JWT too');
}); // prettier-ignore

t.test('a reload while the issuer is unreachable keeps its keys, unless its settings change', nightly, async (t) => {
  const away = await KeyServer.start(t, await newPair('away'));
  const fixture = await startFixture(t, { jwt_issuers: [{ ...ISSUER, issuer: away.url }] });
  const ask = async () => (await send(fixture.url, '/x', { headers: { Authorization: `Bearer ${await away.sign({})}` } })).status;
  const reload = async (from: string, to: string) => {
    writeFileSync(fixture.configFile, readFileSync(fixture.configFile, 'utf8').replace(from, to));
    t.equal((await send(fixture.server.admin, '/-/reload', { method: 'POST' })).status, 200);
  };
  t.equal(await ask(), 200);
  away.behaviour = 'error';
  await reload('role: user', 'role: billing');
  t.equal(await ask(), 200);
  await reload('audience: latchkey', 'audience: other');
  t.equal(await ask(), 401);
  await reload('audience: other', 'audience: latchkey');
  t.equal(await ask(), 200);
  away.behaviour = 'keys';
  const [withdrawn] = away.published;
  away.published = [await newPair('next')];
  await reload('role: billing', 'role: user');
  const signedBefore = await away.sign({}, withdrawn);
  t.equal((await send(fixture.url, '/x', { headers: { Authorization: `Bearer ${signedBefore}` } })).status, 401, 'a reload drops a withdrawn key');
  t.equal(await ask(), 200);
  away.behaviour = 'error';
  await reload('name: ci', 'name: other');
  t.equal(await ask(), 503);
}); // prettier-ignore

t.test('without issuers, a JWT is not a credential and passes unchanged', async (t) => {
  const { url, upstream, token } = await startFixture(t, { routes: [{ path: '/open', auth: 'none' }] });
  const Authorization = `Bearer ${main}`;
  t.equal((await send(url, '/x', { headers: { Authorization } })).status, 401);
  for (const headers of [{ Authorization }, { Authorization, 'Service-Key': await token('superuser') }]) {
    t.equal((await send(url, '/open', { headers })).status, 200);
    t.equal(upstream.received.at(-1)?.headers.authorization, Authorization);
  }
});

t.test('check refuses unsafe or unknown settings', async (t) => {
  const rows: [object, RegExp][] = [
    [{ algorithms: ['none'] }, /jwt_issuers\.0\.algorithms\.0: expected one of RS256/],
    [{ algorithms: ['HS256'] }, /shared secrets/],
    [{ algorithms: [] }, /at least one algorithm/],
    [{ audience: undefined }, /audience/],
    [{ issuer: 'http://issuer.example' }, /discovery needs an https/],
    [{ jwks: { url: 'http://issuer.example/jwks' } }, /expected an https:\/\/ URL|expected \{ url/],
    [{ jwks: { file: '/nowhere' } }, /file not found/],
    [{ clock_skew: '1h' }, /0s to 5m/],
    [{ subjects: [] }, /at least one subject/],
    [{ subjects: [{ ...SUBJECTS[0], claims: {} }] }, /at least one claim/],
    [{ subjects: [{ ...SUBJECTS[0], claims: { sub: 'a*b' } }] }, /at most one "\*"/],
    [{ subjects: [{ ...SUBJECTS[0], role: 'enginer' }] }, /no such role in policy\.roles \(did you mean "engineer"\?\)/],
    [{ subjects: [{ ...SUBJECTS[0], scope: ['globl'] }] }, /no such scope in policy\.scopes \(did you mean "global"\?\)/],
    [{ subjects: [{ ...SUBJECTS[0], services: [] }] }, /at least one service/],
  ];
  for (const [change, message] of rows) {
    const file = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1', jwt_issuers: [{ ...ISSUER, ...change }] });
    const { code, stderr, stdout } = await run(['check', '--config', file]);
    t.equal(code, 1, JSON.stringify(change));
    t.match(stderr + stdout, message);
  }
  const twice = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1', jwt_issuers: [ISSUER, structuredClone(ISSUER)] });
  t.match((await run(['check', '--config', twice])).stderr, /jwt_issuers\.1\.name: another issuer has the same value; remove one of them/);
}); // prettier-ignore
