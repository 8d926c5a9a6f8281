import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import t from 'tap';
import { WebSocket } from 'ws';
import { parse } from 'yaml';
import { createServer } from 'node:http';
import { client, directory } from '../helpers/fixture.js';
import { listenOnLoopback, send } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { rememberSecret } from '../helpers/secrets.js';

/**
 * Latchkey in front of each example of `latchkey/verify`, each with the real server of its
 * framework.
 */
const EXAMPLE = 'examples/verify-assertion';
const FRAMEWORKS = ['node-http', 'express', 'fastify', 'hono'];
const { assertion } = parse(readFileSync(join(EXAMPLE, 'latchkey.yaml'), 'utf8')).identity as {
  assertion: { issuer: string; audience: string };
};

/** The test's own key, published together with Latchkey's, to sign what Latchkey would not. */
const own = await generateKeyPair('EdDSA');
const latchkey = { url: '' };
const relay = createServer((_req, res) => {
  void send(latchkey.url, '/.well-known/jwks.json').then(async ({ json }) => {
    const key = { ...(await exportJWK(own.publicKey)), kid: 'own', alg: 'EdDSA' };
    res.end(JSON.stringify({ keys: [...json.keys, key] }));
  });
});
const jwks = await listenOnLoopback(relay);
t.teardown(() => {
  relay.close();
  relay.closeAllConnections();
});

function startExample(name: string): Promise<string> {
  const env = { ...process.env, PORT: '0', JWKS_URL: jwks, ISSUER: assertion.issuer, AUDIENCE: assertion.audience };
  const program = join(EXAMPLE, 'latchkey-verify', `${name}.mjs`);
  const child = spawn(process.execPath, [program], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => void child.kill());
  return new Promise((found, failed) => {
    child.stdout.on('data', (chunk: Buffer) => {
      const [url] = /http:\S+/.exec(chunk.toString()) ?? [];
      if (url !== undefined) found(url);
    });
    child.once('close', () => failed(new Error(`the example ${name} ended`)));
  });
} // prettier-ignore

const urls = await Promise.all(FRAMEWORKS.map(startExample));
const { url } = await start(
  t,
  writeConfig(
    temporaryFolder(t),
    {
      upstreams: Object.fromEntries(FRAMEWORKS.map((name, i) => [name, { url: urls[i] }])),
      default_route: { upstream: 'node-http' },
      routes: FRAMEWORKS.map((name) => ({ path: `/${name}/*`, upstream: name, action: 'api', strip_prefix: `/${name}` })),
      identity: { assertion },
    },
    await directory(),
  ),
); // prettier-ignore
latchkey.url = url;
const key = await client(url).token('engineer', { services: 'SVC1' });

const digest = (target: string) => createHash('sha256').update(target).digest('base64url');
const now = () => Math.floor(Date.now() / 1000);
const sign = (target: string, more: object = {}) =>
  new SignJWT({
    iss: assertion.issuer, aud: assertion.audience, sub: 'U1', customer_id: 'C1', login: 'ada ö', role: 'user', scope: 'global', credential: 'session',
    iat: now(), exp: now() + 60, htm: 'GET', htu: digest(target), rid: 'r1', ...more,
  }).setProtectedHeader({ alg: 'EdDSA', kid: 'own', typ: 'JWT' }).sign(own.privateKey); // prettier-ignore

/** Identity headers that Latchkey would have removed, in spellings that some reader folds. */
const FORGED = {
  'X-Auth-Role': 'superuser',
  'x-auth-user-id': 'root',
  X_Auth_Role: 'superuser',
  'X.Auth.Login': 'root',
  'X~Auth-Token-Id': 'T1',
  'X-Auth-Services': 'SVC9',
};

