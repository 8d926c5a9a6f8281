import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { assert, asyncProperty, constantFrom, integer, nat, record } from 'fast-check';
import { exportJWK, generateKeyPair, type JSONWebKeySet, SignJWT } from 'jose';
import t from 'tap';
import { IDENTITY_PRESET_NAMES } from '../../src/config/schema/identity-presets.js';
import {
  applyIdentity,
  AssertionRefused,
  expressMiddleware,
  fastifyPlugin,
  honoMiddleware,
  identityOf,
  KeysUnavailable,
  nodeMiddleware,
  verifyAssertion,
  type VerifyOptions,
} from '../../src/verify/index.js';
import { movable } from '../helpers/clock.js';
import { listenOnLoopback } from '../helpers/http.js';
import { until } from '../helpers/until.js';

const ISSUER = 'https://auth.example.com';
const pairs = {
  good: await generateKeyPair('EdDSA'),
  curve: await generateKeyPair('ES256'),
  other: await generateKeyPair('EdDSA'),
};
const jwks: JSONWebKeySet = {
  keys: [
    { ...(await exportJWK(pairs.good.publicKey)), kid: 'good', alg: 'EdDSA', use: 'sig' },
    { ...(await exportJWK(pairs.curve.publicKey)), kid: 'curve', alg: 'ES256', use: 'sig' },
  ],
};
const OPTIONS: VerifyOptions = { jwks, issuer: ISSUER, audience: 'api' };

const now = () => Math.floor(Date.now() / 1000);
const claims = (more: object = {}) => ({
  iss: ISSUER, aud: 'api', sub: 'U1', customer_id: 'C1', login: 'ada', role: 'engineer', scope: 'global', credential: 'token', token_id: 'T1',
  iat: now(), exp: now() + 60, ...more,
}); // prettier-ignore
type Signed = { kid?: string | null; alg?: string; key?: CryptoKey };
const sign = (more: object = {}, { kid = 'good', alg = 'EdDSA', key = pairs.good.privateKey }: Signed = {}) =>
  new SignJWT(claims(more))
    .setProtectedHeader({ alg, typ: 'JWT', ...(kid === null ? {} : { kid }) })
    .sign(key);
const digest = (target: string) => createHash('sha256').update(target).digest('base64url');
const bound = (method: string, target: string, rid: string) => ({ htm: method, htu: digest(target), rid });
const good = await sign();

type Raw = readonly (readonly [string, string])[];
const requestOf = (raw: Raw, method = 'GET', url = '/x') => ({
  method,
  url,
  rawHeaders: raw.flat(),
  headers: {},
});
const withAssertion = (assertion: string, more: Raw = []) =>
  requestOf([['X-Auth-Assertion', assertion], ...more]);
const outcome = async (
  request: Parameters<typeof verifyAssertion>[0],
  options: Partial<VerifyOptions> = {},
) =>
  verifyAssertion(request, { ...OPTIONS, ...options }).then(
    ({ sub }) => sub,
    (error: unknown) => {
      if (error instanceof AssertionRefused && error.status === 401) return error.code;
      if (error instanceof KeysUnavailable && error.status === 503) return error.code;
      throw error;
    },
  );

