import {
  isSocketLike,
  suggestedSocketUrl,
  parseUpstreamUrl,
  SOCKET_URL_RULE,
} from '../../domain/upstream-url.js';
import { text } from './units.js';

/** The address of an upstream. */
export const upstreamUrl = text
  .superRefine((value, context) => {
    if (parseUpstreamUrl(value) !== undefined) return;
    const rule = isSocketLike(value)
      ? SOCKET_URL_RULE
      : 'an http:// or https:// URL without user, query or fragment, or unix:// and the path of a socket';
    context.addIssue({
      code: 'custom',
      message: `expected ${rule}`,
      params: { meant: suggestedSocketUrl(value) ?? suggestedHttpUrl(value) },
    });
  })
  .meta({ example: 'http://127.0.0.1:3000' });

/**
 * Returns the URL for a host and port without a scheme. Text without a port may be a secret in the
 * wrong place.
 */
function suggestedHttpUrl(value: string): string | undefined {
  return /^[\w.-]+:\d{1,5}\/?$/.test(value) ? `http://${value}` : undefined;
}

/** The URL of a trace collector. */
export const collectorUrl = text.refine(
  isCollectorUrl,
  'expected an http:// or https:// URL without user, query or fragment',
);

/** The URL of a service that Latchkey queries. */
export const sourceUrl = text.refine(
  (value) => URL.canParse(value) && isPlainUrl(new URL(value)),
  'expected an http:// or https:// URL without user or fragment',
);

/** The issuer of an assertion. Verifiers compare it as text, so it is kept as written. */
export const issuerUrl = text.refine(
  (value) => URL.canParse(value) && isPlainUrl(new URL(value)),
  'expected an http:// or https:// URL without user or fragment',
);

/** The URL of a key set. Whoever can change the keys in transit can sign anything. */
export const keySetUrl = text.refine(
  (value) => URL.canParse(value) && isKeySetUrl(new URL(value)),
  'expected an https:// URL without user or fragment; http:// only for a loopback address',
);

/** Where an issuer's configuration is, if not at the issuer's own address. */
export const discoveryUrlSetting = keySetUrl
  .nullable()
  .default(null)
  .describe('The URL of its OpenID Connect configuration; null: the standard path below `issuer`');

/**
 * The origin at which browsers reach this server. Cookies and redirects depend on it, so nothing
 * may follow the host.
 */
export const publicOrigin = text.refine(
  (value) => URL.canParse(value) && isKeySetUrl(new URL(value)) && new URL(value).origin === value,
  'expected an origin like https://api.example, without a path or "/" at its end; http:// only for a loopback address',
);

/** An origin as browsers send it in `Origin`. */
export const browserOrigin = text.refine(
  (value) => URL.canParse(value) && isPlainUrl(new URL(value)) && new URL(value).origin === value,
  'expected an origin as browsers send it, like https://api.example:8443, without a default port, a path or "/" at its end',
);

/** The URL of a protected resource (RFC 9728 1.2). Its path also becomes the path of an endpoint. */
export const resourceUrl = text.refine(
  (value) =>
    URL.canParse(value) && isPlainUrl(new URL(value)) && /^[^/]+\/\/[^/]+(?:\/|(?:\/[\w.~-]+)*)$/.test(value),
  'expected a URL like https://api.example/mcp, with a path of letters, digits and "-._~" and no "/" at its end',
);

/** Whether keys may be fetched from a URL. */
export function isKeySetUrl(url: URL): boolean {
  return isPlainUrl(url) && (url.protocol === 'https:' || isLoopback(url.hostname));
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

function isCollectorUrl(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const url = new URL(value);
  return isPlainUrl(url) && url.search === '';
}

function isPlainUrl(url: URL): boolean {
  return /^https?:$/.test(url.protocol) && `${url.username}${url.password}${url.hash}` === '';
}
