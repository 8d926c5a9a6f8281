import { INVISIBLE, maskTokens } from '../util/text.js';

// Size limits of a single record, whoever sends it. The number of records is limited by the configuration.

/** Maximum characters of the name of a token, user, customer or service. */
export const MAX_NAME = 255;
/** Maximum length of a password, in UTF-8 bytes. Longer ones are refused, never truncated. */
export const MAX_PASSWORD = 1_024;

/** Maximum bytes of a legacy key; longer ones are refused before hashing. */
export const MAX_LEGACY_KEY = 1_024;
/** Maximum number of services that one token can be restricted to. */
export const MAX_SERVICES = 100;
/** Maximum number of addresses and ranges that one token can be restricted to. */
export const MAX_ADDRESSES = 100;

/** Whether every store can hold a text: Redis scripts fail on JSON with half of a surrogate pair. */
export function isStorable(text: string): boolean {
  return text.isWellFormed();
}

/** Returns a value with every text in it, at any depth, made storable. */
export function asStorable(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (Array.isArray(value)) return value.map(asStorable);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, asStorable(each)]));
}

export const NAME_FORM = `1 to ${MAX_NAME} characters without control and invisible characters`;

/** Whether a text is a valid token name. Lists show names, so none may contain an access token. */
export function isName(name: string): boolean {
  if (name === '' || !isStorable(name) || maskTokens(name) !== name) return false;
  return Array.from(name).length <= MAX_NAME && !INVISIBLE.test(name);
}

/** Returns a name from another system, truncated and made storable. */
export function storableName(name: string): string {
  return Array.from(name.toWellFormed()).slice(0, MAX_NAME).join('');
}

/** Maximum cost of a hash in a directory file; it also bounds the time of a check for an unknown login. */
export const MAX_PASSWORD_COST = 4_194_304;

const PARAMETERS = /^\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,4}),p=\d{1,3}\$/;

/**
 * Returns the cost of checking a password hash, in KiB of memory times passes; 0 for null and for other text.
 */
export function costOfHash(phc: string | null): number {
  const [, memory, passes] = PARAMETERS.exec(phc ?? '') ?? [];
  return memory === undefined || passes === undefined ? 0 : Number(memory) * Number(passes);
}