for (const [i, name] of FRAMEWORKS.entries()) {
  const upstream = urls[i] ?? '';
  t.test(name, async (t) => {
    for (const target of ['/api/x', '/api/a%20b/%7Ec?q=%2F&q=1&', '/api/x?']) {
      for (const method of ['GET', 'POST', 'DELETE']) {
        const reply = await send(url, `/${name}${target}`, { method, headers: { 'Service-Key': key, 'X-Auth-Assertion': 'forged', ...FORGED } });
        t.match(reply, { status: 200, json: { login: 'engineer@example.com', role: 'engineer', headers: { 'x-auth-role': 'engineer', 'x-auth-services': 'SVC1' } } }, `${method} ${target}`);
        rememberSecret(String(reply.json.headers['x-auth-assertion']));
      }
    }
    const leaked = String((await send(url, `/${name}/api/x`, { headers: { 'Service-Key': key } })).json.headers['x-auth-assertion']);
    const ask = (target: string, headers: object, method = 'GET') => send(upstream, target, { method, headers: headers as Record<string, string> });
    const rows: [string, string, object, string, string?][] = [
      ['bypassing Latchkey', '/api/x', FORGED, 'assertion_missing'],
      ['bypassing it, to no route', '/nowhere', FORGED, 'assertion_missing'],
      ['replayed', '/api/x', { 'X-Auth-Assertion': leaked }, 'assertion_request_id'],
      ['replayed for another target', '/api/y', { 'X-Auth-Assertion': leaked }, 'assertion_target'],
      ['replayed for another query', '/api/x?y', { 'X-Auth-Assertion': leaked }, 'assertion_target'],
      ['replayed for another method', '/api/x', { 'X-Auth-Assertion': leaked }, 'assertion_method', 'DELETE'],
      ['twice', '/api/x', { 'X-Auth-Assertion': [leaked, leaked] }, 'assertion_repeated'],
      ['unbound', '/api/x', { 'X-Auth-Assertion': await sign('', { htm: undefined, htu: undefined, rid: undefined }) }, 'assertion_unbound'],
      ['a development assertion', '/api/x', { 'X-Auth-Assertion': await sign('/api/x', { dev: true }), 'X-Request-Id': 'r1' }, 'assertion_dev'],
    ];
    for (const [what, target, headers, code, method] of rows) {
      const reply = await ask(target, headers, method);
      t.match(reply, { status: 401, headers: { 'content-type': 'application/json', 'cache-control': 'no-store' }, json: { code, detail: String } }, what);
      t.notMatch(reply.text, leaked.slice(0, 20), `${what}: not repeated in the response`);
    }
    const inside = await ask('/api/x', { ...FORGED, 'X-Auth-Assertion': await sign('/api/x'), 'X-Request-Id': 'r1', 'X-Other': 'kept' });
    t.match(inside, { status: 200, json: { login: 'ada ö', role: 'user' } }, 'forged headers with a valid assertion');
    const { headers, rawHeaders } = inside.json as { headers: Record<string, string>; rawHeaders: string[] };
    const folded = (each: string) => each.toLowerCase().replaceAll(/[^a-z0-9]/g, '-');
    const identity = (pairs: [string, string][]) => pairs.filter(([each]) => /^x-auth-(?!assertion)/.test(folded(each))).toSorted(([a], [b]) => (a < b ? -1 : 1));
    const expected = [['x-auth-credential', 'session'], ['x-auth-customer-id', 'C1'], ['x-auth-login', 'ada%20%C3%B6'], ['x-auth-role', 'user'], ['x-auth-scope', 'global'], ['x-auth-user-id', 'U1']];
    t.same(identity(Object.entries(headers)), expected);
    const raw = rawHeaders.flatMap((each, n): [string, string][] => (n % 2 === 0 ? [[each.toLowerCase(), rawHeaders[n + 1] ?? '']] : []));
    t.same(identity(raw), expected, 'in the raw headers too');
    t.equal(headers['x-other'], 'kept');
  }); // prettier-ignore
}

t.test('a target in absolute form is a different target', async (t) => {
  const { host, port } = new URL(urls[0] ?? '');
  const socket = connect(Number(port), '127.0.0.1');
  socket.write(
    `GET http://${host}/api/x HTTP/1.1\r\nHost: ${host}\r\nX-Request-Id: r1\r\nX-Auth-Assertion: ${await sign('/api/x')}\r\nConnection: close\r\n\r\n`,
  );
  let text = '';
  for await (const chunk of socket) text += String(chunk);
  t.match(text, /^HTTP\/1\.1 401 [^]*assertion_target/);
});

t.test('a WebSocket handshake', async (t) => {
  const greeting = (base: string, headers: Record<string, string>) =>
    new Promise((resolve) => {
      const socket = new WebSocket(`${base.replace('http', 'ws')}/api/socket`, { headers });
      socket.on('error', ({ message }) => resolve(message));
      socket.on('message', (data: Buffer) => {
        resolve(data.toString());
        socket.close();
      });
    });
  const refused = 'Unexpected server response: 401';
  t.equal(await greeting(urls[0] ?? '', { 'X-Auth-Assertion': 'forged' }), refused);
  t.equal(await greeting(urls[0] ?? '', { 'X-Auth-Assertion': await sign('/api/x'), 'X-Request-Id': 'r1' }), refused);
  t.equal(await greeting(urls[0] ?? '', { 'Service-Key': key, ...FORGED }), refused);
  t.equal(await greeting(`${url}/node-http`, { 'Service-Key': key, ...FORGED }), 'hello engineer@example.com');
}); // prettier-ignore
