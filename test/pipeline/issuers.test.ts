import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SignJWT } from 'jose';
import t from 'tap';
import { checkBytes } from '../helpers/grpc.js';
import { type Handled, startInProcess } from '../helpers/in-process.js';
import { newPair } from '../helpers/key-server.js';
import { temporaryFolder } from '../helpers/latchkey.js';

/* JWTs of issuers in every place where a request may have them, and their claims for the upstream. */

const pair = await newPair('one');
const keys = join(temporaryFolder(t), 'keys.json');
writeFileSync(keys, JSON.stringify({ keys: [pair.jwk] }));

const issuer = (name: string, more: object = {}) => ({
  name,
  issuer: `https://${name}.example`,
  audience: 'api',
  jwks: { file: keys },
  subjects: [{ claims: { sub: '*' }, customer_id: 'C1', role: 'engineer' }],
  ...more,
});
const server = await startInProcess(t, {
  interface: { key_headers: ['X-API-Key'], protected_resource: { resource: 'https://api.example/mcp' } },
  jwt_issuers: [
    issuer('plain', { audience: ['api', 'other'] }),
    issuer('edge', { header: 'Cf-Access-Jwt-Assertion' }),
    issuer('cookie', { cookie: 'CF_Authorization' }),
    issuer('cognito', { audience_claim: 'client_id' }),
  ],
  identity: { claims: { 'X-Auth-Groups': 'groups', 'X-Auth-Tenant': '/org/id', 'X-Auth-Age': 'age' } },
});
const { request } = server;

const jwt = (name: string, claims: Record<string, unknown> = {}): Promise<string> =>
  new SignJWT({ sub: 'svc', aud: 'api', ...claims })
    .setProtectedHeader({ alg: 'ES256', kid: 'one' })
    .setIssuer(`https://${name}.example`)
    .setExpirationTime('1m')
    .sign(pair.privateKey);
const bearer = async (name: string, claims?: Record<string, unknown>) => ({
  Authorization: `Bearer ${await jwt(name, claims)}`,
});
const EDGE = 'Cf-Access-Jwt-Assertion';

