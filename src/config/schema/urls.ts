import { isSocketLike, parseUpstreamUrl, SOCKET_URL_RULE } from '../../domain/urls.js';
import { orNull, text } from './units.js';

export const upstreamUrl = text
  .refine((value) => parseUpstreamUrl(value) !== undefined, {
    error: ({ input }) =>
      isSocketLike(String(input))
        ? `expected ${SOCKET_URL_RULE}`
        : 'expected a URL like http://127.0.0.1:3000 without user, query or fragment, or unix:// and the path of a socket',
  })
  .meta({ example: 'http://127.0.0.1:3000' });

function urlWith(isValid: (url: URL, text: string) => boolean, expected: string) {
  return text.refine(
    (value) => URL.canParse(value) && isValid(new URL(value), value),
    `expected ${expected}`,
  );
}

export const collectorUrl = urlWith(
  (url) => isPlainUrl(url) && url.search === '',
  'an http:// or https:// URL without user, query or fragment',
);

/** Issuers, which verifiers compare as text, are kept as written. */
export const plainUrl = urlWith(isPlainUrl, 'an http:// or https:// URL without user or fragment');

/** The URL of a key set. Whoever can change the keys in transit can sign anything. */
export const keySetUrl = urlWith(
  isKeySetUrl,
  'an https:// URL without user or fragment; http:// only for a loopback address',
);

export const discoveryUrlSetting = orNull(keySetUrl).describe(
  'The URL of its OpenID Connect configuration; null: the standard path below `issuer`',
);

/** Cookies and redirects depend on it, so nothing may follow the host. */
export const publicOrigin = urlWith(
  (url, written) => isKeySetUrl(url) && url.origin === written,
  'an origin like https://api.example, without a path or "/" at its end; http:// only for a loopback address',
);

/** An origin as browsers send it in `Origin`. */
export const browserOrigin = text.refine(
  (value) => URL.canParse(value) && isPlainUrl(new URL(value)) && new URL(value).origin === value,
  'expected an origin as browsers send it, like https://api.example:8443, without a default port, a path or "/" at its end',
);

/** The URL of a protected resource (RFC 9728 1.2). Its path also becomes the path of an endpoint. */
export const resourceUrl = urlWith(
  (url, written) => isPlainUrl(url) && /^[^/]+\/\/[^/]+(?:\/|(?:\/[\w.~-]+)*)$/.test(written),
  'a URL like https://api.example/mcp, with a path of letters, digits and "-._~" and no "/" at its end',
);

/** Whether keys may be fetched from a URL. */
export function isKeySetUrl(url: URL): boolean {
  return isPlainUrl(url) && (url.protocol === 'https:' || isLoopback(url.hostname));
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

function isPlainUrl(url: URL): boolean {
  return /^https?:$/.test(url.protocol) && `${url.username}${url.password}${url.hash}` === '';
}
