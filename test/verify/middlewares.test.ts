import { createHash } from 'node:crypto';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import t from 'tap';
import {
  expressMiddleware,
  fastifyPlugin,
  honoMiddleware,
  identityOf,
  nodeMiddleware,
  type VerifyOptions,
} from '../../src/verify/index.js';
import { send, serveHttp } from '../helpers/http.js';

const { privateKey, publicKey } = await generateKeyPair('EdDSA');
const OPTIONS: VerifyOptions = {
  jwks: { keys: [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'EdDSA' }] },
  issuer: 'https://auth.example.com',
  audience: 'api',
  bound: 'required',
};

const digest = (target: string) => createHash('sha256').update(target).digest('base64url');
const sign = (target: string, more: object = {}) => {
  const now = Math.floor(Date.now() / 1000);
  return new SignJWT({
    iss: OPTIONS.issuer, aud: OPTIONS.audience, sub: 'U1', customer_id: 'C1', login: 'ada', role: 'user', scope: 'global', credential: 'token', token_id: 'T1',
    iat: now, exp: now + 10, htm: 'GET', htu: digest(target), rid: 'r1', ...more,
  }).setProtectedHeader({ alg: 'EdDSA', kid: 'k', typ: 'JWT' }).sign(privateKey); // prettier-ignore
};

/** A request as seen by an application behind one of the middlewares. */
interface Seen {
  readonly status: number;
  readonly code?: string;
  readonly login?: string;
  /** Its identity headers as normalized name and value. */
  readonly identity: readonly string[];
}
type Ask = (target: string, headers: Record<string, string>, method?: string) => Promise<Seen>;

const folded = (name: string) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '-');
const identityIn = (pairs: Iterable<readonly [string, unknown]>) =>
  [...pairs].filter(([name]) => /^x-auth-(?!assertion)/.test(folded(name))).map(([name, value]) => `${folded(name)}: ${String(value)}`).toSorted(); // prettier-ignore
const shown = (request: object, headers: Iterable<readonly [string, unknown]>) => ({
  login: identityOf(request).login,
  identity: identityIn(headers),
});
const seenIn = (status: number, json: Partial<Seen>): Seen => ({ identity: [], ...json, status });

/** Each middleware in its framework's server; Hono also as on platforms without Node's server. */
async function upstreams(t: Tap, options: VerifyOptions = OPTIONS): Promise<Record<string, Ask>> {
  const node = nodeMiddleware(options);
  const plain = await serveHttp(t, (req, res) => {
    void node(req, res, () => res.end(JSON.stringify(shown(req, Object.entries(req.headers)))));
  });
  const app = express();
  const router = express.Router();
  router.use(expressMiddleware(options) as never, (req, res) => void res.json(shown(req, Object.entries(req.headers))));
  app.use(router);
  const ofExpress = await serveHttp(t, app);
  const ofFastify = fastify();
  await ofFastify.register(fastifyPlugin as never, options);
  ofFastify.all('/*', async (request) => shown(request, Object.entries(request.headers)));
  const hono = new Hono();
  hono.use(honoMiddleware(options) as never);
  hono.all('/*', (c) => c.json(shown(c, c.req.raw.headers)));
  const over =
    (url: string): Ask =>
    async (target, headers, method = 'GET') => {
      const { status, json } = await send(url, target, { method, headers });
      return seenIn(status, json);
    };
  return {
    node: over(plain.url),
    Express: over(ofExpress.url),
    Fastify: async (target, headers, method = 'GET') => {
      const reply = await ofFastify.inject({ url: target, headers, method: method as 'GET' });
      return seenIn(reply.statusCode, reply.json());
    },
    'Hono on the Fetch standard': async (target, headers, method = 'GET') => {
      const reply = await hono.request(target, { headers, method });
      return seenIn(reply.status, (await reply.json()) as Partial<Seen>);
    },
  };
} // prettier-ignore
type Tap = Parameters<typeof serveHttp>[0];

const VERIFIED = ['credential: token', 'customer-id: C1', 'login: ada', 'role: user', 'scope: global', 'token-id: T1', 'user-id: U1'].map((each) => `x-auth-${each}`); // prettier-ignore

