import { LOGIN_STATE_COOKIE } from '../http/cookies.js';
import type { Add } from './fault.js';
import { suggestion } from './nearest.js';
import type { Config } from './schema/config.js';
import { isKeySetUrl } from './schema/urls.js';
import { readText } from './pem.js';

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
  if (cookie?.replace(/^__(?:host|secure)-/i, '').toLowerCase() === LOGIN_STATE_COOKIE)
    add(['interface', 'session_cookie'], 'login.oidc uses a cookie of this name; choose another one');
  const { store } = config;
  if (store.type === 'redis' && store.sealing_key === null)
    add(['store', 'sealing_key'], 'is required with login.oidc; make one with "openssl rand -hex 32"');
  checkEach(config, add);
} // prettier-ignore

/** Browsers can be sent to a login page only if its session is valid where they come from. */
function checkLoginPage(config: Config, add: Add): void {
  const { ui } = config.interface;
  if (ui.enabled && ui.host === null) return;
  const reason = ui.enabled ? 'sessions on interface.ui.host are separate' : 'the web page is off';
  const fault = (path: readonly (string | number)[]) =>
    add([...path, 'on_unauthenticated'], `browsers cannot be redirected to the login: ${reason}`);
  if (config.on_unauthenticated === 'login') fault([]);
  if (config.default_route.on_unauthenticated === 'login') fault(['default_route']);
  config.routes.forEach(({ on_unauthenticated: on }, i) => on === 'login' && fault(['routes', i]));
} // prettier-ignore

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
    if (!isKeySetUrl(new URL(issuer)))
      fault(['issuer'], 'expected an https:// URL; http:// only for a loopback address');
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

/**
 * Checks the roles, scopes and files that JWT issuers refer to, and that no issuer is listed twice.
 */
export function checkJwtIssuers({ jwt_issuers: issuers, policy }: Config, add: Add): void {
  const roles = Object.keys(policy.roles);
  const scopes = Object.keys(policy.scopes);
  const seen = new Set<string>();
  issuers.forEach(({ name, issuer, jwks, subjects }, i) => {
    const fault = (path: readonly (string | number)[], message: string) =>
      add(['jwt_issuers', i, ...path], message);
    for (const [key, value] of Object.entries({ name, issuer })) {
      if (seen.has(`${key} ${value}`)) fault([key], 'another issuer has the same value; remove one of them');
      seen.add(`${key} ${value}`);
    }
    if (jwks === null && !isKeySetUrl(new URL(issuer)))
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
