import { AUTHORIZATION } from '../http/authorization.js';
import { LOGIN_STATE_COOKIE, maySetCookie } from '../http/cookies.js';
import { vendorNames } from './derived.js';
import { isTaken } from './taken-names.js';
import type { Add } from './fault.js';
import { suggestion } from './nearest.js';
import type { Config } from './schema/config.js';
import { isKeySetUrl } from './schema/urls.js';
import { clientKeyAlgorithm } from '../accounts/oidc/settings.js';
import { privateKeyIn, readText, tlsFileFaults } from './pem.js';

type OnUnauthenticated = Config['default_route']['on_unauthenticated'];

/** Checks the references of OpenID Connect providers, and that their prerequisites are met. */
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
  if (store.type === 'redis' && store.sealing_key === null)
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
  checkLoginNames(config, add);
  if (ui.enabled && ui.host === null) return;
  const reason = ui.enabled ? 'sessions on interface.ui.host are separate' : 'the web page is off';
  const fault = (path: readonly (string | number)[]) =>
    add([...path, 'on_unauthenticated'], `browsers cannot be redirected to the login: ${reason}`);
  for (const [path, on] of loginsOf(config)) if (on !== undefined && on !== 'json') fault(path);
} // prettier-ignore

/** Each setting of where browsers are sent without a session, and its position. */
function loginsOf({
  on_unauthenticated: on,
  default_route: fallback,
  routes,
}: Config): [(string | number)[], OnUnauthenticated][] {
  return [
    [[], on],
    [['default_route'], fallback.on_unauthenticated],
    ...routes.map((route, i): [(string | number)[], OnUnauthenticated] => [
      ['routes', i],
      route.on_unauthenticated,
    ]),
  ];
}

function checkLoginNames(config: Config, add: Add): void {
  const names = config.login.oidc.map(({ name }) => name);
  for (const [path, on] of loginsOf(config))
    if (typeof on === 'object' && !names.includes(on.login))
      add(
        [...path, 'on_unauthenticated', 'login'],
        `no such provider in login.oidc${suggestion(on.login, names)}`,
      );
}

function checkEach({ login: { oidc: providers }, policy }: Config, add: Add): void {
  const roles = Object.keys(policy.roles);
  const seen = new Set<string>();
  providers.forEach((provider, i) => {
    const fault = (path: readonly string[], message: string) => add(['login', 'oidc', i, ...path], message);
    const { name, issuer, roles: given } = provider;
    for (const [key, value] of Object.entries({ name, issuer })) {
      if (seen.has(`${key} ${value}`))
        fault([key], 'another provider has the same value; remove one of them');
      seen.add(`${key} ${value}`);
    }
    if (provider.discovery === null && !isKeySetUrl(new URL(issuer)))
      fault(['issuer'], 'expected an https:// URL; http:// only for a loopback address');
    checkClientAuthentication(provider, fault);
    for (const [key, message] of caFaults(provider.tls)) fault(['tls', key], message);
    if (!provider.scopes.includes('openid')) fault(['scopes'], 'openid is missing');
    if (given.default === null && Object.keys(given.map).length === 0)
      fault(['roles'], 'no login would get a role; set map or default');
    const checkRole = (path: readonly string[], role: string) => {
      if (!roles.includes(role)) fault(path, `no such role in policy.roles${suggestion(role, roles)}`);
    };
    for (const [value, role] of Object.entries(given.map)) checkRole(['roles', 'map', value], role);
    if (given.default !== null) checkRole(['roles', 'default'], given.default);
  });
}

type Provider = Config['login']['oidc'][number];

function checkClientAuthentication(
  { client_auth: method, client_secret: secret, client_key: file }: Provider,
  fault: (path: readonly string[], message: string) => void,
): void {
  if (method === 'private_key_jwt') {
    if (file === null)
      fault(['client_auth'], 'private_key_jwt needs client_key, the file with the private key');
    if (secret !== null) fault(['client_secret'], 'has no effect with private_key_jwt; remove it');
  } else {
    if (file !== null) fault(['client_key'], 'has no effect without client_auth: private_key_jwt');
    if (method !== null && secret === null) fault(['client_auth'], `${method} needs client_secret`);
  }
  if (file === null) return;
  const text = readText(file);
  const key = 'fault' in text ? text : privateKeyIn(text.value);
  if ('fault' in key) fault(['client_key'], key.fault);
  else if (clientKeyAlgorithm(key.value) === undefined)
    fault(['client_key'], 'expected an RSA, P-256, P-384, P-521 or Ed25519 key');
}

function caFaults(tls: Provider['tls']): [string, string][] {
  return tls === null ? [] : tlsFileFaults({ ca: tls.ca, cert: null, key: null });
}

/**
 * Checks the roles, scopes and files that JWT issuers refer to, and that no issuer is listed twice.
 */
export function checkJwtIssuers(config: Config, add: Add): void {
  const { jwt_issuers: issuers, policy } = config;
  const roles = Object.keys(policy.roles);
  const scopes = Object.keys(policy.scopes);
  const seen = new Set<string>();
  issuers.forEach(({ name, issuer, discovery, tls, jwks, subjects }, i) => {
    const fault = (path: readonly (string | number)[], message: string) =>
      add(['jwt_issuers', i, ...path], message);
    for (const [key, value] of Object.entries({ name, issuer })) {
      if (seen.has(`${key} ${value}`)) fault([key], 'another issuer has the same value; remove one of them');
      seen.add(`${key} ${value}`);
    }
    checkPlace(issuers[i] as Issuer, config, fault);
    if (discovery !== null && jwks !== null)
      fault(['discovery'], 'has no effect with jwks; remove one of them');
    for (const [key, message] of caFaults(tls)) fault(['tls', key], message);
    if (jwks === null && discovery === null && !isKeySetUrl(new URL(issuer)))
      fault(['issuer'], 'discovery needs an https:// URL; set jwks to the URL or file of the keys');
    const keys = jwks !== null && 'file' in jwks ? readText(jwks.file) : undefined;
    if (keys !== undefined && 'fault' in keys) fault(['jwks', 'file'], keys.fault);
    subjects.forEach(({ role, scope }, j) => {
      if (!roles.includes(role))
        fault(['subjects', j, 'role'], `no such role in policy.roles${suggestion(role, roles)}`);
      scope.forEach((each, k) => {
        if (!scopes.includes(each))
          fault(['subjects', j, 'scope', k], `no such scope in policy.scopes${suggestion(each, scopes)}`);
      });
    });
  });
}

type Issuer = Config['jwt_issuers'][number];

/** Checks that the header or cookie of an issuer's JWTs has no other meaning. */
function checkPlace(
  { header, cookie }: Issuer,
  config: Config,
  fault: (path: readonly (string | number)[], message: string) => void,
): void {
  const isOther = header.toLowerCase() !== AUTHORIZATION;
  // Issuers may share a header.
  if (isOther && isTaken(header, { ...config, jwt_issuers: [] }))
    fault(['header'], 'this header already has a different meaning; choose another one');
  if (cookie === null) return;
  if (isOther) fault(['cookie'], 'set either header or cookie, not both');
  if (cookie === vendorNames(config.interface).sessionCookie || isLoginState(cookie))
    fault(['cookie'], 'Latchkey sets a cookie of this name; choose another one');
}
