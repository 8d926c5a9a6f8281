import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createLocalJWKSet,
  createRemoteJWKSet,
  decodeProtectedHeader,
  type JSONWebKeySet,
  jwtVerify,
} from 'jose';
import t from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import { parse, stringify } from 'yaml';
import { loadSealingKey, Sealer } from '../../src/accounts/sealing.js';
import { ownerOf } from '../../src/domain/signing-key.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { type directory, type Fixture, LEGACY_KEY, OPEN_STATUS, startFixture } from '../helpers/fixture.js';
import { type Reply, send, startUpstream } from '../helpers/http.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { startRedis } from '../helpers/redis.js';
import { matchLog, until } from '../helpers/until.js';
import { refuseSecretsIn, rememberSecret } from '../helpers/secrets.js';

const ISSUER = 'https://auth.example.com';
const ASSERTION = { enabled: true, issuer: ISSUER, audience: 'example-api' };
const JWKS = '/.well-known/jwks.json';

/** Sets `identity` and reloads. */
async function identify(server: Fixture, identity: object): Promise<void> {
  const config = parse(readFileSync(server.configFile, 'utf8')) as object;
  writeFileSync(server.configFile, stringify({ ...config, identity }));
  const { status, text } = await send(server.server.admin, '/-/reload', { method: 'POST' });
  if (status !== 200) throw new Error(text);
}

const assertionOf = (reply: Reply): string => {
  const jwt = (reply.json?.headers as Record<string, string> | undefined)?.['x-auth-assertion'];
  if (jwt === undefined) throw new Error(`no assertion: ${reply.status} ${reply.text}`);
  // Anyone who reads it in a log could impersonate the user for a minute.
  rememberSecret(jwt);
  return jwt;
};

const verify = async (jwt: string, url: string, audience = 'example-api') =>
  jwtVerify(jwt, createRemoteJWKSet(new URL(JWKS, url)), {
    issuer: ISSUER,
    audience,
    algorithms: ['EdDSA', 'ES256'],
  });

const call = (url: string, key: string, path = '/service/SVC1', more: Record<string, string> = {}) =>
  send(url, path, { headers: { 'Service-Key': key, ...more } });

t.test('presets', async (t) => {
  const server = await startFixture(t, { routes: OPEN_STATUS });
  const key = await server.token('engineer', { services: 'SVC1' });
  const tokenId = (await call(server.url, key)).json.headers['x-auth-token-id'] as string;
  const LATCHKEY = ['X-Auth-User-Id', 'X-Auth-Customer-Id', 'X-Auth-Login', 'X-Auth-Role', 'X-Auth-Scope', 'X-Auth-Services', 'X-Auth-Credential', 'X-Auth-Token-Id', 'X-Auth-Assertion'];
  for (const [name, identity, sent, family] of [
    ['latchkey', {}, { 'x-auth-user-id': 'engineer', 'x-auth-customer-id': 'C1', 'x-auth-login': 'engineer@example.com', 'x-auth-role': 'engineer', 'x-auth-scope': 'global', 'x-auth-services': 'SVC1', 'x-auth-credential': 'token', 'x-auth-token-id': tokenId }, LATCHKEY],
    ['one header renamed, another omitted', { headers: { role: 'X-Role', token_id: null, services: null, scope: null, credential: null, customer_id: null } }, { 'x-auth-user-id': 'engineer', 'x-auth-login': 'engineer@example.com', 'x-role': 'engineer' }, LATCHKEY],
    ['oauth2-proxy', { preset: 'oauth2-proxy' }, { 'x-forwarded-user': 'engineer', 'x-forwarded-preferred-username': 'engineer@example.com', 'x-forwarded-groups': 'engineer' }, ['X-Forwarded-Email', 'X-Forwarded-Access-Token', 'X-Auth-Request-User', 'X-Auth-Request-Email', 'X-Auth-Request-Groups', 'X-Auth-Assertion']],
    ['kong', { preset: 'kong' }, { 'x-consumer-id': 'engineer', 'x-consumer-username': 'engineer@example.com', 'x-authenticated-scope': 'global', 'x-credential-identifier': tokenId }, ['X-Consumer-Custom-ID', 'X-Consumer-Groups', 'X-Anonymous-Consumer', 'X-Authenticated-Userid', 'X-Authenticated-Groups', 'X-Credential-Username', 'X-Userinfo', 'X-ID-Token', 'X-Access-Token']],
    ['remote-user', { preset: 'remote-user' }, { 'remote-user': 'engineer@example.com', 'remote-groups': 'engineer' }, ['Remote-Name', 'Remote-Email', 'X-Remote-User', 'X-Remote-Group', 'Remote-Anything']],
    ['an explicit name overrides the preset', { preset: 'remote-user', headers: { user_id: 'X-Uid', login: 'X-Forwarded-Email', role: null } }, { 'x-uid': 'engineer', 'x-forwarded-email': 'engineer@example.com' }, ['Remote-User', 'Remote-Groups', 'Remote-Name']],
  ] as const) {
    await identify(server, identity);
    const names = [...Object.keys(sent), ...family];
    const spellings = names.flatMap((each) => [each, each.toUpperCase(), each.replaceAll('-', '_'), each.replaceAll('-', '.')]);
    const spoofed = Object.fromEntries(spellings.map((each) => [each, 'spoofed']));
    const kept = { 'X-Other': 'kept', 'X-Auth-Token': 'kept' };
    const { headers } = (await call(server.url, key, '/service/SVC1', { ...kept, ...spoofed })).json;
    const folded = (each: string) => each.toLowerCase().replaceAll(/[_.]/g, '-');
    const told = Object.fromEntries(Object.entries(headers as Record<string, string>).filter(([each]) => names.some((one) => folded(one) === folded(each))));
    t.same(told, sent, name);
    t.match(headers, { 'x-other': 'kept', 'x-auth-token': 'kept' }, `${name}: other headers pass`);
    const open = (await send(server.url, '/status', { headers: spoofed })).text;
    t.notMatch(open, 'spoofed', `${name}: removed without authentication too`);
  }
}); // prettier-ignore