t.test('a bound assertion is accepted only for its own request', async (t) => {
  const target = '/x?a=1';
  const assertion = await sign(target);
  const over = await sign(target, { iat: Math.floor(Date.now() / 1000) - 30, exp: Math.floor(Date.now() / 1000) - 20 });
  const id = { 'X-Auth-Assertion': assertion, 'X-Request-Id': 'r1' };
  for (const [name, ask] of Object.entries(await upstreams(t))) {
    t.match(await ask(target, id), { status: 200, login: 'ada', identity: VERIFIED }, name);
    t.match(await ask('/y?a=1', id), { status: 401, code: 'assertion_target' }, `${name}: another path`);
    t.match(await ask('/x?a=2', id), { status: 401, code: 'assertion_target' }, `${name}: another query`);
    t.match(await ask('/x', id), { status: 401, code: 'assertion_target' }, `${name}: no query`);
    t.match(await ask(target, id, 'POST'), { status: 401, code: 'assertion_method' }, `${name}: another method`);
    t.match(await ask(target, { ...id, 'X-Request-Id': 'r2' }), { status: 401, code: 'assertion_request_id' }, `${name}: another request id`);
    t.match(await ask(target, { 'X-Auth-Assertion': assertion }), { status: 401, code: 'assertion_request_id' }, `${name}: no request id`);
    t.match(await ask(target, { ...id, 'X-Auth-Assertion': over }), { status: 401, code: 'assertion_expired' }, `${name}: after its expiry`);
    t.match(await ask(target, id), { status: 200 }, `${name}: the same request again, which docs/identity.md says is not detected`);
  }
}); // prettier-ignore

t.test('ignores plain headers beside a valid assertion, in every spelling', async (t) => {
  const names = ['X-Auth-Role', 'X-Auth-User-Id', 'X-Auth-Services', 'X-Auth-Login'];
  const spelled = (by: string) => names.map((name) => name.replaceAll('-', by));
  const spellings = [names, ...['_', '.', '~', '!', "'"].map(spelled), names.map((name) => name.toUpperCase()), names.map((name) => name.replace('-', '_'))];
  for (const [name, ask] of Object.entries(await upstreams(t))) {
    for (const spelling of spellings) {
      const forged = Object.fromEntries(spelling.map((each) => [each, 'superuser']));
      const seen = await ask('/x', { ...forged, 'X-Auth-Assertion': await sign('/x'), 'X-Request-Id': 'r1' });
      t.same(seen, { status: 200, login: 'ada', identity: VERIFIED }, `${name}: ${spelling[0]}`);
    }
    // More than the assertion has: code that reads headers late must not count the removed ones.
    const all = Object.fromEntries(spellings.flat().map((each) => [each, 'superuser']));
    const seen = await ask('/x', { ...all, 'X-Auth-Assertion': await sign('/x'), 'X-Request-Id': 'r1' });
    t.same(seen, { status: 200, login: 'ada', identity: VERIFIED }, `${name}: all of them`);
    const alone = await ask('/x', { 'X-Auth-Role': 'superuser' });
    t.match(alone, { status: 401, code: 'assertion_missing' }, `${name}: without an assertion`);
  }
}); // prettier-ignore

t.test('refuses an assertion for tests unless allowDev is exactly true', async (t) => {
  const headers = { 'X-Auth-Assertion': await sign('/x', { dev: true }), 'X-Request-Id': 'r1' };
  for (const allowDev of [undefined, false, 'true', 1, {}]) {
    const options = { ...OPTIONS, ...(allowDev === undefined ? {} : { allowDev }) } as VerifyOptions;
    for (const [name, ask] of Object.entries(await upstreams(t, options)))
      t.match(await ask('/x', headers), { status: 401, code: 'assertion_dev' }, `${name}: ${JSON.stringify(allowDev)}`);
  }
  for (const [name, ask] of Object.entries(await upstreams(t, { ...OPTIONS, allowDev: true })))
    t.match(await ask('/x', headers), { status: 200 }, name);
}); // prettier-ignore

t.test('on the Fetch standard, refuses a target that the platform rewrites', async (t) => {
  const { 'Hono on the Fetch standard': hono, node } = await upstreams(t);
  const ask = async (each: Ask | undefined, target: string, of = target) =>
    each?.(target, { 'X-Auth-Assertion': await sign(of), 'X-Request-Id': 'r1' });
  for (const target of ['/x', '/x?', '/a%20b/%C3%A9/~x?q=%2F&q=%2f&&=', '/x?q=%27', '/x?q={}|^`', "/it's"])
    t.match(await ask(hono, target), { status: 200 }, target);
  for (const target of ["/x?q='", '/x?q="', '/a{b}', '/x?<>']) {
    t.match(await ask(hono, target), { status: 401, code: 'assertion_target' }, target);
    t.match(await ask(node, target), { status: 200 }, `node: ${target}`);
  }
  // The application sees the verified target, whatever bytes the platform derived it from.
  t.match(await ask(hono, '/a/../b', '/b'), { status: 200 });
  t.match(await ask(hono, '/a/../b', '/a/../b'), { status: 401, code: 'assertion_target' });
}); // prettier-ignore
