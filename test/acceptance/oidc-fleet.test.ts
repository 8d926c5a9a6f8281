import { createServer, request } from 'node:http';
import t from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import { directory } from '../helpers/fixture.js';
import { listenOnLoopback, type Reply, send } from '../helpers/http.js';
import { IdentityProvider } from '../helpers/identity-provider.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';

/*
 * Logins and logouts at a provider, with each step at the other one of two sidecars that share a
 * Redis.
 */

/** Far below the cache's ttl of 30 s, after which a session would end without the push. */
const PUSHED_MS = 5_000;
const RECHECK_MS = 1_000;

const idp = await IdentityProvider.start(t);
const redis = await startRedis(t);
const upstream = createServer((req, res) => {
  res.writeHead(200, { 'Content-Type': 'text/event-stream' });
  if (req.url !== '/events') res.end();
  else res.write('data: x\n\n');
});
const sockets = new WebSocketServer({ server: upstream });
t.teardown(() => {
  upstream.close();
  upstream.closeAllConnections();
  for (const socket of sockets.clients) socket.terminate();
});
const settings = {
  upstream: await listenOnLoopback(upstream),
  proxy: { stream_recheck: `${RECHECK_MS}ms` },
  store: { type: 'redis', url: redis.url, sealing_key: 'a1'.repeat(32) },
  login: {
    public_url: 'https://api.example',
    oidc: [{ name: 'sso', title: 'Log in', issuer: idp.url, client_id: 'latchkey', client_secret: 'secret', customer_id: 'C1', roles: { claim: 'groups', map: { developers: 'engineer' } } }],
  },
}; // prettier-ignore
const one = (await start(t, writeConfig(temporaryFolder(t), settings, await directory()))).url;
const two = (await start(t, writeConfig(temporaryFolder(t), settings))).url;

t.beforeEach(() => idp.tellTruth());

async function begin(url: string) {
  const { headers } = await send(url, '/_latchkey/oidc/sso/login');
  const [cookie = ''] = String(headers['set-cookie']).split(';');
  return { cookie, query: idp.authorize(String(headers.location)) };
}

const callback = (url: string, { cookie, query }: Awaited<ReturnType<typeof begin>>) =>
  send(url, `/_latchkey/oidc/sso/callback?${query}`, { headers: { Cookie: cookie } });
const sessionOf = ({ headers }: Reply) => /service\.session=[^;]+/.exec(String(headers['set-cookie']))?.[0];
const errorOf = ({ headers }: Reply) => /login_error=(\w+)/.exec(String(headers.location))?.[1];

/** A login that starts at one sidecar and ends at the other. */
async function logIn(from: string, to: string): Promise<string> {
  const session = sessionOf(await callback(to, await begin(from)));
  if (session === undefined) throw new Error('no session');
  return session;
}

const asks = async (url: string, Cookie: string) => (await send(url, '/x', { headers: { Cookie } })).status;

/** Milliseconds until a session is refused. */
async function untilRefused(url: string, session: string): Promise<number> {
  const since = performance.now();
  while ((await asks(url, session)) === 200);
  return performance.now() - since;
}

function logout(url: string, token: string): Promise<Reply> {
  const body = new URLSearchParams({ logout_token: token });
  return send(url, '/_latchkey/oidc/sso/backchannel-logout', { body });
}

/** Opens an event stream and a WebSocket; returns a function that counts how many have ended. */
async function openBoth(url: string, Cookie: string): Promise<() => number> {
  let over = 0;
  await new Promise<void>((resolve, reject) => {
    const asked = request(`${url}/events`, { headers: { Cookie }, agent: false }, (res) => {
      res.on('error', () => undefined).on('close', () => (over += 1));
      res.once('data', resolve).resume();
    });
    asked.on('error', reject).end();
  });
  const socket = new WebSocket(`${url.replace('http', 'ws')}/socket`, { headers: { Cookie } });
  socket.on('close', () => (over += 1));
  await new Promise((resolve, reject) => socket.on('open', resolve).on('error', reject));
  return () => over;
}

t.test('a login may start at one sidecar and return to another', async (t) => {
  const session = await logIn(one, two);
  for (const url of [one, two]) t.equal(await asks(url, session), 200);
  const begun = await begin(two);
  idp.reusesCodes = true;
  const replies = await Promise.all([one, two, one, two].map((url) => callback(url, begun)));
  t.equal(replies.filter((reply) => sessionOf(reply) !== undefined).length, 1, 'its state is valid once');
  t.same(replies.map(errorOf).filter(Boolean), ['not_begun', 'not_begun', 'not_begun']);
});

t.test('a logout at one sidecar ends the session and its streams at the other', async (t) => {
  const ends: [string, (session: string) => Promise<Reply>][] = [
    ['by the user', (session) => send(one, '/logout', { method: 'POST', headers: { Cookie: session } })],
    ['by the provider, for a session', async () => logout(one, await idp.logoutToken({ sid: 'sid-1' }))],
    ['by the provider, for a user', async () => logout(one, await idp.logoutToken({ sub: 'ann' }))],
  ];
  for (const [what, end] of ends) {
    const session = await logIn(two, one);
    const over = await openBoth(two, session);
    for (let i = 0; i < 3; i++) t.equal(await asks(two, session), 200, 'it is in the cache');
    t.equal(over(), 0);
    const { status } = await end(session);
    t.ok(status === 200 || status === 204, what);
    const ms = await untilRefused(two, session);
    t.ok(ms < PUSHED_MS, `${what}: ${ms.toFixed(1)} ms`);
    const since = performance.now();
    await until(() => over() === 2, 'its streams end');
    const lasted = performance.now() - since;
    t.ok(lasted < RECHECK_MS + PUSHED_MS, `${what}: streams lasted ${lasted.toFixed(0)} ms`);
    t.equal(await asks(one, session), 401);
  }
});

t.test('a logout at one sidecar ends a pending login at the other, and counts once', async (t) => {
  const begun = await begin(one);
  const token = await idp.logoutToken({ sub: 'ann' });
  t.equal((await logout(two, token)).status, 200);
  t.equal(errorOf(await callback(one, begun)), 'logged_out');
  const session = await logIn(one, two);
  t.equal((await logout(one, token)).status, 400, 'replayed at the other sidecar');
  t.equal(await asks(two, session), 200);
});
