import type { Config } from './schema/config.js';

/** Names that follow from `interface.vendor`. */
export interface VendorNames {
  readonly key: string;
  readonly otp: string;
  readonly sessionCookie: string;
  readonly rateLimitRemaining: string;
  readonly rateLimitReset: string;
}

/** Builds the names of the fields and of the session cookie. */
export function vendorNames(settings: Config['interface']): VendorNames {
  return {
    key: `${settings.vendor}-Key`,
    otp: `${settings.vendor}-OTP`,
    rateLimitRemaining: `${settings.vendor}-RateLimit-Remaining`,
    rateLimitReset: `${settings.vendor}-RateLimit-Reset`,
    sessionCookie: settings.session_cookie ?? `${settings.vendor.toLowerCase()}.session`,
  };
}

/** The upstream of a route that names none. */
export function defaultUpstream(config: Config): string {
  return config.default_route.upstream ?? Object.keys(config.upstreams)[0] ?? '';
}

/** The addresses of an upstream: `url`, or all of `urls`. */
export function addressesOf({ url, urls }: Config['upstreams'][string]): readonly string[] {
  return urls ?? (url === undefined ? [] : [url]);
}
