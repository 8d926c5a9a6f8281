import type { Refusal } from '../domain/refusal.js';
import { cookiesFrom, cookieValues, LOGIN_STATE_COOKIE } from './cookies.js';

/** Maximum number of names, and maximum length of one: peers may send any number, of any length. */
const MAX_NAMES = 2_000;
const MAX_LENGTH = 64;

/** Caches what was derived from field names, by name as received. When full, it starts anew. */
export class NameCache<T> {
  readonly #derived = new Map<string, T>();

  get(name: string): T | undefined {
    return this.#derived.get(name);
  }

  add(name: string, derived: T): void {
    if (name.length > MAX_LENGTH) return;
    if (this.#derived.size === MAX_NAMES) this.#derived.clear();
    this.#derived.set(name, derived);
  }
}

/** Bytes of an HTTP/1 field line besides its name and value: `: ` and the line end. */
export const LINE_BYTES = 4;

/** Returns a name as the internalized string that V8 uses for property names: look-ups take a tenth. */
export function asPropertyName(name: string): string {
  return Object.keys({ [name]: true })[0] as string;
}

/** @param name in lower case */
export function fieldValues(fields: readonly string[], name: string): string[] {
  return fields.filter((_, i) => i % 2 === 1 && fields[i - 1]?.toLowerCase() === name);
}

/** Returns the value of a field that occurs exactly once. @param name in lower case */
export function onlyValue(fields: readonly string[], name: string): string | undefined {
  const [value, ...more] = fieldValues(fields, name);
  return more.length === 0 ? value : undefined;
}

/** Returns two flat lists of fields as one. Most are empty, and then the other is returned. */
export function joinFields(first: readonly string[], second: readonly string[]): readonly string[] {
  if (first.length === 0) return second;
  return second.length === 0 ? first : [...first, ...second];
}

/** Joins two lines of one field (RFC 9110 5.3). An empty value adds nothing. */
export function joinValues(first: string, second: string, separator: ', ' | '; '): string {
  if (first === '') return second;
  return second === '' ? first : first + separator + second;
}

const VARY = 'vary';

/** Adds a field name to `Vary` in place, extending an existing list (RFC 9110 12.5.5). */
export function addVary(fields: string[], name: string): void {
  let last = -1;
  for (let i = 0; i < fields.length; i += 2) {
    const own = fields[i] as string;
    if (own.length !== VARY.length || own.toLowerCase() !== VARY) continue;
    last = i + 1;
    const list = fields[last] as string;
    if (hasItem(list, '*') || hasItem(list, name.toLowerCase())) return;
  }
  if (last < 0) fields.push('Vary', name);
  else fields[last] = joinValues(fields[last] as string, name, ', ');
}

/** @param item in lower case */
export function hasItem(list: string, item: string): boolean {
  for (let start = 0, end; start < list.length; start = end + 1) {
    const comma = list.indexOf(',', start);
    end = comma < 0 ? list.length : comma;
    if (end - start >= item.length && list.slice(start, end).trim().toLowerCase() === item) return true;
  }
  return false;
}

/** @param name in lower case */
export function firstField(fields: readonly string[], name: string): string | undefined {
  for (let i = 0; i < fields.length; i += 2) {
    const own = fields[i] as string;
    if (own.length === name.length && own.toLowerCase() === name) return fields[i + 1];
  }
  return undefined;
}

/** WebViews put their application's name into `X-Requested-With`, so only the value of scripts counts. */
export function isByScript(fields: readonly string[]): boolean {
  return firstField(fields, 'x-requested-with')?.toLowerCase() === 'xmlhttprequest';
}

/** Programs accept anything, and no browser names JSON when it opens a page. */
export function acceptsHtml(fields: readonly string[]): boolean {
  const accept = fieldValues(fields, 'accept').join(',');
  const types = accept.split(',').flatMap((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    return parameters.some((each) => /^q=0(?:\.0*)?$/.test(each)) ? [] : [type];
  });
  return types.includes('text/html') && !types.includes('application/json');
}

/**
 * Fields with a single value that has no comma: a comma means that a proxy joined two. `User-Agent` may
 * contain commas.
 */
const SINGLE: readonly string[] = [
  'content-length', 'expect', 'origin', 'sec-fetch-dest', 'sec-fetch-site', 'transfer-encoding', 'upgrade',
]; // prettier-ignore

/** An `auth-param` (RFC 9110 11.2); anything else after a comma starts another credential. */
const PARAMETER = /^[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]*=/;

/**
 * Adds a field to a flat list, split where a proxy may have joined fields that must be single (RFC 9110 5.3),
 * so that they are refused as if they had arrived separately.
 * @returns a refusal when a Cookie field is ambiguous
 */
export type FieldSplitter = (fields: string[], name: string, value: string) => Refusal | undefined;

export function createFieldSplitter(names: {
  readonly credentialNames: readonly string[];
  readonly ownCookies: readonly string[];
}): FieldSplitter {
  const single = new Set([...SINGLE, ...names.credentialNames.map((name) => name.toLowerCase())]);
  const cookies = names.ownCookies.flatMap((name) => [name, `__Host-${name}`, `__Secure-${name}`]);
  return (fields, name, value) => {
    const lower = name.toLowerCase();
    if (!value.includes(',')) fields.push(name, value);
    else if (single.has(lower)) add(fields, name, value.split(','));
    else if (lower === 'authorization') add(fields, name, credentialsOf(value));
    else if (lower === 'content-type') add(fields, name, partsOf(value));
    else if (lower === 'cookie' && isAmbiguous(value, cookies)) return JOINED_COOKIES;
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

const JOINED_COOKIES: Refusal = {
  refusal: 'several_credentials',
  detail: "the header cookie may be several joined headers; set Envoy's encode_raw_headers",
};
