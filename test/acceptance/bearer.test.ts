import t from 'tap';
import { WebSocketServer } from 'ws';
import { newAccessToken } from '../../src/domain/secret.js';
import { selfSigned } from '../helpers/certificates.js';
import { DECIDES, type Entrance, entrancesOf } from '../helpers/entrances.js';
import { LEGACY_KEY, OTP_SECRET, startFixture } from '../helpers/fixture.js';
import { type Reply, send, sendRaw } from '../helpers/http.js';
import { openHttp2 } from '../helpers/http2.js';
import { run, temporaryFolder } from '../helpers/latchkey.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { rememberSecret } from '../helpers/secrets.js';
import { matchLog, until } from '../helpers/until.js';

/*
 * A token in `Authorization` is the same credential as in the key field, at every entrance.
 */

type Test = Parameters<typeof startFixture>[0];

/**
 * The rows that an entrance tries: the first one all of them, each other a third. All entrances use
 * one parser.
 */
const rowsOf = <Row>(entrance: number, rows: readonly Row[]) =>
  rows.filter((_, i) => entrance === 0 || (entrance + i) % 3 === 0);

const ROUTES = [
  { path: '/open', auth: 'none' },
  { path: '/billing', action: 'billing' },
  { path: '/users/:user_id', methods: ['DELETE'], action: 'account', refuse_if_active_tokens: 'user_id' },
  { path: '/service/:service_id', action: 'service', service: 'service_id' },
];

async function setUp(t: Test, config: object = {}) {
  const { cert, key } = selfSigned(temporaryFolder(t), 'latchkey');
  const fixture = await startFixture(t, {
    listen: { host: '127.0.0.1', port: 0, tls: { cert, key } },
    decision: { host: '127.0.0.1', port: 0, grpc: { port: 0 } },
    routes: ROUTES,
    ...config,
  });
  const sockets = new WebSocketServer({ server: fixture.upstream.server });
  sockets.on('connection', (socket, req) => {
    handshakes.push(req.rawHeaders);
    socket.close();
  });
  const handshakes: string[][] = [];
  const entrances = entrancesOf(fixture.server, await openHttp2(t, fixture.url));
  /**
   * The `Authorization` values that reach the upstream, or that a proxy is told to send; undefined
   * if refused.
   */
  const forwarded = async (name: string, ask: Entrance, path: string, headers: Record<string, string>): Promise<(string | undefined)[] | undefined> => {
    const { received } = fixture.upstream;
    const seen = received.length + handshakes.length;
    const reply = await ask({ method: 'GET', path, headers });
    if (DECIDES.has(name)) return reply.status === 200 ? [reply.headers.authorization] : undefined;
    if (reply.status !== 200 && reply.status !== 101) return undefined;
    await until(() => received.length + handshakes.length > seen, 'it reaches the upstream');
    const fields = name === 'WebSocket' ? (handshakes.at(-1) ?? []) : (received.at(-1)?.rawHeaders ?? []);
    const values = fields.filter((_, i) => fields[i - 1]?.toLowerCase() === 'authorization' && i % 2 === 1);
    return values.length === 0 ? [undefined] : values;
  };
  return { ...fixture, entrances, forwarded };
} // prettier-ignore

/**
 * The parts of a response that depend neither on the request nor on how the credential is written.
 */
function kept({ status, text, headers }: Reply) {
  const identity = Object.entries(headers).filter(([name]) => name.startsWith('x-auth-'));
  let body = text;
  try {
    // An echo contains its own headers; a built-in endpoint, when the token was last seen.
    const { headers: _headers, last_seen_at: _seen, last_used_at: _used, ...rest } = JSON.parse(text);
    body = JSON.stringify(rest).replace(/"X-Request-Id","[^"]*"/, '');
  } catch {
    // Not JSON.
  }
  return { status, body, identity: Object.fromEntries(identity) };
}

const { url, server, token, login, create, entrances, forwarded, configFile, upstream } = await setUp(t);
const good = await token('engineer', { 'services[]': 'SVC1' });
const session = await login('superuser');

