import type { EndpointSettings } from '../endpoints/endpoint.js';
import { placeOf } from '../accounts/jwt/subjects.js';
import { METADATA_PATH } from '../endpoints/documents.js';
import type { ResourceMetadata } from '../endpoints/schema/responses.js';
import { AUTHORIZATION } from '../http/authorization.js';
import type { ChallengeSettings } from '../http/replies.js';
import type { HeadNames } from '../http/read-head.js';
import { identityPreset } from './schema/identity-presets.js';
import type { Config } from './schema/config.js';

export function vendorNames(settings: Config['interface']) {
  return {
    key: `${settings.vendor}-Key`,
    otp: `${settings.vendor}-OTP`,
    rateLimitRemaining: `${settings.vendor}-RateLimit-Remaining`,
    rateLimitReset: `${settings.vendor}-RateLimit-Reset`,
    tokenExpiration: `${settings.vendor}-Token-Expiration`,
    sessionCookie: settings.session_cookie ?? `${settings.vendor.toLowerCase()}.session`,
  };
}

export function headNames({ interface: settings, jwt_issuers: issuers }: Config): HeadNames {
  const { key, otp, sessionCookie } = vendorNames(settings);
  return {
    key: key.toLowerCase(),
    otp: otp.toLowerCase(),
    keyHeaders: settings.key_headers.map((name) => name.toLowerCase()),
    sessionCookie,
    basic: settings.basic,
    bearer: settings.bearer,
    jwt: issuers.some(isBearer),
    jwtFields: jwtFields(issuers).map((name) => name.toLowerCase()),
    jwtCookies: jwtCookies(issuers),
  };
}

export function credentialNames({
  interface: settings,
  jwt_issuers: issuers,
}: Pick<Config, 'interface' | 'jwt_issuers'>): readonly string[] {
  const { key, otp } = vendorNames(settings);
  return [key, otp, ...settings.key_headers, ...jwtFields(issuers)];
}

export function jwtCookies(issuers: Config['jwt_issuers']): string[] {
  return [...new Set(issuers.flatMap(({ cookie }) => cookie ?? []))];
}

function jwtFields(issuers: Config['jwt_issuers']): string[] {
  return issuers.filter((each) => each.cookie === null && !isBearer(each)).map(({ header }) => header);
}

function isBearer(issuer: Config['jwt_issuers'][number]): boolean {
  return placeOf(issuer) === AUTHORIZATION;
}

export function challengeSettings(config: Config): ChallengeSettings {
  const { realm, protected_resource: resource } = config.interface;
  if (resource === null) return { ...headNames(config), realm, resource: null };
  const { origin, pathname } = new URL(resource.resource);
  return {
    ...headNames(config),
    realm,
    resource: { path: pathname, metadata: `${origin}${METADATA_PATH}${pathname === '/' ? '' : pathname}` },
  };
}

/** Returns the metadata of the protected resource (RFC 9728 2); null without one. */
export function resourceMetadata({
  interface: settings,
  jwt_issuers: issuers,
}: Config): ResourceMetadata | null {
  const { protected_resource: protectedResource, bearer } = settings;
  if (protectedResource === null) return null;
  const { resource, scopes } = protectedResource;
  const servers = issuers.filter(isBearer).map(({ issuer }) => issuer);
  return {
    resource,
    ...(servers.length === 0 ? {} : { authorization_servers: servers }),
    ...(scopes.length === 0 ? {} : { scopes_supported: scopes }),
    bearer_methods_supported: bearer || servers.length > 0 ? ['header'] : [],
  };
}

export function endpointSettings(
  config: Pick<Config, 'listen' | 'interface' | 'identity' | 'login'>,
): EndpointSettings {
  const { token_endpoints: tokenEndpoints, account_endpoints: account, ui } = config.interface;
  const { protected_resource: resource } = config.interface;
  return {
    tokenEndpoints,
    page: ui.enabled && ui.host === null ? ui.path : null,
    assertion: config.identity.assertion.enabled,
    account,
    oidc: config.login.oidc.length > 0,
    readyPath: config.listen.ready_path,
    resourcePath: resource === null ? null : new URL(resource.resource).pathname,
  };
}

/** Returns the hosts that a configuration names, in lower case, each after those that include it. */
export function namedHosts({ routes, interface: { hosts } }: Config): string[] {
  const named = [...(hosts ?? []), ...routes.flatMap(({ host }) => host ?? [])];
  return [...new Set(named.map((host) => host.toLowerCase()))].toSorted(
    (a, b) => Number(b.startsWith('*')) - Number(a.startsWith('*')) || a.length - b.length,
  );
}

export function openRoutes({ listen, routes, default_route }: Config): string[] {
  const ready = listen.ready_path === null ? [] : [`GET ${listen.ready_path}`];
  const named = routes.flatMap(({ auth, methods = [], host = '', path }) =>
    auth === 'none' ? [[...methods, host + path].join(' ')] : [],
  );
  return [...ready, ...named, ...(default_route.auth === 'none' ? ['default_route'] : [])];
}

/** Returns the names of request headers that identify the user, which are never forwarded from clients. */
export function reservedIdentity({ identity }: Config): { names: string[]; prefixes: readonly string[] } {
  const { headers, reserved, reservedPrefixes } = identityPreset(identity.preset);
  const given = Object.values(identity.headers).filter((name) => name !== null);
  return {
    names: [
      ...given,
      ...Object.keys(identity.claims),
      ...Object.values(headers),
      ...reserved,
      identity.assertion.header,
    ],
    prefixes: reservedPrefixes,
  };
}

export function settingsOf<Key extends 'cors' | 'on_unauthenticated'>(config: Config, key: Key) {
  const { routes, default_route: fallback } = config;
  return [
    [config[key], [key]],
    ...routes.map((route, i) => [route[key], ['routes', i, key]] as const),
    [fallback[key], ['default_route', key]],
  ] as const;
}

export function hasCors(config: Config): boolean {
  return settingsOf(config, 'cors').some(([settings]) => settings !== false && settings != null);
}

export function addressesOf({ url, urls }: Config['upstreams'][string]): readonly string[] {
  return urls ?? (url === undefined ? [] : [url]);
}
