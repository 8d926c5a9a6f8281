import { z } from 'zod';
import { isStorable } from '../../domain/limits.js';
import { METHODS } from '../../domain/methods.js';
import { MAX_TIMER_MS } from '../../util/time.js';
import { ID } from '../../domain/user.js';
import { isSocketLike, parseUpstreamUrl, SOCKET_URL_RULE } from '../../domain/urls.js';

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** A century: a time that far ahead still has a four-digit year. */
const MAX_DURATION_MS = 36_500 * UNITS.d;

const DURATION = 'expected a duration of one number and unit, like 250ms, 30s, 15m, 12h or 7d';

const durationText = z
  .string(DURATION)
  .regex(/^\d{1,9}(ms|s|m|h|d)$/, DURATION)
  .refine((text) => !(toMilliseconds(text) > MAX_DURATION_MS), 'expected a duration of at most 36500d')
  .describe('A duration: 250ms, 30s, 15m, 12h, 7d');

/** Returns NaN for malformed text, which is reported as a separate fault. */
function toMilliseconds(text: string): number {
  const [, amount, unit] = /^(\d+)([a-z]+)$/.exec(text) ?? [];
  return Number(amount) * UNITS[unit as keyof typeof UNITS];
}

/** A duration from `min` to `max` milliseconds. @param expected the error message */
export function durationBetween(min: number, max: number, expected: string) {
  return durationText
    .refine((text) => !(toMilliseconds(text) < min || toMilliseconds(text) > max), expected)
    .transform(toMilliseconds);
}

export const duration = durationText.transform(toMilliseconds);
export const positiveDuration = durationBetween(1, Infinity, 'expected a duration longer than 0');
export const timeLimit = durationBetween(1, MAX_TIMER_MS, 'expected a duration from 1ms to 24d');

export const forwardedMethod = z.enum(METHODS, 'expected a registered method like GET, or PURGE');

const HOST_NAME = /^(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]+\])$/;

export const hostName = z
  .string('expected a host name')
  .regex(HOST_NAME, 'expected a host name without a port, like git.example.com');

export const routeHost = z
  .string('expected a host name')
  .refine(
    (text) => HOST_NAME.test(text.replace(/^\*\./, '')),
    'expected a host name without a port, like git.example.com or "*.example.com"',
  );

const SIZE_UNITS = { B: 1, KiB: 1_024, MiB: 1_048_576, GiB: 1_073_741_824 } as const;
const SIZE = /^(\d{1,9})(B|KiB|MiB|GiB)$/;

/** A size like `64KiB` or `1MiB` from `min` to `max` bytes, as a number of bytes. */
export function size(min: number, max: number) {
  return z
    .string('expected a size like 64KiB or 1MiB')
    .regex(SIZE, 'expected a size like 64KiB or 1MiB')
    .refine((text) => !(toBytes(text) < min || toBytes(text) > max), `expected ${min} to ${max} bytes`)
    .describe('A size: 512B, 64KiB, 1MiB, 1GiB')
    .transform(toBytes);
}

function toBytes(text: string): number {
  const [, amount, unit] = SIZE.exec(text) ?? [];
  return Number(amount) * SIZE_UNITS[unit as keyof typeof SIZE_UNITS];
}

export function integer(min: number, max: number) {
  const message = `expected a whole number from ${min} to ${max}`;
  return z.int(message).min(min, message).max(max, message);
}

export const id = z.string('expected an id').regex(ID, 'expected an id: 1 to 64 letters, digits, "_" or "-"');

/** A token (RFC 9110 5.6.2). */
const FIELD_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

export const fieldName = z
  .string('expected a header name')
  .regex(FIELD_NAME, 'expected a header name: letters, digits and "-"');

export const anyText = z.string('expected text').refine(isStorable, 'expected well-formed Unicode');

export const text = anyText.min(1, { error: 'expected text', abort: true });

/** The name of a claim, or a JSON Pointer (RFC 6901) to a nested one. */
export const claimName = text.refine(
  (name) => !name.startsWith('/') || !/~(?![01])/.test(name),
  'expected a JSON pointer: write "~" in a name as ~0, and "/" as ~1',
);

export function orNull<T extends z.ZodType>(type: T): z.ZodPrefault<z.ZodNullable<T>> {
  return type.nullable().prefault(null as z.input<z.ZodNullable<T>> & null);
}

export const filePath = text.meta({ path: true });
export const writtenPath = filePath.meta({ written: true });

export const tlsFiles = {
  ca: orNull(filePath).describe('File with the authorities to trust instead of the public ones (PEM)'),
  cert: orNull(filePath).describe('File with a client certificate and its chain (PEM)'),
  key: orNull(filePath).describe('File with the private key of that certificate (PEM)'),
};

export const caSetting = orNull(
  z.strictObject({
    ca: filePath.describe('File with the authorities to trust instead of the public ones (PEM)'),
  }),
).describe('TLS settings for connections to it; the certificate is always verified');

/** A cookie name is a token like a header name (RFC 6265 4.1.1). */
export const cookieName = text.regex(FIELD_NAME, 'expected a cookie name');

/** The name of a provider or issuer, which becomes part of paths, metrics and ids. */
export const shortName = text.regex(
  /^[a-z0-9][a-z0-9-]{0,31}$/,
  'expected a name of up to 32 lower-case letters, digits and "-"',
);

export const flag = z.boolean('expected true or false');

/** Facts about a key besides its type, default and meaning: `.meta({ restart: true })`. */
export interface Facts {
  /** A change takes effect only after a restart; `presence`: only adding or removing the key needs one. */
  readonly restart?: true | 'presence';
  /** Never shown, and expanded in a directory file; `path`: a URL whose path and query are never shown. */
  readonly secret?: true | 'path';
  /** A path, relative to the folder of its file; `except` is a word that is not a path. */
  readonly path?: true | { readonly except: string };
  /** Latchkey writes to this path; it reads the others. */
  readonly written?: true;
  /** An example of the value, shown when a value of another kind is found. */
  readonly example?: string;
}

declare module 'zod' {
  interface GlobalMeta extends Facts {}
}

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