t.test('decides on a Bearer token exactly as on the key field', async (t) => {
  const expiresAt = Math.ceil(Date.now() / 1000) * 1000 + 3_000;
  const short = await token('superuser', { expires_at: new Date(expiresAt).toISOString() });
  const revoked = await token('superuser');
  await send(url, '/tokens/self', { method: 'DELETE', headers: { Authorization: `Bearer ${revoked}` } });
  await until(() => Date.now() > expiresAt, 'the token expires');
  const tokens = { good, short, revoked, unknown: newAccessToken(), purge: await token('superuser', { scope: 'purge_all' }) };
  const requests: [string, string, Record<string, string>][] = [
    ['GET', '/service/SVC1', {}], ['GET', '/service/SVC2', {}], ['PUT', '/service/SVC1', {}], ['GET', '/billing', {}], ['GET', '/open', {}], ['GET', '/x', {}],
    ['DELETE', '/users/superuser', {}], ['GET', '/tokens', {}], ['GET', '/tokens/self', {}], ['GET', '/service/SVC1', { Cookie: session }],
    ['POST', '/service/SVC1', { Cookie: session, 'Sec-Fetch-Site': 'cross-site' }], ['GET', '/service/SVC1', { Cookie: 'a=1' }], ['GET', '/a/%c0%ae', {}],
  ];
  for (const [e, [name, ask]] of Object.entries(entrances).entries()) {
    for (const [w, [which, secret]] of Object.entries(tokens).entries()) {
      for (const [method, path, more] of rowsOf(e === 0 ? 0 : e + w, requests)) {
        const byKey = await ask({ method, path, headers: { ...more, 'Service-Key': secret } });
        const byBearer = await ask({ method, path, headers: { ...more, Authorization: `Bearer ${secret}` } });
        t.same(kept(byBearer), kept(byKey), `${method} ${path} with ${which} by ${name}`);
        if (byBearer.status !== 401) continue;
        const basic = 'Sec-Fetch-Site' in more ? '' : 'Basic realm="api", ';
        t.equal(byKey.headers['www-authenticate'], `${basic}Bearer realm="api"`);
        t.equal(byBearer.headers['www-authenticate'], `${basic}Bearer realm="api", error="invalid_token"`);
      }
    }
  }
}); // prettier-ignore

/** Equivalent ways to write the field (RFC 9110 11.1 and 11.4). */
const bearers = (secret: string) => [
  `Bearer ${secret}`, `bearer ${secret}`, `BEARER ${secret}`, `bEaReR   ${secret}`, `Token ${secret}`, `apikey ${secret}`,
]; // prettier-ignore
/** A token as the password with any user name, or as the user name (RFC 7617 2). */
const basics = (secret: string) => [
  `Basic ${btoa(`a:${secret}`)}`, `basic  ${btoa(`:${secret}`)}`, `BASIC ${btoa(`${secret}:${secret}`)}`, `Basic ${btoa(`${secret}:`)}`, `Basic ${btoa(`${secret}:x-oauth-basic`)}`,
]; // prettier-ignore
const spellings = (secret: string) => [...bearers(secret), ...basics(secret)];
/** A token where it is not a credential, but where some reader might find one. */
const odd = (secret: string) => [
  secret, `Bearer\t${secret}`, `Bearer ${secret}, Basic YTpi`, `Basic YTpi, Bearer ${secret}`, `Bearer "${secret}"`, `Key ${secret}`, `Bearer token=${secret}`.replace('token=', 'token= '),
  `Bearer ${secret} x`, `Bearer: ${secret}`, `Bearer,${secret}`, `Bearer Bearer ${secret}`, `Digest username="${secret}"`,
]; // prettier-ignore
/**
 * A token surrounded by other token characters, or encoded: withheld only if it is a real token.
 */
const wrapped = (secret: string) => [
  `Bearer ${secret}=`, `Bearer ${secret}==`, `Bearer ${secret}.x`, `Bearer x-${secret}`, `Bearer x_${secret}`, `Bearer ${secret}/`, `Token +${secret}`, `token=${secret}`,
  `Basic ${btoa(secret)}`, `Basic ${btoa(`${secret}:x`)}`, `Basic ${btoa(`a:${secret} `)}`, `Basic ${btoa(`a:b:${secret}`)}`,
]; // prettier-ignore
/**
 * The token is never forwarded. A value that may be two joined fields, one with a token, is
 * refused.
 */
const withheld = (name: string, authorization: string) =>
  name === 'gRPC with joined fields' && authorization.includes(',') ? undefined : [undefined];
/** Credentials of other systems. */
const OTHERS = [
  `Basic ${btoa('a:b')}`, `Basic ${btoa(`lk${'a'.repeat(37)}:`)}`, 'Token abc', 'ApiKey abc', 'Negotiate YII=', 'Bearer abc', 'Bearer', 'bearer', 'Bearer eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln', `Bearer lk${'a'.repeat(37)}`, `Bearer lk${'a'.repeat(39)}`,
  `Bearer xlk${'a'.repeat(38)}`, `Bearer lk${'a'.repeat(38)}=`, `Bearer LK${'a'.repeat(38)}`, `Bearer lk${'a'.repeat(37)}-`, 'AWS4-HMAC-SHA256 Credential=a/b, Signature=c', 'x',
]; // prettier-ignore