t.test('accepts valid assertions, and says why others are refused', async (t) => {
  const [head = '', body = '', signature = ''] = good.split('.');
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const secret = Buffer.from(String(jwks.keys[0]?.['x']), 'base64url');
  const own = bound('GET', '/x', 'r1');
  const id: Raw = [['X-Request-Id', 'r1']];
  const rows: [string, Parameters<typeof verifyAssertion>[0], string, Partial<VerifyOptions>?][] = [
    ['good', withAssertion(good), 'U1'],
    ['ES256', withAssertion(await sign({}, { kid: 'curve', alg: 'ES256', key: pairs.curve.privateKey })), 'U1'],
    ['one of several audiences', withAssertion(await sign({ aud: ['b', 'api'] })), 'U1'],
    ['another header', requestOf([['X-Signed', good]]), 'U1', { header: 'x-signed' }],
    ['none', requestOf([]), 'assertion_missing'],
    ['empty', withAssertion(''), 'assertion_missing'],
    ['only in another spelling', requestOf([['X_Auth_Assertion', good]]), 'assertion_missing'],
    ['twice', withAssertion(good, [['x-auth-assertion', good]]), 'assertion_repeated'],
    ['also in another spelling', withAssertion(good, [['X~Auth_Assertion', 'forged']]), 'assertion_repeated'],
    ['joined into a list', withAssertion(`${good}, ${good}`), 'assertion_malformed'],
    ['no JWT', withAssertion('forged'), 'assertion_malformed'],
    ['alg none', withAssertion(`${encode({ alg: 'none', kid: 'good' })}.${body}.`), 'assertion_algorithm'],
    ['alg none with a signature', withAssertion(`${encode({ alg: 'None', kid: 'good' })}.${body}.${signature}`), 'assertion_algorithm'],
    ['HS256 with the public key', withAssertion(await new SignJWT(claims()).setProtectedHeader({ alg: 'HS256', kid: 'good' }).sign(secret)), 'assertion_algorithm'],
    ['another key', withAssertion(await sign({}, { key: pairs.other.privateKey })), 'assertion_signature'],
    ['a key that is not published', withAssertion(await sign({}, { kid: 'other', key: pairs.other.privateKey })), 'assertion_key_unknown'],
    ['no key id', withAssertion(await sign({}, { kid: null })), 'assertion_key_unknown'],
    ['the algorithm of another key', withAssertion(await sign({}, { alg: 'ES256', key: pairs.curve.privateKey })), 'assertion_key_unknown'],
    ['other claims', withAssertion(`${head}.${encode(claims({ sub: 'root' }))}.${signature}`), 'assertion_signature'],
    ['a critical extension', withAssertion(`${encode({ alg: 'EdDSA', kid: 'good', crit: ['x'], x: 1 })}.${body}.${signature}`), 'assertion_malformed'],
    ['another issuer', withAssertion(await sign({ iss: 'https://evil.example' })), 'assertion_issuer'],
    ['no issuer', withAssertion(await sign({ iss: undefined })), 'assertion_claims'],
    ['another audience', withAssertion(await sign({ aud: 'b' })), 'assertion_audience'],
    ['no audience', withAssertion(await sign({ aud: undefined })), 'assertion_claims'],
    ['expired', withAssertion(await sign({ iat: now() - 90, exp: now() - 30 })), 'assertion_expired'],
    ['expired, for a clock that is 60 seconds behind', withAssertion(await sign({ iat: now() - 90, exp: now() - 30 })), 'U1', { clockSkew: 60 }],
    ['just expired', withAssertion(await sign({ iat: now() - 60, exp: now() - 2 })), 'U1'],
    ['just expired, without tolerance', withAssertion(await sign({ iat: now() - 60, exp: now() - 2 })), 'assertion_expired', { clockSkew: 0 }],
    ['older than the longest lifetime', withAssertion(await sign({ iat: now() - 7_200 })), 'assertion_expired'],
    ['from the future', withAssertion(await sign({ iat: now() + 30, exp: now() + 60 })), 'assertion_not_yet_valid'],
    ['no expiry', withAssertion(await sign({ exp: undefined })), 'assertion_claims'],
    ['no time', withAssertion(await sign({ iat: undefined })), 'assertion_claims'],
    ['nobody', withAssertion(await sign({ sub: undefined })), 'assertion_claims'],
    ['an empty user', withAssertion(await sign({ sub: '' })), 'assertion_claims'],
    ['no role', withAssertion(await sign({ role: undefined })), 'assertion_claims'],
    ['services that are not a list', withAssertion(await sign({ services: 'S1' })), 'assertion_claims'],
    ['for tests', withAssertion(await sign({ dev: true })), 'assertion_dev'],
    ['for tests, as text', withAssertion(await sign({ dev: 'true' })), 'assertion_claims', { allowDev: true }],
    ['for tests, in tests', withAssertion(await sign({ dev: true })), 'U1', { allowDev: true }],
    ['not bound', withAssertion(good), 'assertion_unbound', { bound: 'required' }],
    ['bound', withAssertion(await sign(own), id), 'U1', { bound: 'required' }],
    ['another method', withAssertion(await sign(bound('POST', '/x', 'r1')), id), 'assertion_method'],
    ['another target', withAssertion(await sign(bound('GET', '/x?', 'r1')), id), 'assertion_target'],
    ['another request id', withAssertion(await sign(own), [['X-Request-Id', 'r2']]), 'assertion_request_id'],
    ['no request id', withAssertion(await sign(own)), 'assertion_request_id'],
    ['two request ids', withAssertion(await sign(own), [...id, ['X-Request-Id', 'r1']]), 'assertion_request_id'],
    ['another spelling of the request id', withAssertion(await sign(own), [...id, ['X_Request_Id', 'r2']]), 'assertion_request_id'],
    ['bound only to the method', withAssertion(await sign({ htm: 'GET' }), id), 'assertion_claims'],
    ['not bound to the target', withAssertion(await sign({ ...own, htu: undefined }), id), 'assertion_claims'],
    ['a target in absolute form', { ...withAssertion(await sign(own), id), url: 'http://h/x' }, 'assertion_target'],
    ['below a router', { ...withAssertion(await sign(bound('GET', '/api/x', 'r1')), id), originalUrl: '/api/x' }, 'U1'],
    ['a Request', new Request('http://h:1/x', { headers: { 'X-Auth-Assertion': await sign(own), 'X-Request-Id': 'r1' } }), 'U1'],
    ['a Request with another query', new Request('http://h/x?y', { headers: { 'X-Auth-Assertion': await sign(own), 'X-Request-Id': 'r1' } }), 'assertion_target'],
    ['headers as an object', { method: 'GET', url: '/x', headers: { 'x-auth-assertion': await sign(own), 'x-request-id': ['r1'] } }, 'U1'],
  ];
  for (const [name, request, expected, options] of rows) t.equal(await outcome(request, options), expected, name);
  const refused = new AssertionRefused('assertion_target');
  t.same(refused.body, { msg: 'The request has no valid assertion', detail: 'The assertion is for a request with another target', code: 'assertion_target' });
  t.throws(() => identityOf({}), /no middleware/);
}); // prettier-ignore

