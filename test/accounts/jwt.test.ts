import { readFileSync } from 'node:fs';
import { createHmac, generateKeyPairSync, KeyObject, sign } from 'node:crypto';
import { exportSPKI, importJWK, type JWTPayload } from 'jose';
import t from 'tap';
import { JwtIssuers, type VerificationOutcome } from '../../src/accounts/jwt/issuers.js';
import { KeySet } from '../../src/accounts/jwt/verifier.js';
import { createKeySource } from '../../src/accounts/jwt/key-source.js';
import { type IssuerSettings, ruleFor } from '../../src/accounts/jwt/subjects.js';
import { Unavailable } from '../../src/domain/refusal.js';
import { createJwtEvents } from '../../src/server/accounts.js';
import { selfSigned } from '../helpers/certificates.js';
import { serveHttp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { KeyServer, newPair, type Pair } from '../helpers/key-server.js';
import { forEachRow } from '../helpers/table.js';

const pair = await newPair('one');
const issuer = await KeyServer.start(t, pair);

function settingsOf(more: Partial<IssuerSettings> = {}): IssuerSettings {
  return {
    name: 'ci',
    issuer: issuer.url,
    discovery: null,
    tls: null,
    audience: 'latchkey',
    audience_claim: 'aud',
    header: 'Authorization',
    cookie: null,
    jwks: { url: `${issuer.url}/jwks` },
    algorithms: ['ES256', 'RS256'],
    clock_skew: 30_000,
    subjects: [
      { claims: { sub: 'repo:acme/*', ref: 'refs/heads/main' }, customer_id: 'C1', role: 'engineer', scope: ['global'] },
      { claims: { sub: 'repo:acme/*' }, customer_id: 'C2', role: 'user', scope: ['global:read'], services: ['S1', 'S2'] },
    ],
    ...more,
  };
} // prettier-ignore

function open(more: Partial<IssuerSettings> = {}, keys?: KeySet) {
  const outcomes: VerificationOutcome[] = [];
  const fetches: unknown[] = [];
  const events = {
    verified: (_: string, outcome: VerificationOutcome) => void outcomes.push(outcome),
    fetched: (_: string, error: unknown) => void fetches.push(error),
  };
  return {
    issuers: new JwtIssuers([settingsOf(more)], events, keys && { of: () => keys }),
    outcomes,
    fetches,
  };
}

t.test('which claims match a rule', async (t) => {
  const rows: [pattern: string, claim: unknown, boolean][] = [
    ['a', 'a', true], ['a', 'A', false], ['a', 'ab', false], ['a', '', false], ['a*', 'a', true], ['a*', 'abc', true], ['a*', 'ba', false],
    ['*a', 'a', true], ['*a', 'bca', true], ['*a', 'ab', false], ['*', 'anything', true], ['*', undefined, false], ['a', undefined, false], ['a', null, false],
    ['1', 1, true], ['true', true, true], ['a', ['b', 'a'], true], ['a*', ['b', 'ax'], true], ['a', ['b'], false], ['a', [], false], ['a', [['a']], false],
    ['9007199254740991', JSON.parse('9007199254740991'), true], ['9007199254740992', JSON.parse('9007199254740993'), false],
    ['9*', [JSON.parse('1e22')], false], ['Infinity', JSON.parse('1e999'), false], ['1.5', 1.5, true],
    ['a', { a: 'a' }, false], ['[object Object]', {}, false], ['a*', { toString: 'a' }, false], ['acme/*', 'acme-evil/x', false], ['a,b', ['a', 'b'], false],
  ];
  forEachRow(rows, ([pattern, claim, fits]) => {
    const rule = ruleFor([{ claims: { name: pattern } }], claim === undefined ? {} : { name: claim });
    t.equal(rule !== undefined, fits, `${pattern}: ${JSON.stringify(claim)}`);
  });
  for (const name of ['__proto__', 'constructor', 'toString', 'a.b'])
    t.equal(ruleFor([{ claims: JSON.parse(`{"${name}":"*"}`) }], { a: { b: 'c' } }), undefined, name);
  const [first, second] = [{ claims: { a: '1', b: '2' } }, { claims: { a: '*' } }];
  t.equal(ruleFor([first, second], { a: '1', b: '2' }), first, 'the first rule whose claims all match');
  t.equal(ruleFor([first, second], { a: '1' }), second);
  t.equal(ruleFor([first, second], { b: '2' }), undefined);
}); // prettier-ignore

t.test('maps a valid JWT to a subject', async (t) => {
  const { issuers, outcomes, fetches } = open();
  const now = Date.now();
  const jwt = await issuer.sign({ ref: 'refs/heads/main' });
  const subject = await issuers.verify(jwt, now);
  t.match(subject, {
    credential: 'jwt', jwt: { issuer: 'ci', subject: 'repo:acme/x' }, token: { scopes: ['global'], services: [] },
    user: { id: 'ci/repo:acme/x', customerId: 'C1', role: 'engineer', locked: false },
  });
  t.equal(issuers.verify(jwt, now + 59_000), subject, 'remembered');
  t.not(await issuers.verify(jwt, now + 60_000), subject, 'for a minute');
  t.equal(await issuers.verify(jwt, now + 200_000), undefined, 'but not beyond its expiry');
  t.equal(await issuers.verify(jwt, now - 1), await issuers.verify(jwt, now - 1), 'a clock that went back causes a new verification');
  t.match(await issuers.verify(await issuer.sign({}), now), { user: { customerId: 'C2', role: 'user' }, token: { services: ['S1', 'S2'], scopes: ['global:read'] } });
  t.equal(await issuers.verify(await issuer.sign({ sub: 'repo:evil/x' }), now), undefined);
  t.same([outcomes.includes('valid'), outcomes.includes('no_subject'), outcomes.includes('expired')], [true, true, true]);
  t.same(fetches, [undefined], 'a single fetch');
  const both = await Promise.all([1, 2, 3].map(async () => issuers.verify(jwt, now + 61_000)));
  t.equal(new Set(both).size, 1, 'concurrent requests share one verification');
}); // prettier-ignore

t.test('a JWT and what derives from it have the same lifetime, to the millisecond', async (t) => {
  const second = Math.ceil(Date.now() / 1000);
  const rows = [0, 0.25, 0.5, 1].flatMap((fraction) => [0, 500, 1_000, 30_250].map((skew) => [fraction, skew] as const));
  for (const [fraction, skew] of rows) {
    const { issuers } = open({ clock_skew: skew });
    const check = async (claims: JWTPayload, ms: number) => {
      const jwt = await issuer.sign(claims);
      const found = await issuers.verify(jwt, ms);
      const what = `${JSON.stringify(claims)} at ${ms - second * 1000} with ${skew} ms`;
      if (found !== undefined) t.ok((found.token.expiresAt ?? 0) > ms, `${what}: expires later`);
    };
    for (const off of [-1_001, -1_000, -501, -500, -250, -1, 0, 1, 249, 250, 499, 500, 999, 1_000, 1_001]) {
      const edge = second * 1000 + fraction * 1000 + off;
      await check({ exp: second + fraction }, edge + skew);
    }
  }
  for (const [claims, isValid] of [[{ iat: 'now' as never }, false], [{ iat: 1.5 }, true], [{ iat: -1 }, true], [{ exp: 1e15 }, true]] as const) {
    const verified = await open().issuers.verify(await issuer.sign(claims), second * 1000);
    t.equal(verified !== undefined, isValid, JSON.stringify(claims));
  }
}); // prettier-ignore

const at = () => Math.floor(Date.now() / 1000);

t.test('attacks', async (t) => {
  const rsa = await newPair('rsa', 'RS256');
  const second = await newPair('second');
  issuer.published = [pair, rsa, second];
  const stranger = await newPair('one');
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const claims = { iss: issuer.url, aud: 'latchkey', sub: 'repo:acme/x', exp: at() + 60 };
  const hmac = (header: object, key: string | Buffer) => {
    const signed = `${part(header)}.${part(claims)}`;
    return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`;
  };
  const pem = await exportSPKI((await importJWK(rsa.jwk, 'RS256')) as CryptoKey);
  const good = await issuer.sign({});
  const [head = '', body = '', signature = ''] = good.split('.');
  const jwts: Record<string, string> = {
    'alg none': `${part({ alg: 'none' })}.${part(claims)}.`,
    'alg none with the signature of another': `${part({ alg: 'none', kid: 'one' })}.${body}.${signature}`,
    'HS256 with the public key as PEM': hmac({ alg: 'HS256', kid: 'rsa' }, pem),
    'HS256 with the public key as JWK': hmac({ alg: 'HS256', kid: 'rsa' }, JSON.stringify(rsa.jwk)),
    'HS256 with nothing': hmac({ alg: 'HS256' }, ''),
    'another audience': await issuer.sign({ aud: 'another' }),
    'no audience': await issuer.sign({ aud: undefined as never }),
    'audiences without this one': await issuer.sign({ aud: ['a', 'latchkey2'] }),
    'another issuer': await issuer.sign({ iss: 'https://another.example' }),
    'an issuer with a slash': await issuer.sign({ iss: `${issuer.url}/` }),
    'no issuer': await issuer.sign({ iss: undefined as never }),
    expired: await issuer.sign({ exp: at() - 31 }),
    'no expiry': await issuer.sign({ exp: undefined as never }),
    'an expiry as text': await issuer.sign({ exp: String(at() + 60) as never }),
    'not yet': await issuer.sign({ nbf: at() + 40 }),
    'a critical extension': await issuer.sign({}, pair, { crit: ['x'], x: 1 }).catch(() => `${part({ alg: 'ES256', kid: 'one', crit: ['x'], x: 1 })}.${body}.${signature}`),
    'a key of a stranger': await issuer.sign({}, stranger),
    'its own key embedded': await issuer.sign({}, stranger, { jwk: stranger.jwk }),
    'a link to its own key': await issuer.sign({}, stranger, { jku: `${issuer.url}/evil`, x5u: `${issuer.url}/evil` }),
    'a path as key id': await issuer.sign({}, stranger, { kid: '../../../dev/null' }),
    'an unknown key without a key id': await issuer.sign({}, stranger, { kid: undefined }),
    'another key type': await issuer.sign({}, pair, { kid: 'rsa' }),
    'changed claims': `${head}.${part({ ...claims, ref: 'refs/heads/main' })}.${signature}`,
    'a truncated signature': good.slice(0, -2),
    'no signature': `${head}.${body}.`,
    'too long': await issuer.sign({ pad: 'x'.repeat(8_192) }),
    'nested claims': await issuer.sign({ sub: { sub: 'repo:acme/x' } as never }),
    'no subject': await issuer.sign({ sub: undefined as never }),
    'a subject with a line break': await issuer.sign({ sub: 'repo:acme/x\r\nX-Auth-Role: superuser' }),
    'a subject with a space': await issuer.sign({ sub: 'repo:acme/x y' }),
    'a subject outside ASCII': await issuer.sign({ sub: 'repo:acme/\u00e4' }),
    'a subject with %': await issuer.sign({ sub: 'repo:acme/%41' }),
    'a long subject': await issuer.sign({ sub: `repo:acme/${'x'.repeat(255)}` }),
    'not JSON': `${head}.${Buffer.from('x').toString('base64url')}.${signature}`,
    'a list': `${head}.${Buffer.from('[1]').toString('base64url')}.${signature}`,
  };
  const { issuers } = open();
  for (const [what, jwt] of Object.entries(jwts)) t.equal(await issuers.verify(jwt, Date.now()), undefined, what);
  t.notOk(issuer.asked.some((path) => path.includes('evil')), 'no URL from a JWT is fetched');
  const held: Record<string, string> = {
    'a list of audiences': await issuer.sign({ aud: ['a', 'latchkey'] }),
    'expired within the clock skew': await issuer.sign({ exp: at() - 20 }),
    'not yet valid, within the clock skew': await issuer.sign({ nbf: at() + 20 }),
    'no key id, one key of its type': await issuer.sign({}, rsa, { kid: undefined }),
    'no key id, several keys': await issuer.sign({}, second, { kid: undefined }),
    RSA: await issuer.sign({}, rsa),
    'an expiry far in the future': await issuer.sign({ exp: 1e15 }),
  };
  for (const [what, jwt] of Object.entries(held)) t.ok(await issuers.verify(jwt, Date.now()), what);
  const { issuers: strict } = open({ algorithms: ['ES256'] });
  t.equal(await strict.verify(held['RSA'] ?? '', Date.now()), undefined, 'an algorithm that is not configured');
  issuer.published = [pair];
}); // prettier-ignore

/** Signs a header and claims given as exact text; the signature itself is valid. */
function signText(
  header: string,
  claims: string,
  key: Pair = pair,
  encoding: BufferEncoding = 'utf8',
): string {
  const signed = [header, claims].map((text) => Buffer.from(text, encoding).toString('base64url')).join('.');
  const options = { key: KeyObject.from(key.privateKey), dsaEncoding: 'ieee-p1363' } as const;
  return `${signed}.${sign('sha256', Buffer.from(signed), options).toString('base64url')}`;
}

t.test('refuses what is not valid whatever the signature', async (t) => {
  const { issuers } = open();
  const claims = { iss: issuer.url, aud: 'latchkey', sub: 'repo:acme/x', exp: at() + 60 };
  const make = (header: object, more: object = {}, encoding: BufferEncoding = 'utf8') =>
    signText(JSON.stringify({ alg: 'ES256', kid: 'one', ...header }), JSON.stringify({ ...claims, ...more }), pair, encoding);
  const good = make({});
  const [head, body, signature] = good.split('.');
  const rows: [what: string, jwt: string, isValid: boolean][] = [
    ['valid', good, true],
    ['no key id', make({ kid: undefined }), true],
    ['claims beyond ASCII', make({}, { name: 'é' }), true],
    ['claims in Latin-1', make({}, { name: 'é' }, 'latin1'), false],
    ['an unknown extension', make({ crit: ['x'], x: 1 }), false],
    ['no extension', make({ crit: [] }), false],
    ['an extension as text', make({ crit: 'b64', b64: true }), false],
    ['claims that are not encoded', make({ crit: ['b64'], b64: false }), false],
    ['claims that are encoded', make({ crit: ['b64'], b64: true }), true],
    ['a number as key id', make({ kid: 1 }), false],
    ['two parts', `${head}.${body}`, false],
    ['no signature', `${head}.${body}.`, false],
    ['four parts', `${good}.x`, false],
    ['a line break', `${head}.\n${body}.${signature}`, false],
    ['padding', `${good}=`, false],
  ];
  for (const [what, jwt, isValid] of rows)
    t.equal((await issuers.verify(jwt, Date.now())) !== undefined, isValid, what);
}); // prettier-ignore

t.test('scopes in one text are a list, and a JSON pointer names a nested claim', async (t) => {
  const claims = {
    scope: 'a orders:read',
    scp: 'reorders:read  orders:readonly',
    groups: 'x y',
    realm_access: { roles: ['admin'] },
    'kubernetes.io': { 'pod/name': { '~': 'web' } },
  };
  const rows: [name: string, pattern: string, boolean][] = [
    ['scope', 'orders:read', true], ['scope', 'a', true], ['scope', 'a orders:read', false], ['scope', 'orders:*', true], ['scope', '', false],
    ['scp', 'orders:read', false], ['scp', 'reorders:read', true], ['groups', 'x', false], ['groups', 'x y', true],
    ['/realm_access/roles', 'admin', true], ['/realm_access/roles/0', 'admin', true], ['/realm_access/roles/length', '1', false],
    ['realm_access.roles', 'admin', false], ['/kubernetes.io/pod~1name/~0', 'web', true], ['/kubernetes.io', '*', false], ['/realm_access/constructor', '*', false],
  ];
  forEachRow(rows, ([name, pattern, fits]) => t.equal(ruleFor([{ claims: { [name]: pattern } }], claims) !== undefined, fits, `${name}: ${pattern}`));
}); // prettier-ignore

t.test('attacks with a valid signature', async (t) => {
  const { issuers } = open({ algorithms: ['ES256', 'RS256', 'EdDSA'] });
  const verify = (jwt: string) => issuers.verify(jwt, Date.now());
  const head = { alg: 'ES256', kid: 'one' };
  const claims = { iss: issuer.url, aud: 'latchkey', sub: 'repo:acme/x', exp: at() + 60 };
  const make = (header: object, more: object = {}) =>
    signText(JSON.stringify({ ...head, ...header }), JSON.stringify({ ...claims, ...more }));
  const body = (more: string) => signText(JSON.stringify(head), `${JSON.stringify(claims).slice(0, -1)},${more}}`);
  t.ok(await verify(make({})), 'valid without changes');
  t.ok(await verify(make({ typ: 'JWT', jku: `${issuer.url}/evil`, x5u: `${issuer.url}/evil`, jwk: pair.jwk })), 'hints at keys are ignored');
  t.ok(await verify(make({}, { exp: at() + 60.5, aud: ['x', 'latchkey'] })), 'a fraction of a second');
  const refused: Record<string, string> = {
    'an unknown critical extension': make({ crit: ['x'], x: 1 }),
    'an empty list of critical extensions': make({ crit: [] }),
    'critical extensions that are not a list': make({ crit: 'exp' }),
    'a critical extension that is absent': make({ crit: ['b64'] }),
    'an unencoded payload': make({ crit: ['b64'], b64: false }),
    'no algorithm': make({ alg: undefined }),
    'an algorithm in another case': make({ alg: 'es256' }),
    'an algorithm that is a list': make({ alg: ['ES256'] }),
    'an algorithm that does not match the signature': make({ alg: 'ES384' }),
    'a key id that is not text': make({ kid: { $ne: '' } }),
    'a key id of an object prototype': make({ kid: '__proto__' }),
    'a compressed payload': make({ zip: 'DEF', enc: 'A128GCM' , crit: ['zip'] }),
    'a negative expiry': make({}, { exp: -1 }),
    'an expiry of zero': make({}, { exp: 0 }),
    'an expiry that is true': make({}, { exp: true }),
    'an expiry that is a list': make({}, { exp: [at() + 60] }),
    'an expiry that is null': make({}, { exp: null }),
    'nbf as text': make({}, { nbf: String(at() - 60) }),
    'iat as text': make({}, { iat: 'now' }),
    'a logout token': make({ typ: 'logout+jwt' }, { events: { 'http://schemas.openid.net/event/backchannel-logout': {} } }),
    'bound to a key by DPoP': make({ typ: 'at+jwt' }, { cnf: { jkt: 'x' } }),
    'a duplicate expiry, the last one in the past': body(`"exp":${at() - 60}`),
    'a duplicate issuer': body('"iss":"https://another.example"'),
    'an audience that is an object': make({}, { aud: { latchkey: true } }),
    'a list of lists as audience': make({}, { aud: [['latchkey']] }),
    'a prototype as claims': signText(JSON.stringify(head), JSON.stringify(claims).replace('"sub":', '"__proto__":{},"x":')),
    'a header that is a list': signText('["ES256"]', JSON.stringify(claims)),
    'too deeply nested claims': body(`"x":${'['.repeat(65)}${']'.repeat(65)}`),
    'too many values': body(`"x":[${'1,'.repeat(1_100)}1]`),
  };
  for (const [what, jwt] of Object.entries(refused)) t.equal(await verify(jwt), undefined, what);
  t.ok(await verify(body('"exp":1e999')), 'an expiry beyond the range of numbers is far in the future');
  const jwe = [...Array(5).keys()].map(() => 'eyJhbGciOiJkaXIifQ').join('.');
  t.equal(await verify(jwe), undefined, 'an encrypted JWT');
  t.notOk(issuer.asked.some((path) => path.includes('evil')), 'no URL from a JWT is fetched');
}); // prettier-ignore

t.test('keys that must not be used', async (t) => {
  const small = generateKeyPairSync('rsa', { modulusLength: 1024 });
  const rsa = await newPair('rsa', 'RS256');
  const p384 = await newPair('p384', 'ES384');
  const signed = async (jwk: object, key: Pair | null = pair, also: object[] = []) => {
    const { issuers } = open({ jwks: { url: 'https://issuer.example' } }, new KeySet(async () => ({ keys: [jwk, ...also] as never })));
    const text = [JSON.stringify({ alg: key?.algorithm ?? 'RS256', kid: 'one' }), JSON.stringify({ iss: issuer.url, aud: 'latchkey', sub: 'repo:acme/x', exp: at() + 60 })] as const;
    const privateKey = key === null ? small.privateKey : KeyObject.from(key.privateKey);
    const input = text.map((each) => Buffer.from(each).toString('base64url')).join('.');
    const signature = sign('sha256', Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' });
    return issuers.verify(`${input}.${signature.toString('base64url')}`, Date.now());
  };
  t.ok(await signed(pair.jwk), 'valid without changes');
  t.ok(await signed({ ...rsa.jwk, kid: 'one' }, rsa), 'also with RSA');
  const { use: _use, alg: _alg, ...bare } = pair.jwk;
  t.ok(await signed(bare), 'without use and algorithm');
  const rows: [string, object, (Pair | null)?][] = [
    ['an encryption key', { ...pair.jwk, use: 'enc' }],
    ['operations without verify', { ...bare, key_ops: ['sign'] }],
    ['a key for another algorithm', { ...pair.jwk, alg: 'ES384' }],
    ['a key on another curve', { ...p384.jwk, kid: 'one', alg: 'ES256' }],
    ['a key that is not on the curve', { ...pair.jwk, y: pair.jwk.x }],
    ['an incomplete key', { kty: 'EC', kid: 'one', crv: 'P-256' }],
    ['a symmetric key', { kty: 'oct', kid: 'one', k: 'AAAA', alg: 'ES256' }],
    ['a key agreement key', { kty: 'OKP', crv: 'X25519', x: 'AAAA', kid: 'one' }],
    ['RSA of 1024 bits', { ...small.publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'RS256' }, null],
    ['an incomplete RSA key', { kty: 'RSA', kid: 'one' }, rsa],
  ];
  for (const [what, jwk, key] of rows) {
    t.equal(await signed(jwk, key), undefined, what);
    const right = key === null ? rsa : (key ?? pair);
    t.ok(await signed(jwk, right, [{ ...right.jwk, kid: 'one' }]), `${what}, before the right key`);
  }
}); // prettier-ignore

t.test('an unknown issuer causes no fetch', async (t) => {
  const { issuers, fetches, outcomes } = open();
  t.equal(issuers.verify(await issuer.sign({ iss: 'https://unknown.example' }), Date.now()), undefined);
  t.notOk(issuers.isOwn(await issuer.sign({ iss: 'https://unknown.example' })));
  t.ok(issuers.isOwn(await issuer.sign({})));
  t.same([fetches, outcomes], [[], []]);
});

/** A key set whose clock and source are controlled by the test. */
function driven() {
  const state = { now: 0, fails: false, keys: [pair] as Pair[], fetches: 0 };
  const set = new KeySet(
    async () => {
      state.fetches += 1;
      if (state.fails) throw new Error('away');
      return { keys: state.keys.map(({ jwk }) => jwk) };
    },
    () => undefined,
    () => state.now,
  );
  const find = async (kid: string) => {
    try {
      await set.find({ alg: 'ES256', kid }, { payload: '', signature: '' });
      return 'found';
    } catch (error) {
      return error instanceof Unavailable ? 'unavailable' : 'unknown';
    }
  };
  return { state, find };
}

t.test('fetches keys when needed, at most as often as the cooldown allows', async (t) => {
  const { state, find } = driven();
  t.equal(await find('one'), 'found');
  t.equal(await find('one'), 'found');
  t.equal(state.fetches, 1);
  state.keys = [pair, await newPair('two')];
  t.equal(await find('two'), 'found', 'a key added right after the fetch');
  t.equal(state.fetches, 2);
  for (let i = 0; i < 100; i++) t.equal(await find(`made-up-${i}`), 'unknown');
  t.equal(state.fetches, 2, 'invented key ids');
  state.now += 30_000;
  for (let i = 0; i < 100; i++) t.equal(await find(`made-up-${i}`), 'unknown');
  t.equal(state.fetches, 4, 'twice per cooldown');
  state.keys = state.keys.slice(1);
  state.now += 10 * 60_000;
  t.equal(await find('one'), 'unknown', 'a removed key');
  t.ok(state.fetches <= 6);
});

t.test('known keys stay usable while keys cannot be fetched', async (t) => {
  const { state, find } = driven();
  state.fails = true;
  t.equal(await find('one'), 'unavailable');
  t.equal(await find('one'), 'unavailable');
  t.equal(state.fetches, 1, 'not again at once');
  state.now += 2_000;
  state.fails = false;
  t.equal(await find('one'), 'found', 'seconds after they can be fetched');
  state.now += 30_000;
  state.fails = true;
  state.now += 60 * 60_000;
  await find('one');
  t.equal(await find('one'), 'found', 'an hour later');
  t.equal(await find('two'), 'unavailable', 'a key that may have been added');
  state.now += 2_000;
  state.fails = false;
  t.equal(await find('two'), 'unknown', 'it was not');
});

t.test('which responses of a key server are accepted', async (t) => {
  const source = createKeySource({ issuer: issuer.url }, { url: `${issuer.url}/jwks` });
  const discovered = createKeySource({ issuer: issuer.url }, null);
  const rows = [['error', /responded with 500/], ['redirect', /responded with 302/], ['html', /not a JSON/], ['oversized', /./], ['no keys', /not a key set|names the issuer/]] as const;
  for (const [behaviour, message] of rows) {
    issuer.behaviour = behaviour;
    for (const get of [source, discovered]) await t.rejects(get(), { message }, behaviour);
  }
  issuer.behaviour = 'another issuer';
  await t.rejects(discovered(), /names the issuer https:\/\/another\.example, not http/);
  issuer.behaviour = 'keys';
  for (const get of [source, discovered]) t.match(await get(), { keys: [{ kid: 'one' }] });
  await t.rejects(createKeySource({ issuer: 'http://issuer.example' }, null)(), /https/);
  await t.rejects(createKeySource({ issuer: issuer.url }, { file: '/nowhere' })(), /ENOENT/);
}); // prettier-ignore

t.test('the keys of an issuer with a certificate authority of its own', async (t) => {
  const folder = temporaryFolder(t);
  const { cert, key } = selfSigned(folder, 'issuer');
  const declared = 'https://issuer.example';
  const { url } = await serveHttp(t, (req, res) => {
    const at = url.replace('http:', 'https:');
    const configuration = { issuer: declared, jwks_uri: `${at}/jwks` };
    res.end(JSON.stringify(req.url === '/jwks' ? { keys: [pair.jwk] } : configuration));
  }, { cert: readFileSync(cert), key: readFileSync(key) });
  const discovery = `${url.replace('http:', 'https:')}/elsewhere`;
  t.match(await createKeySource({ issuer: declared, discovery, tls: { ca: cert } }, null)(), { keys: [{ kid: 'one' }] });
  await t.rejects(createKeySource({ issuer: declared, discovery }, null)(), /certificate/);
}); // prettier-ignore

t.test('a fetch from a hanging key server times out', async (t) => {
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  const limits: number[] = [];
  AbortSignal.timeout = (ms) => {
    limits.push(ms);
    return timeout(ms / 50);
  };
  t.teardown(() => void (AbortSignal.timeout = timeout));
  issuer.behaviour = 'hang';
  await t.rejects(createKeySource({ issuer: issuer.url }, { url: `${issuer.url}/jwks` })(), {
    message: `${issuer.url}/jwks: no complete response in time`,
  });
  t.same(limits, [5_000]);
  issuer.behaviour = 'keys';
});

t.test('logs once that keys cannot be fetched, and once that they can again', async (t) => {
  const lines: [string, object, string][] = [];
  const log = {
    info: (fields: object, msg: string) => void lines.push(['info', fields, msg]),
    warn: (fields: object, msg: string) => void lines.push(['warn', fields, msg]),
  };
  const events = createJwtEvents(log as unknown as Parameters<typeof createJwtEvents>[0]);
  events.fetched('ci', undefined);
  t.same(lines, [], 'a success is not logged');
  for (let i = 0; i < 3; i++) events.fetched('ci', new Error('it responded with 500'));
  events.fetched('ci', undefined);
  events.fetched('ci', undefined);
  t.match(lines, [
    ['warn', { issuer: 'ci', reason: 'it responded with 500' }, /issuer keys unreachable/],
    ['info', { issuer: 'ci' }, 'issuer keys reachable again'],
  ]);
  t.equal(lines.length, 2);
});
