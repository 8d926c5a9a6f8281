import type { EndpointSettings } from '../endpoints/endpoint.js';
import { placeOf } from '../accounts/jwt/subjects.js';
import { AUTHORIZATION } from '../http/bearer.js';
import type { HeadNames } from '../http/read-head.js';
import { identityPreset } from './schema/identity-presets.js';
import type { Config } from './schema/config.js';

/** Names that are derived from `interface.vendor`. */
export interface VendorNames {
  readonly key: string;
  readonly otp: string;
  readonly sessionCookie: string;
  readonly rateLimitRemaining: string;
  readonly rateLimitReset: string;
  readonly tokenExpiration: string;
}

/** Returns the names of the header fields and of the session cookie. */
export function vendorNames(settings: Config['interface']): VendorNames {
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
    sessionCookie,
    bearer: settings.bearer,
    jwt: issuers.some((each) => placeOf(each) === AUTHORIZATION),
    jwtFields:
      jwtFields(issuers).length === 0 ? null : new Set(jwtFields(issuers).map((name) => name.toLowerCase())),
    jwtCookies: jwtCookies(issuers),
  };
}

/** Returns the names of the header fields, besides Authorization, that carry credentials. */
export function credentialFields({ interface: settings, jwt_issuers: issuers }: Config): string[] {
  const { key, otp } = vendorNames(settings);
  return [key, otp, ...jwtFields(issuers)];
}

/** Returns the names of the cookies that carry JWTs. */
export function jwtCookies(issuers: Config['jwt_issuers']): string[] {
  return [...new Set(issuers.flatMap(({ cookie }) => cookie ?? []))];
}

function jwtFields(issuers: Config['jwt_issuers']): string[] {
  return issuers
    .filter((each) => each.cookie === null && placeOf(each) !== AUTHORIZATION)
    .map(({ header }) => header);
}

/** Returns the settings that determine which endpoints are built in on every host. */
export function endpointSettings(config: Pick<Config, 'interface' | 'identity' | 'login'>): EndpointSettings {
  const { token_endpoints: tokenEndpoints, account_endpoints: account, ui } = config.interface;
  return {
    tokenEndpoints,
    page: ui.enabled && ui.host === null ? ui.path : null,
    assertion: config.identity.assertion.enabled,
    account,
    oidc: config.login.oidc.length > 0,
  };
}

/** Returns the upstream of a route that names none. */
export function defaultUpstream(config: Config): string {
  return config.default_route.upstream ?? Object.keys(config.upstreams)[0] ?? '';
}

/**
 * Returns the names of request header fields that identify the user. Fields with these names that a
 * client sends are never forwarded.
 */
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

/** Returns the addresses of an upstream: `url`, or all of `urls`. */
export function addressesOf({ url, urls }: Config['upstreams'][string]): readonly string[] {
  return urls ?? (url === undefined ? [] : [url]);
}