t.test('a JWT is a credential in the place of its issuer, and nowhere else', async (t) => {
  const token = await server.token('engineer');
  const basic = (password: string) => ({ Authorization: `Basic ${btoa(`a:${password}`)}` });
  const edge = { [EDGE]: await jwt('edge') };
  const cookie = { Cookie: `a=b; CF_Authorization=${await jwt('cookie')}; c=d` };
  const session = await server.login('engineer');
  const foreign = { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example' };
  const rows: [what: string, headers: Record<string, string | string[]>, status: number, login?: string][] = [
    ['in Authorization', await bearer('plain'), 200, 'plain/svc'],
    ['for the second audience', await bearer('plain', { aud: ['x', 'other'] }), 200, 'plain/svc'],
    ['for another audience', await bearer('plain', { aud: 'else' }), 401],
    ['for a client, without an audience', await bearer('cognito', { aud: undefined, client_id: 'api' }), 200, 'cognito/svc'],
    ['for another client', await bearer('cognito', { client_id: 'other' }), 401],
    ['in its header', edge, 200, 'edge/svc'],
    ['in its header, with a scheme', { [EDGE]: `Bearer ${edge[EDGE]}` }, 200, 'edge/svc'],
    ['in its cookie', cookie, 200, 'cookie/svc'],
    ['of the header, in Authorization', await bearer('edge'), 401],
    ['of the header, in the cookie', { Cookie: `CF_Authorization=${edge[EDGE]}` }, 401],
    ['of the cookie, in the header', { [EDGE]: await jwt('cookie') }, 401],
    ['of Authorization, in the header', { [EDGE]: await jwt('plain') }, 401],
    ['its header twice', { [EDGE]: [edge[EDGE] ?? '', edge[EDGE] ?? ''] }, 400],
    ['its header and its cookie', { ...edge, ...cookie }, 400],
    ['not a JWT', { [EDGE]: 'x' }, 401],
    ['its header beside a token', { ...edge, 'Service-Key': token }, 200, 'engineer@example.com'],
    ['its header beside a key header', { ...edge, 'X-API-Key': token }, 200, 'engineer@example.com'],
    ['its header beside a token in Basic', { ...edge, ...basic(token) }, 200, 'engineer@example.com'],
    ['its header beside a subprotocol', { ...edge, 'Sec-WebSocket-Protocol': `latchkey.bearer.${token}` }, 200, 'engineer@example.com'],
    ['its cookie beside Basic of the upstream', { ...cookie, ...basic('b') }, 200, 'cookie/svc'],
    ['its header beside Authorization', { ...edge, ...(await bearer('plain')) }, 200, 'plain/svc'],
    ['its header beside a session', { ...edge, Cookie: session }, 200, 'engineer@example.com'],
    ['its header, sent by a page elsewhere', { ...edge, ...foreign }, 403],
    ['its cookie, sent by a page elsewhere', { ...cookie, ...foreign }, 403],
    ['Authorization, sent by a page elsewhere', { ...(await bearer('plain')), ...foreign }, 200, 'plain/svc'],
  ];
  for (const [what, headers, status, login] of rows) {
    const { status: got, forwarded } = await request('/x', { method: 'POST', headers });
    t.equal(got, status, what);
    if (status !== 200) continue;
    t.equal(forwarded?.fields['x-auth-login'], login, what);
    t.notMatch(JSON.stringify(forwarded?.fields), /eyJ/, `${what}: the upstream gets no JWT`);
  }
  const { forwarded } = await request('/x', { headers: { ...cookie, 'cf_access-JWT.assertion': 'forged' } });
  t.equal(forwarded?.fields['cookie'], 'a=b; c=d', 'other cookies stay');
  t.notMatch(Object.keys(forwarded?.fields ?? {}).join(' '), /assertion/, 'nor any spelling of the header');
  t.equal((await request('/_latchkey/session', { headers: { ...edge, Cookie: session } })).status, 200, 'the page works');
}); // prettier-ignore

t.test('the metadata of the resource names the issuers of Authorization only', async (t) => {
  const { text } = await request('/.well-known/oauth-protected-resource/mcp', {});
  t.same(JSON.parse(text).authorization_servers, ['https://plain.example', 'https://cognito.example']);
});

const CLAIMS = { groups: ['a', 'b,c', 'ü', '50%'], org: { id: 7 }, age: { years: 1 } };
const SEEN = { 'x-auth-groups': 'a,b%2Cc,%C3%BC,50%25', 'x-auth-tenant': '7', 'x-auth-age': undefined };
const FORGED = ['X-Auth-Groups', 'x_auth_groups', 'X-AUTH.GROUPS', 'X-Auth-Age'];

t.test('claims reach the upstream at every entrance, and nobody can forge their headers', async (t) => {
  const sent = await bearer('plain', CLAIMS);
  const token = { 'Service-Key': await server.token('engineer') };
  const forwarding: Record<string, (headers: Record<string, string>) => Promise<Handled>> = {
    'HTTP/1.1': (headers) => request('/x', { headers }),
    'HTTP/2': (headers) => server.requestByHttp2('/x', { headers }),
    WebSocket: (headers) =>
      server.handshake('/x', {
        headers: { ...headers, Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==' },
      }),
  };
  for (const [entrance, ask] of Object.entries(forwarding)) {
    t.match((await ask(sent)).forwarded?.fields, SEEN, entrance);
    for (const name of FORGED) {
      const fields = (await ask({ ...token, [name]: 'admins' })).forwarded?.fields;
      t.ok(fields);
      t.notMatch(JSON.stringify(fields), /admins/, `${entrance}: ${name}`);
    }
  }
  const original = { 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': '/x' };
  const deciding: Record<string, (headers: Record<string, string>) => Promise<{ status: number; headers: object; removed?: readonly string[] }>> = {
    'forward-auth': (headers) => server.decide('/forward-auth', { headers: { ...original, ...headers } }),
    ext_authz: async (headers) => {
      const reply = await server.decide('/ext_authz/x', { headers });
      return { ...reply, removed: String(reply.headers['x-envoy-auth-headers-to-remove']).split(',') };
    },
    gRPC: (headers) => server.decideByGrpc(checkBytes({ method: 'GET', target: '/x', headers })),
  };
  for (const [entrance, ask] of Object.entries(deciding)) {
    t.match((await ask(sent)).headers, SEEN, entrance);
    for (const name of FORGED) {
      const { status, headers, removed } = await ask({ ...token, [name]: 'admins' });
      t.equal(status, name.includes('_') || name.includes('.') ? 403 : 200, `${entrance}: ${name}`);
      t.notMatch(JSON.stringify(headers), /admins/);
      if (status === 200 && removed !== undefined) t.ok(removed.includes(name.toLowerCase()), `${entrance} removes ${name}`);
    }
  }
}); // prettier-ignore

t.test('a claim that is too long is left out, not cut', async (t) => {
  const fields = async (claims: Record<string, unknown>) =>
    (await request('/x', { headers: await bearer('plain', claims) })).forwarded?.fields;
  t.equal((await fields({ groups: ['x'.repeat(3_000)] }))?.['x-auth-groups']?.length, 3_000);
  const long = await fields({ groups: ['ü'.repeat(1_400)], org: { id: 'T1' } });
  t.match(long, { 'x-auth-groups': undefined, 'x-auth-tenant': 'T1' }, 'it would have 8,400 characters');
});
