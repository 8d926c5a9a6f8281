import * as fc from 'fast-check';
import t from 'tap';
import { newAccessToken } from '../../src/domain/secret.js';
import { HANDSHAKE } from '../helpers/entrances.js';
import { LEGACY_KEY } from '../helpers/fixture.js';
import { startInProcess } from '../helpers/in-process.js';
import { options, told } from '../helpers/property.js';

type Headers = Record<string, string | string[]>;

const RESOURCE = { resource: 'https://api.example/mcp', scopes: ['orders:read'] };
const METADATA = 'https://api.example/.well-known/oauth-protected-resource/mcp';
const { request, handshake, decide, token, login } = await startInProcess(t, {
  interface: { key_headers: ['X-API-Key', 'Private_Token'], protected_resource: RESOURCE },
  routes: [{ path: '/open', auth: 'none' }],
});
const [one, two] = [await token('engineer'), await token('superuser')];
const unknown = newAccessToken();

const basic = (user: string, password: string) => `Basic ${btoa(`${user}:${password}`)}`;
/** A way to send a token: the field, and the value with it. */
const WAYS: readonly (readonly [field: string, value: (secret: string) => string])[] = [
  ['Service-Key', (secret) => secret],
  ['X-API-Key', (secret) => secret],
  ['private_token', (secret) => secret],
  ['Authorization', (secret) => `Bearer ${secret}`],
  ['authorization', (secret) => `tOKEN  ${secret}`],
  ['Authorization', (secret) => `ApiKey ${secret}`],
  ['Authorization', (secret) => basic('anybody', secret)],
  ['AUTHORIZATION', (secret) => basic(secret, '')],
  ['Authorization', (secret) => basic(secret, 'x-oauth-basic')],
  ['Sec-WebSocket-Protocol', (secret) => `v1, latchkey.bearer.${secret} ,v2`],
];
const way = fc.constantFrom(...WAYS);
const secret = fc.constantFrom(one, two, unknown);

/** Which of the fields the upstream gets that hold a token in any form. */
function leaked(fields: Record<string, string>): string[] {
  const text = Object.entries(fields).map(([name, value]) => `${name}: ${value} ${atob((/^basic +(\S+)$/i.exec(value) ?? ['', ''])[1])}`);
  return text.filter((each) => /lk[0-9A-Za-z]{38}/.test(each) || /^(?:service-key|x-api-key|private.token):/i.test(each));
} // prettier-ignore

const sent = fc.tuple(
  way,
  secret,
  fc.option(fc.tuple(way, secret)),
  fc.constantFrom('/x', '/open'),
  fc.boolean(),
);

t.test(
  'a token counts alike in every field; two different ones are refused; the upstream sees none',
  async (t) => {
    const details = await fc.check(
      fc.asyncProperty(sent, async ([[field, value], first, second, path, asHandshake]) => {
        const headers: Headers = { [field]: value(first), Cookie: 'a=b' };
        if (second !== null && second[0][0].toLowerCase() !== field.toLowerCase())
          headers[second[0][0]] = second[0][1](second[1]);
        const isTwo = Object.keys(headers).length === 3 && second?.[1] !== first;
        const reply = asHandshake
          ? await handshake(path, { headers: { ...headers, ...HANDSHAKE } })
          : await request(path, { headers });
        t.equal(
          reply.status,
          isTwo ? 400 : path === '/x' && first === unknown ? 401 : 200,
          JSON.stringify(headers),
        );
        if (reply.status !== 200) return;
        const { fields = {} } = reply.forwarded ?? {};
        t.same(leaked(fields), []);
        t.equal(fields['x-auth-login'] === undefined, path === '/open', 'the identity');
        if ('Sec-WebSocket-Protocol' in headers) t.equal(fields['sec-websocket-protocol'], 'v1, v2');
      }),
      options(400),
    );
    t.notOk(details.failed, told(details));
  },
);

t.test('what is a credential, and what belongs to the upstream', async (t) => {
  const cookie = await login('superuser');
  const rows: [what: string, headers: Headers, status: number, passed?: Headers][] = [
    ['Basic of the upstream, with a key', { 'Service-Key': one, Authorization: basic('a', 'b') }, 200, { authorization: basic('a', 'b') }],
    ['Basic of the upstream alone', { Authorization: basic('a', 'b') }, 401],
    ['two different tokens in Basic', { Authorization: basic(one, two) }, 400],
    ['a token as user name, with a password', { Authorization: basic(one, 'secret') }, 401],
    ['no colon', { Authorization: `Basic ${btoa(one)}` }, 401],
    ['a legacy key in a key header', { 'X-API-Key': LEGACY_KEY }, 200],
    ['a legacy key as password', { Authorization: basic('a', LEGACY_KEY) }, 401],
    ['another spelling of a key header', { x_api_key: one }, 401],
    ['the same with a key', { x_api_key: one, 'Service-Key': one }, 200, { x_api_key: [] }],
    ['the same field twice', { 'X-API-Key': [one, one] }, 400],
    ['a session beside a token', { 'X-API-Key': unknown, Cookie: cookie }, 401],
    ['a subprotocol without a token beside a session', { 'Sec-WebSocket-Protocol': 'latchkey.bearer.x', Cookie: cookie }, 401],
    ['a legacy key in a subprotocol', { 'Sec-WebSocket-Protocol': `latchkey.bearer.${LEGACY_KEY}` }, 401],
    ['other case in a subprotocol', { 'Sec-WebSocket-Protocol': `Latchkey.Bearer.${one}, v1`, Cookie: cookie }, 200, { 'sec-websocket-protocol': 'v1' }],
    ['several lines of subprotocols', { 'Sec-WebSocket-Protocol': ['v1', `latchkey.bearer.${one}`] }, 200, { 'sec-websocket-protocol': 'v1' }],
  ];
  for (const [what, headers, status, passed = {}] of rows) {
    const reply = await request('/x', { headers });
    t.equal(reply.status, status, what);
    for (const [name, value] of Object.entries(passed))
      t.equal(reply.forwarded?.fields[name], Array.isArray(value) ? undefined : value, `${what}: ${name}`);
  }
}); // prettier-ignore

