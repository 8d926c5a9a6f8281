import { AUTHORIZATION } from '../http/authorization.js';
import { LOGIN_STATE_COOKIE, maySetCookie } from '../http/cookies.js';
import { settingsOf, vendorNames } from './derived.js';
import { isTaken } from './header-checks.js';
import { type Add, suggestion } from './fault.js';
import type { Config } from './schema/config.js';
import { isKeySetUrl } from './schema/units.js';
import { clientKeyAlgorithm } from '../accounts/oidc/settings.js';
import { checkTlsFiles, parseFile, privateKeyIn } from './certificate.js';

export function checkOidc(config: Config, add: Add): void {
  checkLoginPage(config, add);
  const { oidc: providers, public_url: publicUrl } = config.login;
  if (providers.length === 0) return;
  if (publicUrl === null)
    add(['login', 'public_url'], 'is required with login.oidc; write the origin that browsers see');
  if (!config.interface.ui.enabled)
    add(['interface', 'ui', 'enabled'], 'login.oidc requires the web page; set interface.ui.enabled: true');
  const { host } = config.interface.ui;
  if (publicUrl !== null && host !== null && new URL(publicUrl).host !== host.toLowerCase())
    add(['login', 'public_url'], `is not on interface.ui.host, where the web page is; write https://${host}`);
  const { session_cookie: cookie } = config.interface;
  if (cookie !== null && isLoginState(cookie))
    add(['interface', 'session_cookie'], 'login.oidc uses cookies of such names; choose another one');
  const { store } = config;
  if (store.type !== 'lmdb' && store.sealing_key === null)
    add(['store', 'sealing_key'], 'is required with login.oidc; make one with "openssl rand -hex 32"');
  checkEach(config, add);
} // prettier-ignore

/** Whether a cookie has the name of a login state, as browsers or old programs may read it. */
function isLoginState(cookie: string): boolean {
  return maySetCookie(`${cookie}=`, [LOGIN_STATE_COOKIE]);
}

/** Browsers can be sent to a login page only if its session is valid where they come from. */
function checkLoginPage(config: Config, add: Add): void {
  const { ui } = config.interface;
  const names = config.login.oidc.map(({ name }) => name);
  const reason = ui.enabled ? 'sessions on interface.ui.host are separate' : 'the web page is off';
  for (const [on, at] of settingsOf(config, 'on_unauthenticated')) {
    if (typeof on === 'object' && !names.includes(on.login))
      add([...at, 'login'], `no such provider in login.oidc${suggestion(on.login, names)}`);
    if (on !== undefined && on !== 'json' && !(ui.enabled && ui.host === null))
      add(at, `browsers cannot be redirected to the login: ${reason}`);
  }
}

function checkDistinct(what: string, list: readonly { name: string; issuer: string }[], at: Add): void {
  for (const key of ['name', 'issuer'] as const)
    list.forEach((each, i) => {
      if (list.findIndex((other) => other[key] === each[key]) < i)
        at([i, key], `another ${what} has the same value; remove one of them`);
    });
}

function checkKnown(
  kind: 'role' | 'scope',
  name: string,
  { policy }: Config,
  report: (message: string) => void,
): void {
  const names = Object.keys(policy[`${kind}s`]);
  if (!names.includes(name)) report(`no such ${kind} in policy.${kind}s${suggestion(name, names)}`);
}

function checkEach(config: Config, add: Add): void {
  const { oidc: providers } = config.login;
  checkDistinct('provider', providers, (path, message) => add(['login', 'oidc', ...path], message));
  providers.forEach((provider, i) => {
    const fault: Add = (path, message) => add(['login', 'oidc', i, ...path], message);
    const { map, default: byDefault } = provider.roles;
    if (provider.discovery === null && !isKeySetUrl(new URL(provider.issuer)))
      fault(['issuer'], 'expected an https:// URL; http:// only for a loopback address');
    checkClientAuthentication(provider, fault);
    checkTlsFiles(provider.tls, (key, message) => fault(['tls', key], message));
    if (!provider.scopes.includes('openid')) fault(['scopes'], 'openid is missing');
    if (byDefault === null && Object.keys(map).length === 0)
      fault(['roles'], 'no login would get a role; set map or default');
    for (const [value, role] of Object.entries(map))
      checkKnown('role', role, config, (message) => fault(['roles', 'map', value], message));
    if (byDefault !== null)
      checkKnown('role', byDefault, config, (message) => fault(['roles', 'default'], message));
  });
}

type Provider = Config['login']['oidc'][number];

function checkClientAuthentication(
  { client_auth: method, client_secret: secret, client_key: file }: Provider,
  fault: Add,
): void {
  if (method === 'private_key_jwt') {
    if (file === null)
      fault(['client_auth'], 'private_key_jwt needs client_key, the file with the private key');
    if (secret !== null) fault(['client_secret'], 'has no effect with private_key_jwt; remove it');
  } else {
    if (file !== null) fault(['client_key'], 'has no effect without client_auth: private_key_jwt');
    if (method !== null && secret === null) fault(['client_auth'], `${method} needs client_secret`);
  }
  const key = parseFile('client_key', file, privateKeyIn, (name, message) => fault([name], message));
  if (key !== undefined && clientKeyAlgorithm(key.parsed) === undefined)
    fault(['client_key'], 'expected an RSA, P-256, P-384, P-521 or Ed25519 key');
}

export function checkJwtIssuers(config: Config, add: Add): void {
  const { jwt_issuers: issuers } = config;
  checkDistinct('issuer', issuers, (path, message) => add(['jwt_issuers', ...path], message));
  issuers.forEach(({ issuer, discovery, tls, jwks, subjects }, i) => {
    const fault: Add = (path, message) => add(['jwt_issuers', i, ...path], message);
    checkPlace(issuers[i] as Issuer, config, fault);
    if (discovery !== null && jwks !== null)
      fault(['discovery'], 'has no effect with jwks; remove one of them');
    checkTlsFiles(tls, (key, message) => fault(['tls', key], message));
    if (jwks === null && discovery === null && !isKeySetUrl(new URL(issuer)))
      fault(['issuer'], 'discovery needs an https:// URL; set jwks to the URL or file of the keys');
    if (jwks !== null && 'file' in jwks)
      parseFile('file', jwks.file, String, (name, message) => fault(['jwks', name], message));
    subjects.forEach(({ role, scope }, j) => {
      checkKnown('role', role, config, (message) => fault(['subjects', j, 'role'], message));
      scope.forEach((each, k) =>
        checkKnown('scope', each, config, (message) => fault(['subjects', j, 'scope', k], message)),
      );
    });
  });
}

type Issuer = Config['jwt_issuers'][number];

function checkPlace({ header, cookie }: Issuer, config: Config, fault: Add): void {
  const isOther = header.toLowerCase() !== AUTHORIZATION;
  // Issuers may share a header.
  if (isOther && isTaken(header, { ...config, jwt_issuers: [] }))
    fault(['header'], 'this header already has a different meaning; choose another one');
  if (cookie === null) return;
  if (isOther) fault(['cookie'], 'set either header or cookie, not both');
  if (cookie === vendorNames(config.interface).sessionCookie || isLoginState(cookie))
    fault(['cookie'], 'Latchkey sets a cookie of this name; choose another one');
}