t.test('says which option is wrong, when the middleware is created', async (t) => {
  const rows: [string, unknown[]][] = [
    ['bind', ['required']],
    ['Bound', ['required', undefined]],
    ['clock_skew', [0]],
    ['toString', [1]],
    ['issuer', ['', undefined, null, 1, ['i']]],
    ['audience', ['', undefined, null, ['api']]],
    ['jwks', [undefined, null, '', '/.well-known/jwks.json', 'auth.example.com', 'localhost:8080/.well-known/jwks.json', new URL('file:///keys'), {}, [], { keys: {} }]],
    ['clockSkew', [-1, 301, Number.NaN, Infinity, '1 hour', null]],
    ['bound', [true, 'request', 'Required', '', null]],
    ['preset', ['oauth2_proxy', 'toString', '', null]],
    ['header', ['', 'X Auth', 'X-Auth:', null, 1]],
    ['headers', [{ userId: 'X-User' }, { login: '' }, { login: 'X User' }, { login: 1 }, 'X-User', null]],
  ];
  for (const [name, values] of rows)
    for (const value of values) {
      const options = { ...OPTIONS, [name]: value } as VerifyOptions;
      const error = { name: 'TypeError', message: new RegExp(`^latchkey/verify: options\\.${name}\\b`) };
      const what = `${name}: ${JSON.stringify(value)}`;
      await t.rejects(verifyAssertion(withAssertion(good), options), error, what);
      for (const create of [nodeMiddleware, expressMiddleware, honoMiddleware])
        t.throws(() => create(options), error, `${what}: ${create.name}`);
      await t.rejects(fastifyPlugin({ addHook: () => undefined }, options), error, `${what}: fastifyPlugin`);
    }
  const none = /^latchkey\/verify: options\.issuer is required/;
  for (const create of [nodeMiddleware, expressMiddleware, honoMiddleware])
    t.throws(() => (create as unknown as () => void)(), none, `no options: ${create.name}`);
  for (const right of [{ jwks: new URL('http://a/') }, { jwks: 'https://a/keys' }, { bound: undefined }, { headers: { role: null, login: undefined } }])
    t.doesNotThrow(() => nodeMiddleware({ ...OPTIONS, ...right } as VerifyOptions), JSON.stringify(right));
}); // prettier-ignore

