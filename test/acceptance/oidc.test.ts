import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { stringify } from 'yaml';
import { directory, startFixture } from '../helpers/fixture.js';
import { send, startUpstream } from '../helpers/http.js';
import { until } from '../helpers/until.js';
import { IdentityProvider } from '../helpers/identity-provider.js';
import { freePort } from '../helpers/free-port.mjs';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';

const idp = await IdentityProvider.start(t);
const providerOf = (name: string, issuer: string) => ({
  name,
  title: name,
  issuer,
  client_id: 'latchkey',
  client_secret: 'secret',
  customer_id: 'C1',
  roles: { claim: 'groups', map: { developers: 'engineer' } },
});
const away = `http://127.0.0.1:${await freePort()}`;
const refused = `${away}/.well-known/openid-configuration: connection refused (ECONNREFUSED)`;
const { url, server, configFile, upstream } = await startFixture(t, {
  workers: 2,
  login: { oidc: [providerOf('sso', idp.url), providerOf('gone', away)], public_url: 'https://api.example' },
});

/** A login with each request on its own connection, so that any worker may receive it. */
async function logIn(): Promise<string> {
  const begun = await send(url, '/_latchkey/oidc/sso/login');
  const [cookie = ''] = String(begun.headers['set-cookie']).split(';');
  const query = idp.authorize(String(begun.headers.location));
  const done = await send(url, `/_latchkey/oidc/sso/callback?${query}`, { headers: { Cookie: cookie } });
  const [, session = ''] = /service\.session=([^;]+)/.exec(String(done.headers['set-cookie'])) ?? [];
  return session;
}

const asks = (session: string) => send(url, '/x', { headers: { Cookie: `service.session=${session}` } });

t.test('workers share the login state, and a logout by the provider applies to all of them', async (t) => {
  const sessions = [await logIn(), await logIn(), await logIn()];
  for (const session of sessions) for (let i = 0; i < 4; i++) t.equal((await asks(session)).status, 200);
  const body = new URLSearchParams({ logout_token: await idp.logoutToken({ sub: 'ann' }) });
  t.equal((await send(url, '/_latchkey/oidc/sso/backchannel-logout', { body })).status, 200);
  for (const session of sessions) for (let i = 0; i < 4; i++) t.equal((await asks(session)).status, 401);
});

t.test('commands show users of providers and do not give them a password', async (t) => {
  await logIn();
  const name = 'ann@idp.example';
  const shown = await run(['user', 'show', name, '--config', configFile, '--json']);
  t.match(JSON.parse(shown.stdout), { login: name, has_password: false, provider: 'sso', subject: 'ann' });
  const sessions = await run(['session', 'list', '--config', configFile, '--json']);
  t.match(JSON.parse(sessions.stdout), [{ login: name, provider: 'sso' }]);
  t.match((await run(['session', 'list', '--config', configFile])).stdout, /PROVIDER[^]*ann@idp\.example  sso /);
  const file = `${configFile}.password.txt`;
  writeFileSync(file, 'a new password for another user');
  for (const command of [['set-password', name, '--password-file', file], ['enable-otp', name]])
    t.match(await run(['user', ...command, '--config', configFile]), { code: 1, stderr: /logs in at the identity provider sso/ });
  t.equal((await run(['user', 'lock', name, '--config', configFile])).code, 0);
  t.equal(await logIn(), '', 'locked by an operator');
  t.equal((await run(['user', 'unlock', name, '--config', configFile])).code, 0);
  t.not(await logIn(), '');
}); // prettier-ignore

t.test('passwords are offered once a user has had one', async (t) => {
  const { customers, users } = await directory();
  const own = writeConfig(temporaryFolder(t), { upstream: upstream.url, login: { oidc: [providerOf('sso', idp.url)], public_url: 'https://api.example' } }, { customers });
  const started = await start(t, own);
  const asks = async () => (await send(started.url, '/_latchkey/login-methods')).json.password;
  t.equal(await asks(), false);
  writeFileSync(own.replace('latchkey.yaml', 'directory.yaml'), stringify({ customers, users: users.slice(0, 1) }));
  t.equal((await send(started.admin, '/-/reload', { method: 'POST' })).status, 200);
  t.equal(await asks(), true);
}); // prettier-ignore

t.test('an unreachable provider causes a warning, and the server stays ready', async (t) => {
  await until(async () => (await send(server.admin, '/readyz')).json.warnings !== undefined, 'the warning');
  t.match(await send(server.admin, '/readyz'), {
    status: 200,
    json: { ready: true, warnings: { 'login.oidc.gone': `no usable response: ${refused}` } },
  });
  t.equal((await send(url, '/_latchkey/oidc/gone/login')).headers.location, '/_latchkey/?login_error=provider_unavailable');
  const body = new URLSearchParams({ logout_token: 'x' });
  t.equal((await send(url, '/_latchkey/oidc/sso/backchannel-logout', { body })).status, 400);
  const { text } = await send(server.admin, '/metrics');
  t.match(text, /^latchkey_oidc_logins_total\{provider="sso",outcome="succeeded"\} [1-9]/m);
  t.match(text, /^latchkey_oidc_logins_total\{provider="sso",outcome="locked"\} 1$/m);
  t.match(text, /^latchkey_oidc_logins_total\{provider="gone",outcome="provider_unavailable"\} 1$/m);
  t.match(text, /^latchkey_oidc_logouts_total\{provider="sso",outcome="refused"\} 1$/m);
  t.match(text, /^latchkey_oidc_discoveries_total\{provider="gone",outcome="failed"\} 1$/m);
  t.match((await send(server.admin, '/-/config')).json, { login: { oidc: [{ client_secret: '***' }] } });
}); // prettier-ignore

t.test('check --online probes what the configuration needs', async (t) => {
  const online = await run(['check', '--online', '--config', configFile]);
  t.equal(online.code, 1);
  for (const name of ['store', `upstreams.api ${upstream.url}`, 'login.oidc sso'])
    t.match(online.stdout, `${name}: ok\n`);
  t.equal(online.stderr, `${configFile}: login.oidc gone: ${refused}\n`);
  t.notMatch(online.stdout, /gone: ok/);
  const text = readFileSync(configFile, 'utf8');
  const other = await startUpstream(t);
  const right = `${configFile}.right.yaml`;
  writeFileSync(right, text.replaceAll(away, idp.url.replace('127.0.0.1', 'localhost')).replaceAll(upstream.url, other.url));
  idp.metadata = { issuer: idp.url };
  t.match(await run(['check', '--online', '--config', right]), { code: 1, stderr: /login\.oidc gone: .*issuer/ }, 'another issuer');
  other.server.close();
  other.server.closeAllConnections();
  t.match(await run(['check', '--online', '--config', right]), { stderr: /upstreams\.api .*ECONNREFUSED/ });
}); // prettier-ignore