t.test('forwards no spelling of a Bearer token, and other credentials unchanged', async (t) => {
  for (const [e, [name, ask]] of Object.entries(entrances).entries()) {
    for (const Authorization of [...spellings(good), `Bearer lk${'0'.repeat(38)}`])
      t.same(await forwarded(name, ask, '/open', { Authorization }), [undefined], `${name}: ${Authorization.slice(0, 9)}`);
    for (const Authorization of spellings(good))
      t.same(await forwarded(name, ask, '/service/SVC1', { Authorization }), [undefined], `${name}: ${Authorization.slice(0, 9)}`);
    for (const Authorization of rowsOf(e, [...odd(good), ...wrapped(good)])) {
      t.same(await forwarded(name, ask, '/open', { Authorization }), withheld(name, Authorization), `${name}: ${Authorization.replaceAll(good, 'TOKEN')}`);
      t.equal(await forwarded(name, ask, '/x', { Authorization }), undefined, 'it is not a credential');
    }
    for (const Authorization of rowsOf(e, OTHERS)) {
      const sent = Authorization.trim();
      t.same(await forwarded(name, ask, '/open', { Authorization }), [sent], `${name}: ${sent}`);
      t.same(await forwarded(name, ask, '/service/SVC1', { Authorization, 'Service-Key': good }), [sent], `${name}: ${sent} with a key`);
      t.equal(await forwarded(name, ask, '/x', { Authorization }), undefined, `${name}: ${sent} is not a credential`);
    }
    for (const Authorization of [`Bearer ${LEGACY_KEY}`, `Bearer ${OTP_SECRET}`])
      t.equal(await forwarded(name, ask, '/x', { Authorization }), undefined, `${name}: only a token is a credential`);
  }
  const { headers } = await entrances.ext_authz({ method: 'GET', path: '/service/SVC1', headers: { Authorization: `Bearer ${good}` } });
  t.ok(String(headers['x-envoy-auth-headers-to-remove']).split(',').includes('authorization'), 'Envoy is told to remove it');
  const basic = await entrances.ext_authz({ method: 'GET', path: '/open', headers: { Authorization: 'Basic YTpi' } });
  t.notOk(String(basic.headers['x-envoy-auth-headers-to-remove']).split(',').includes('authorization'), 'Envoy keeps another credential');
}); // prettier-ignore

t.test('refuses two tokens in one request, or two fields, as ambiguous', async (t) => {
  const other = await token('superuser');
  for (const [name, ask] of Object.entries(entrances)) {
    const twice = await forwarded(name, ask, '/service/SVC1', { 'Service-Key': good, Authorization: `Bearer ${good}` });
    t.same(twice, [undefined], `${name}: the same token twice`);
    for (const secret of [other, 'lk'.padEnd(40, '0')]) {
      for (const Authorization of [`Bearer ${secret}`, `Basic ${btoa(`a:${secret}`)}`]) {
        const reply = await ask({ method: 'GET', path: '/x', headers: { 'Service-Key': good, Authorization } });
        t.equal(reply.status, DECIDES.has(name) ? 403 : 400, name);
        t.match(reply.json, { msg: 'Bad request', detail: /service-key and Authorization both carry a credential/ });
      }
    }
    // Node's HTTP/2 client does not send the field twice.
    if (name === 'HTTP/2') continue;
    for (const values of [[`Bearer ${good}`, `Bearer ${good}`], [`Bearer ${good}`, 'Basic YTpi'], ['Basic YTpi', `Bearer ${good}`], ['Basic YTpi', 'Basic YTpi']]) {
      const reply = await ask({ method: 'GET', path: '/x', headers: { authorization: values } });
      t.equal(reply.status, DECIDES.has(name) ? 403 : 400, `${name}: ${values.length}`);
      t.match(reply.json, { detail: /authorization was sent more than once/i });
    }
  }
}); // prettier-ignore

t.test('explain predicts what the server decides', async (t) => {
  const ask = async (...headers: string[]) => {
    const fields = headers.flatMap((header) => ['--header', header]);
    const { stdout } = await run(['explain', '--config', configFile, '--method', 'GET', '--path', '/service/SVC1', '--anonymous', '--json', ...fields]);
    return JSON.parse(stdout);
  };
  t.match(await ask(`Authorization: Bearer ${good}`), { verdict: { outcome: 'forward' }, credential: { kind: 'token', login: 'engineer@example.com' } });
  t.match(await ask('Authorization: Basic YTpi'), { verdict: { outcome: 'unauthenticated' } });
  t.match(await ask(`Authorization: Bearer ${good}`, `Service-Key: ${good}`), { verdict: { outcome: 'forward' } });
  t.match(await ask(`Authorization: Basic ${btoa(`a:${good}`)}`), { credential: { kind: 'token' } });
  t.match(await ask('Authorization: Negotiate YII='), { note: 'Authorization has the scheme Negotiate, which is not accepted' });
}); // prettier-ignore