t.test('assertions', async (t) => {
  const server = await startFixture(t, { routes: OPEN_STATUS, identity: { assertion: ASSERTION } });
  const { url, upstream } = server;
  const key = await server.token('superuser');
  const first = assertionOf(await call(url, key));
  const { payload, protectedHeader } = await verify(first, url);
  const headers = (await call(url, key)).json.headers as Record<string, string>;

  await t.test('claims match the headers, and the signing key is published', async (t) => {
    const { iat = 0, exp = 0, ...claims } = payload;
    t.same(claims, {
      iss: ISSUER, aud: 'example-api', sub: headers['x-auth-user-id'], customer_id: headers['x-auth-customer-id'], login: headers['x-auth-login'],
      role: headers['x-auth-role'], scope: headers['x-auth-scope'], credential: 'token', token_id: headers['x-auth-token-id'],
    });
    t.equal(exp - iat, 60);
    t.ok(Math.abs(iat * 1000 - Date.now()) < 30_000, 'wall clock');
    t.match(protectedHeader, { alg: 'EdDSA', typ: 'JWT', kid: /^[\w-]{43}$/ });
    const reply = await send(url, JWKS);
    t.equal(reply.headers['cache-control'], 'public, max-age=300');
    t.equal(reply.headers['content-type'], 'application/json');
    t.same(reply.json.keys.map((each: object) => Object.keys(each).toSorted()), [['alg', 'crv', 'kid', 'kty', 'use', 'x']]);
    t.equal((await send(url, JWKS, { method: 'HEAD' })).status, 200);
    t.equal((await send(url, JWKS, { method: 'HEAD' })).text, '');
    t.equal((await send(url, '/.well-known/other', { headers: { 'Service-Key': key } })).json.target, '/.well-known/other', 'other paths below belong to the upstream');
  });

  await t.test('claims for each kind of credential', async (t) => {
    const claims = async (reply: Reply) => (await verify(assertionOf(reply), url)).payload;
    const limited = await server.token('engineer', new URLSearchParams('services[]=SVC1&services[]=SVC2&scope=purge_select purge_all'));
    t.match(await claims(await send(url, '/service/SVC2/purge_all', { method: 'POST', headers: { 'Service-Key': limited } })), { sub: 'engineer', role: 'engineer', scope: 'purge_select purge_all', services: ['SVC1', 'SVC2'] });
    const session = await claims(await send(url, '/x', { headers: { Cookie: await server.login('billing') } }));
    t.match(session, { sub: 'billing', credential: 'session', scope: 'global' });
    t.notHas(session, { token_id: '' });
    t.notHas(session, { services: [] });
    t.match(await claims(await call(url, LEGACY_KEY)), { credential: 'legacy_key', role: 'superuser' });
    const soon = Math.floor(Date.now() / 1000) + 25;
    const ends = await server.token('user', { expires_at: new Date(soon * 1000).toISOString() });
    t.equal((await claims(await call(url, ends))).exp, soon, 'not longer than its token');
  });

  await t.test('reuses a signed assertion until a claim changes', async (t) => {
    const mine = await server.token('user');
    const [one, two] = [assertionOf(await call(url, mine)), assertionOf(await call(url, mine))];
    t.equal(one, two);
    const file = join(server.folder, 'directory.yaml');
    const people = parse(readFileSync(file, 'utf8')) as Awaited<ReturnType<typeof directory>>;
    for (const user of people.users) if (user.id === 'user') user.role = 'billing';
    writeFileSync(file, stringify(people));
    t.equal((await run(['apply', '--config', server.configFile, '-f', file])).code, 0);
    const changed = await verify(assertionOf(await call(url, mine)), url);
    t.equal(changed.payload['role'], 'billing', 'at once');
    await send(url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': mine } });
    const { length } = upstream.received;
    t.equal((await call(url, mine)).status, 401, 'a revoked token is refused, signed before or not');
    t.equal(upstream.received.length, length);
  });

  await t.test('removes an assertion that a client sends', async (t) => {
    for (const name of ['X-Auth-Assertion', 'x-auth-assertion', 'X_Auth_Assertion', 'X.Auth-Assertion']) {
      const reply = await call(url, key, '/service/SVC1', { [name]: 'forged' });
      t.notMatch(reply.text, 'forged', name);
      assertionOf(reply);
      const open = await send(url, '/status', { headers: { [name]: first } });
      t.equal(open.status, 200);
      t.notMatch(open.text, first, `${name}: without authentication`);
      t.notMatch(open.text, 'x-auth', 'no assertion is added');
    }
  });

  await t.test('a WebSocket gets one too', async (t) => {
    const sockets = new WebSocketServer({ server: upstream.server });
    t.teardown(() => sockets.close());
    const seen = new Promise<string>((found) => sockets.once('connection', (socket, req) => {
      found(String(req.headers['x-auth-assertion']));
      socket.close();
    }));
    const socket = new WebSocket(url.replace('http', 'ws'), { headers: { 'Service-Key': key, 'X-Auth-Assertion': 'forged' } });
    socket.on('error', () => undefined);
    t.equal((await verify(await seen, url)).payload.sub, 'superuser');
  });

  await t.test('a reload changes issuer, audience, lifetime and algorithm, and disables and enables it', async (t) => {
    const { kid } = protectedHeader;
    await identify(server, { assertion: { ...ASSERTION, audience: 'another', ttl: '10s' } });
    const { payload } = await verify(assertionOf(await call(url, key)), url, 'another');
    t.equal((payload.exp ?? 0) - (payload.iat ?? 0), 10);
    await t.rejects(verify(first, url, 'another'), { code: 'ERR_JWT_CLAIM_VALIDATION_FAILED' });
    await identify(server, { preset: 'kong', assertion: { ...ASSERTION, header: 'X-Signed', algorithm: 'ES256' } });
    const other = (await call(url, key)).json.headers as Record<string, string>;
    t.equal(decodeProtectedHeader(other['x-signed'] ?? '').kid, kid, 'a key of the new algorithm is published before it signs');
    t.same((await send(url, JWKS)).json.keys.map(({ alg }: { alg: string }) => alg), ['EdDSA', 'ES256']);
    await identify(server, {});
    t.notMatch((await call(url, key)).text, /assertion|x-signed/i);
    t.equal((await call(url, key, JWKS)).json.target, JWKS, 'the path then belongs to the upstream');
    await identify(server, { assertion: ASSERTION });
    t.equal(decodeProtectedHeader(assertionOf(await call(url, key))).kid, kid, 'the keys are kept');
    const refused = identify(server, { assertion: { enabled: true } });
    await t.rejects(refused, { message: /identity\.assertion\.issuer: is required.*identity\.assertion\.audience: is required/s });
  });

  await t.test('private keys exist only sealed in the store', async (t) => {
    const data = join(server.folder, 'data');
    const store = openLmdbStore(data);
    const sealer = new Sealer(loadSealingKey(join(data, 'sealing.key')));
    const { keys = [] } = (await store.signingKeys.get()) ?? {};
    t.equal(keys.length, 2);
    await store.maintenance.close();
    for (const { kid, algorithm, sealedKey } of keys) {
      const { d } = JSON.parse(sealer.open(sealedKey, ownerOf({ kid, algorithm }))) as { d: string };
      t.match(d, /^[\w-]{43}$/);
      // At the end of the test, files, standard output and error are searched for it.
      rememberSecret(d);
    }
    for (const [base, path] of [[server.server.admin, '/metrics'], [server.server.admin, '/-/config'], [server.url, JWKS]] as const)
      refuseSecretsIn((await send(base, path)).text, path);
  });
}); // prettier-ignore

t.test('ES256: two workers use the same key from the first request', async (t) => {
  const server = await startFixture(t, { workers: 2, identity: { assertion: { ...ASSERTION, algorithm: 'ES256' } } });
  const key = await server.token('superuser');
  const replies = await Promise.all(Array.from({ length: 24 }, () => call(server.url, key)));
  const kids = new Set(replies.map((reply) => decodeProtectedHeader(assertionOf(reply)).kid));
  t.equal(kids.size, 1);
  for (let i = 0; i < 8; i++) {
    const { keys } = (await send(server.url, JWKS)).json as JSONWebKeySet;
    t.same(keys.map(({ kid }) => kid), [...kids]);
  }
  t.equal((await verify(assertionOf(replies[0] as Reply), server.url)).protectedHeader.alg, 'ES256');
}); // prettier-ignore

t.test('two sidecars on one Redis', nightly, async (t) => {
  const redis = await startRedis(t);
  const store = { type: 'redis', url: redis.url, sealing_key: 'b2'.repeat(32) };
  // Published keys may be cached for a quarter of ttl; the store is read again after half of that.
  const settings = { store, identity: { assertion: { ...ASSERTION, ttl: '2s', rotate_after: '4s' } }, routes: OPEN_STATUS };
  // Both start at once, with an empty store.
  const { url: upstream, received } = await startUpstream(t);
  const config = (more: object = {}) => writeConfig(temporaryFolder(t), { upstream, ...settings, ...more });
  const [first, second] = await Promise.all([startFixture(t, { ...settings, upstream }), start(t, config())]);
  const key = await first.token('superuser');
  const urls = [first.url, second.url];

  await t.test('each publishes the keys of the other, through rotations', async (t) => {
    const held = new Map<string, { at: number; keys: JSONWebKeySet }>();
    const kids = new Set<string | undefined>();
    let verified = 0;
    await until(async () => {
      await new Promise((pause) => setTimeout(pause, 100));
      for (const [i, url] of urls.entries()) {
        const other = urls[1 - i] as string;
        let known = held.get(other);
        if (known === undefined || Date.now() - known.at > 1_000) {
          const at = Date.now();
          const reply = await send(other, JWKS);
          t.equal(reply.headers['cache-control'], 'public, max-age=1');
          held.set(other, (known = { at, keys: reply.json as JSONWebKeySet }));
        }
        const jwt = assertionOf(await call(url, key));
        // Never fetched again for a missing key: it must have been published already.
        const { protectedHeader } = await jwtVerify(jwt, createLocalJWKSet(known.keys), { issuer: ISSUER, audience: 'example-api', clockTolerance: 2 });
        kids.add(protectedHeader.kid);
        verified += 1;
      }
      return kids.size >= 3;
    }, 'three keys', 60_000);
    const { keys } = (await send(first.url, JWKS)).json as JSONWebKeySet;
    t.ok(verified > 10 && keys.length < 6, `${verified} verified with ${kids.size} keys, ${keys.length} published`);
    t.notOk(redis.cli('GET', '{latchkey:}signing_keys:all').includes('"d"'));
  });

  await t.test('a server does not start with keys it cannot open, and does not change them', async (t) => {
    const fails = async (store: object, message: RegExp) => {
      const { code, stderr } = await run(['serve', '--config', config({ store })]);
      t.match({ code, stderr }, { code: 1, stderr: message });
    };
    await fails({ ...store, sealing_key: 'c3'.repeat(32) }, /the signing keys in the store cannot be used .*another sealing key/);
    t.equal((await call(first.url, key)).status, 200);
  });

  await t.test('damaged keys: forwards nothing without an assertion until new keys are made', async (t) => {
    redis.cli('SET', '{latchkey:}signing_keys:all', 'garbage');
    await until(async () => (await call(second.url, key)).status === 503, 'it notices');
    const { length } = received;
    const reply = await call(second.url, key);
    t.match(reply.json, { msg: 'Service unavailable', detail: 'The identity cannot be signed' });
    t.equal(reply.headers['retry-after'], '1');
    t.equal(received.length, length);
    t.equal((await send(second.url, JWKS)).status, 503, 'no keys are published either');
    t.equal((await send(second.url, '/status')).status, 200, 'requests without an assertion are served');
    await matchLog(t, second, /"reason":"the signing keys in the store cannot be used \(a signing_keys record is damaged \(/);
    t.match(await run(['serve', '--config', config()]), { code: 1, stderr: /a signing_keys record is damaged/ });
    const fixed = await run(['store', 'forget-signing-keys', '--config', first.configFile]);
    t.match(fixed, { code: 0, stdout: 'signing keys removed\n' });
    // The first sidecar may not have noticed the damage yet: its cached keys are valid until it
    // reads again.
    await until(async () => {
      const replies = await Promise.all(urls.map((url) => call(url, key)));
      if (replies.some(({ status }) => status !== 200)) return false;
      const [one, other] = replies.map((reply) => decodeProtectedHeader(assertionOf(reply)).kid);
      return one === other;
    }, 'both sign again with the same key');
  });
}); // prettier-ignore