t.test('removes the headers that identify the user to the upstreams of each preset', async (t) => {
  const forged: Record<string, string[]> = {
    latchkey: ['X-Auth-Role', 'X_Auth_Services'],
    'oauth2-proxy': ['X-Forwarded-Email', 'x_forwarded_email', 'X-Forwarded-Access-Token', 'X-Forwarded-Groups', 'X-Auth-Request-Email'],
    kong: ['X-Consumer-Custom-Id', 'X-Userinfo', 'X-Anonymous-Consumer'],
    'remote-user': ['Remote-Email', 'Remote_Name', 'X-Remote-User'],
  };
  const plain = ['X-Forwarded-For', 'X-Forwarded-Proto', 'X-Forwarded-Host', 'X-Request-Id'];
  for (const preset of IDENTITY_PRESET_NAMES) {
    const raw = requestOf([...(forged[preset] ?? []), ...plain].map((name) => [name, 'forged'] as const));
    const headers = Object.fromEntries([...(forged[preset] ?? []), ...plain].map((name) => [name.toLowerCase(), 'forged']));
    const request = { ...raw, headers };
    applyIdentity(request, claims() as unknown as Parameters<typeof applyIdentity>[1], { preset });
    const left = request.rawHeaders.filter((_, i) => request.rawHeaders[i + 1] === 'forged');
    t.same(left, plain, preset);
    t.same(Object.keys(headers).filter((name) => headers[name] === 'forged'), plain.map((name) => name.toLowerCase()), preset);
  }
}); // prettier-ignore

t.test('a bound assertion is invalid once any byte of its request changes', async (t) => {
  const [method, target, rid] = ['PATCH', '/service/S1/a%2fb?q=1&r=~', 'kX9_-3-1z'];
  const assertion = await sign(bound(method, target, rid));
  const ask = (m: string, u: string, r: string) =>
    outcome(
      requestOf(
        [
          ['X-Auth-Assertion', assertion],
          ['X-Request-Id', r],
        ],
        m,
        u,
      ),
    );
  t.equal(await ask(method, target, rid), 'U1');
  const values = [method, target, rid];
  const codes = ['assertion_method', 'assertion_target', 'assertion_request_id'];
  const change = record({
    which: nat(2),
    at: nat(),
    kind: constantFrom('replace', 'insert', 'remove', 'case'),
    byte: integer({ min: 0x21, max: 0xff }),
  });
  await assert(
    asyncProperty(change, async ({ which, at, kind, byte }) => {
      const value = values[which] as string;
      const i = at % (kind === 'insert' ? value.length + 1 : value.length);
      const each = value.charAt(i);
      const swapped = each === each.toLowerCase() ? each.toUpperCase() : each.toLowerCase();
      const put = { replace: String.fromCharCode(byte), insert: String.fromCharCode(byte) + each, remove: '', case: swapped }[kind] ?? '';
      const changed = value.slice(0, i) + put + value.slice(i + 1);
      if (changed === value) return;
      const [m = '', u = '', r = ''] = values.map((one, n) => (n === which ? changed : one));
      const code = await ask(m, u, r);
      if (code !== codes[which]) throw new Error(`${changed}: ${code}`);
    }),
  );
}); // prettier-ignore

t.test('tolerates clocks that differ by up to clockSkew, either way', async (t) => {
  for (const clockSkew of [0, 5, 60, 300]) {
    // A second may pass during the test, so the exact limits are not tested.
    for (const [name, more, expected] of [
      ['ended within it', { iat: now() - 400, exp: now() - clockSkew + 3 }, 'U1'],
      ['ended before it', { iat: now() - 400, exp: now() - clockSkew - 1 }, 'assertion_expired'],
      ['begins within it', { iat: now() + clockSkew, exp: now() + 400 }, 'U1'],
      ['begins after it', { iat: now() + clockSkew + 3, exp: now() + 400 }, 'assertion_not_yet_valid'],
      ['valid after it', { nbf: now() + clockSkew + 3 }, 'assertion_not_yet_valid'],
    ] as const)
      t.equal(
        await outcome(withAssertion(await sign(more)), { clockSkew }),
        expected,
        `${clockSkew}: ${name}`,
      );
  }
});