t.test('Basic of a browser is under the same-origin rules', async (t) => {
  const Authorization = basic('a', two);
  const write = async (headers: Headers) =>
    (await request('/x', { method: 'POST', headers: { Host: 'api.example', ...headers } })).status;
  t.equal(await write({ Authorization }), 200, 'a program');
  t.equal(await write({ Authorization, 'Sec-Fetch-Site': 'cross-site' }), 403);
  t.equal(await write({ Authorization, Origin: 'https://evil.example' }), 403);
  t.equal(await write({ Authorization, Origin: 'https://api.example' }), 200);
  t.equal(await write({ Authorization, 'X-API-Key': two, Origin: 'https://evil.example' }), 200, 'a key too');
  t.equal(await write({ Authorization: `Token ${two}`, Origin: 'https://evil.example' }), 200, 'no password');
});

t.test('challenges', async (t) => {
  const [BASIC, BEARER] = ['Basic realm="api"', 'Bearer realm="api"'];
  const OF_RESOURCE = `Bearer realm="api", resource_metadata="${METADATA}"`;
  const rows: [path: string, headers: Headers, wanted: string][] = [
    ['/x', {}, `${BASIC}, ${BEARER}`],
    ['/x', { Authorization: basic('a', unknown) }, `${BASIC}, ${BEARER}`],
    ['/x', { Authorization: `Bearer ${unknown}` }, `${BASIC}, ${BEARER}, error="invalid_token"`],
    ['/x', { 'Sec-Fetch-Mode': 'cors' }, BEARER],
    ['/x', { 'X-Requested-With': 'XMLHttpRequest' }, BEARER],
    ['/mcp', {}, `${OF_RESOURCE}, ${BASIC}`],
    ['/mcp/a?b', {}, `${OF_RESOURCE}, ${BASIC}`],
    ['/mcp', { Authorization: `Bearer ${unknown}` }, `${OF_RESOURCE}, error="invalid_token", ${BASIC}`],
    ['/mcpx', {}, `${BASIC}, ${BEARER}`],
  ];
  for (const [path, headers, wanted] of rows) {
    const reply = await request(path, { headers });
    t.equal(reply.status, 401);
    t.equal(reply.headers['www-authenticate'], wanted, path);
    t.equal(reply.text, '{"msg":"Provided credentials are missing or invalid"}\n');
    const asked = { ...headers, 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': path };
    const decided = await decide('/forward-auth', { headers: asked });
    t.equal(decided.headers['www-authenticate'], wanted, `${path} at /forward-auth`);
  }
  const settings: [object, string | undefined][] = [
    [{ basic: false, realm: 'Our (API)' }, 'Bearer realm="Our (API)"'],
    [{ bearer: false }, BASIC],
    [{ basic: false, bearer: false }, undefined],
  ];
  for (const [config, wanted] of settings) {
    const other = await startInProcess(t, { interface: config });
    t.equal((await other.request('/x')).headers['www-authenticate'], wanted, JSON.stringify(config));
    const secret = await other.token('engineer');
    const sent = await other.request('/x', { headers: { Authorization: basic('a', secret) } });
    t.equal(sent.status, 'basic' in config ? 401 : 200, 'Basic');
  }
});

t.test('the log says which Authorization was ignored', async (t) => {
  const rows: [value: string, detail: string | undefined][] = [
    ['Negotiate YII=', 'Authorization has the scheme Negotiate, which is not accepted'],
    ['Digest username="a"', 'Authorization has the scheme Digest, which is not accepted'],
    [basic('a', 'b'), 'Authorization has the scheme Basic without a token'],
    ['Bearer abc', 'Authorization has the scheme Bearer without a token'],
    ['secret-of-another-system', 'Authorization has no scheme'],
    [`Bearer ${unknown}`, undefined],
  ];
  for (const [Authorization, detail] of rows)
    t.equal((await request('/x', { headers: { Authorization } })).log.at(-1)?.['detail'], detail, Authorization.slice(0, 9));
  t.equal((await request('/x')).log.at(-1)?.['detail'], undefined, 'without one');
}); // prettier-ignore

t.test('protected resource metadata', async (t) => {
  for (const path of ['/.well-known/oauth-protected-resource', '/.well-known/oauth-protected-resource/mcp']) {
    const reply = await request(path, { headers: { Origin: 'https://inspector.example' } });
    t.same(reply.json, {
      resource: RESOURCE.resource,
      scopes_supported: ['orders:read'],
      bearer_methods_supported: ['header'],
    });
    t.match(reply.headers, {
      'access-control-allow-origin': '*',
      'cache-control': 'public, max-age=300',
      'content-type': 'application/json',
    });
    t.equal((await request(path, { method: 'HEAD' })).status, 200);
  }
  t.equal((await request('/.well-known/oauth-protected-resource/other')).status, 401, 'another resource');
});
