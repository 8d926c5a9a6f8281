import type { Refusal } from '../domain/refusal.js';
import { AUTHORIZATION } from './authorization.js';
import { cookiesFrom, cookieValues, LOGIN_STATE_COOKIE } from './cookies.js';

/**
 * Fields with a single value that has no comma: a comma means that a proxy joined two. `User-Agent` may
 * contain commas.
 */
const SINGLE: readonly string[] = [
  'content-length',
  'expect',
  'origin',
  'sec-fetch-dest',
  'sec-fetch-site',
  'transfer-encoding',
  'upgrade',
];

/** An `auth-param` (RFC 9110 11.2); anything else after a comma starts another credential. */
const PARAMETER = /^[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]*=/;

export interface JoinedNames {
  readonly credentialNames: readonly string[];
  readonly ownCookies: readonly string[];
}

/**
 * Adds a field to a flat list, split where a proxy may have joined fields that must be single (RFC 9110 5.3),
 * so that they are refused as if they had arrived separately.
 * @returns a refusal when a Cookie field is ambiguous
 */
export type FieldSplitter = (fields: string[], name: string, value: string) => Refusal | undefined;

export function createFieldSplitter({ credentialNames, ownCookies }: JoinedNames): FieldSplitter {
  const single = new Set([...SINGLE, ...credentialNames.map((name) => name.toLowerCase())]);
  const cookies = ownCookies.flatMap((name) => [name, `__Host-${name}`, `__Secure-${name}`]);
  return (fields, name, value) => {
    const lower = name.toLowerCase();
    if (!value.includes(',')) fields.push(name, value);
    else if (single.has(lower)) add(fields, name, value.split(','));
    else if (lower === AUTHORIZATION) add(fields, name, credentialsOf(value));
    else if (lower === 'content-type') add(fields, name, partsOf(value));
    else if (lower === 'cookie' && isAmbiguous(value, cookies)) return joinedCookies();
    else fields.push(name, value);
    return undefined;
  };
}

function add(fields: string[], name: string, values: readonly string[]): void {
  for (const value of values) fields.push(name, value.trim());
}

/** Splits a list of credentials. The parameters of one credential are separated by commas, too. */
function credentialsOf(value: string): string[] {
  const credentials: string[] = [];
  for (const part of partsOf(value)) {
    if (credentials.length > 0 && PARAMETER.test(part)) credentials[credentials.length - 1] += `,${part}`;
    else credentials.push(part);
  }
  return credentials;
}

/** Splits at commas outside quoted strings (RFC 9110 5.6.4). */
function partsOf(value: string): string[] {
  const parts: string[] = [];
  let start = 0;
  let quoted = false;
  for (let i = 0; i < value.length; i++) {
    const character = value[i];
    if (quoted && character === '\\') i += 1;
    else if (character === '"') quoted = !quoted;
    else if (character === ',' && !quoted) {
      parts.push(value.slice(start, i));
      start = i + 1;
    }
  }
  parts.push(value.slice(start));
  return parts;
}

/** Whether a cookie of Latchkey's reads differently if the field was joined from several. */
function isAmbiguous(value: string, ownCookies: readonly string[]): boolean {
  const parts = value.split(',');
  return ownCookies.some((name) => {
    const read = name.endsWith(LOGIN_STATE_COOKIE) ? cookiesFrom : cookieValues;
    return read(value, name).join() !== parts.flatMap((part) => [...read(part, name)]).join();
  });
}

function joinedCookies(): Refusal {
  return {
    refusal: 'several_credentials',
    detail: "the header cookie may be several joined headers; set Envoy's encode_raw_headers",
  };
}