/** Moves the clocks on by which keys grow old; assertions are checked by another. */
function movableClocks(t: Parameters<typeof movable>[0]): (ms: number) => void {
  const clocks = [movable(t, performance), movable(t, Date)];
  return (ms) => clocks.forEach((pass) => pass(ms));
}

t.test('fetches and caches keys from a URL', async (t) => {
  const pass = movableClocks(t);
  let fetched = 0;
  let status = 200;
  let body = JSON.stringify({ keys: [jwks.keys[0]] });
  const server = createServer((_req, res) => {
    fetched += 1;
    res.writeHead(status).end(body);
  });
  const url = await listenOnLoopback(server);
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const ask = (assertion: string, at = '/a') => outcome(withAssertion(assertion), { jwks: `${url}${at}` });
  const other = await sign({}, { kid: 'curve', alg: 'ES256', key: pairs.curve.privateKey });

  status = 500;
  t.equal(await ask(good, '/never'), 'keys_unavailable');
  status = 200;
  t.equal(await ask(good, '/never'), 'keys_unavailable', 'no immediate retry');
  t.equal(fetched, 1);

  fetched = 0;
  t.same(await Promise.all(Array.from({ length: 20 }, () => ask(good))), Array(20).fill('U1'));
  t.equal(fetched, 1, 'once for all concurrent requests');
  for (let i = 0; i < 20; i++) await ask(await sign({}, { kid: `made-up-${i}` }));
  t.ok(fetched <= 2, `${fetched} fetches for 20 made-up names of keys`);
  status = 500;
  pass(301_000);
  t.equal(await ask(good), 'U1', 'known keys still work while the server does not respond');
  t.equal(await ask(other), 'assertion_key_unknown');

  status = 200;
  fetched = 0;
  t.equal(await ask(good, '/b'), 'U1');
  body = JSON.stringify(jwks);
  pass(5_100);
  t.equal(await ask(other, '/b'), 'U1', 'a new key is fetched when an assertion names it');
  t.equal(fetched, 2);
  body = JSON.stringify({ keys: [jwks.keys[1]] });
  pass(301_000);
  t.equal(await ask(other), 'U1', 'after a rotation, the new key works');
  t.equal(await ask(good), 'assertion_key_unknown', 'the removed key does not');
  status = 500;
  for (let minutes = 0; minutes < 70; minutes += 6) {
    pass(360_000);
    await ask(other);
  }
  t.equal(await ask(other), 'keys_unavailable', 'no key works for long without its URL');
  status = 200;
  for (const [at, text] of [['/text', '{'], ['/list', '[]'], ['/large', JSON.stringify({ keys: [], x: 'x'.repeat(1 << 20) })]] as const) {
    body = text;
    t.equal(await ask(good, at), 'keys_unavailable', at);
  }
}); // prettier-ignore

t.test('waits only once for a key server that does not respond', async (t) => {
  const pass = movableClocks(t);
  const waiting: (() => void)[] = [];
  let responds = true;
  const server = createServer((_req, res) => {
    if (!responds) waiting.push(() => res.destroy());
    else res.writeHead(200).end(JSON.stringify(jwks));
  });
  const url = await listenOnLoopback(server);
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const ask = () => outcome(withAssertion(good), { jwks: url });
  t.equal(await ask(), 'U1');

  responds = false;
  pass(301_000);
  const first = ask();
  await until(() => waiting.length === 1, 'the first fetch');
  waiting[0]?.();
  t.equal(await first, 'U1', 'known keys work after a failed fetch');

  pass(6_000);
  t.equal(await ask(), 'U1');
  t.equal(waiting.length, 1, 'no second fetch');
});