t.test('built-in endpoints accept it where they accept a token', async (t) => {
  const made = (await create('superuser', { name: 'mine' })).json;
  rememberSecret(made.access_token);
  const headers = { Authorization: `Bearer ${made.access_token}` };
  t.match((await send(url, '/tokens/self', { headers })).json, { id: made.id, name: 'mine' });
  const list = await send(url, '/tokens', { headers });
  t.match([list.status, list.json.detail], [403, /requires a session/]);
  t.equal((await send(url, '/tokens/self', { method: 'DELETE', headers })).status, 204);
  const over = await send(url, '/tokens/self', { headers });
  t.equal(over.status, 401);
  t.match(over.headers['www-authenticate'], /, Bearer realm="api", error="invalid_token"$/);
});

t.test('the log names the token by its id; neither log nor upstream holds the secret', async (t) => {
  await matchLog(t, server, '"credential":"token"');
  t.notOk(server.stdout().includes(good));
  t.notOk(JSON.stringify(upstream.received).includes(good));
});

t.test('when disabled, it is not a credential and is still never forwarded', async (t) => {
  for (const forward_credentials of EVERY_CASE ? [false, true] : [true]) {
    const { entrances, forwarded, token } = await setUp(t, { interface: { bearer: false }, identity: { forward_credentials } });
    const secret = await token('superuser');
    const other = await token('engineer');
    for (const [e, [name, ask]] of Object.entries(entrances).entries()) {
      const refused = await ask({ method: 'GET', path: '/x', headers: { Authorization: `Bearer ${secret}` } });
      t.match([refused.status, refused.headers['www-authenticate']], [401, 'Basic realm="api"'], name);
      for (const Authorization of rowsOf(e + 1, [...bearers(secret), ...odd(secret), ...wrapped(secret)])) {
        const wanted = withheld(name, Authorization);
        t.same(await forwarded(name, ask, '/open', { Authorization }), wanted, name);
        t.same(await forwarded(name, ask, '/x', { Authorization, 'Service-Key': other }), wanted, `${name}: the key is used`);
      }
      t.same(await forwarded(name, ask, '/open', { Authorization: 'Basic YTpi' }), ['Basic YTpi'], name);
    }
  }
}); // prettier-ignore

t.test('every 401 names the accepted schemes, including a failed login', async (t) => {
  const without = await startFixture(t, { interface: { bearer: false } });
  const wrong = { body: new URLSearchParams({ user: 'nobody@example.com', password: 'x' }) };
  for (const [at, challenge] of [[url, 'Basic realm="api", Bearer realm="api"'], [without.url, 'Basic realm="api"']] as const) {
    for (const sent of [await send(at, '/login', wrong), await send(at, '/tokens'), await send(at, '/x'), await send(at, '/logout', { method: 'POST' })])
      t.match([sent.status, sent.headers['www-authenticate']], [401, challenge]);
  }
}); // prettier-ignore

t.test('forward_credentials forwards it too', async (t) => {
  const { entrances, forwarded, token } = await setUp(t, { identity: { forward_credentials: true } });
  const secret = await token('superuser');
  for (const [name, ask] of Object.entries(entrances))
    t.same(
      await forwarded(name, ask, '/x', { Authorization: `Bearer ${secret}` }),
      [`Bearer ${secret}`],
      name,
    );
});

t.test('exact bytes: whitespace around the value, and HTTP/1.0', async (t) => {
  const { url, token } = await startFixture(t);
  const secret = await token('engineer');
  for (const value of [` Bearer ${secret}`, `\t Bearer ${secret} \t`, `Bearer  ${secret}`]) {
    for (const version of ['1.0', '1.1'])
      t.match(await sendRaw(url, `GET /tokens/self HTTP/${version}\r\nHost: a\r\nConnection: close\r\nAuthorization:${value}\r\n\r\n`), /^HTTP\/1\.1 200 /);
  }
  const folded = `GET /tokens/self HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer\r\n ${secret}\r\n\r\n`;
  t.notMatch(await sendRaw(url, folded), /^HTTP\/1\.1 200 /, 'no line folding');
}); // prettier-ignore
