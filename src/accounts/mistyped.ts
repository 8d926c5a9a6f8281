import { isOneEdit } from '../domain/one-edit.js';

/** Parameters that restrict a token, with common wrong names for them. */
const RESTRICTIONS: readonly { readonly name: string; readonly others: readonly string[] }[] = [
  { name: 'scope', others: ['scopes'] },
  { name: 'services', others: ['service'] },
  { name: 'service_id', others: [] },
  { name: 'expires_at', others: ['expires', 'expiry', 'expires_in', 'expiration'] },
  { name: 'rate', others: ['rate_limit', 'ratelimit'] },
  { name: 'addresses', others: ['address', 'cidr', 'cidrs'] },
  { name: 'suspended', others: ['suspend'] },
];

/**
 * Whole names of parameters that a name is compared with, brackets included: an edit may concern a
 * bracket, or insert one anywhere.
 */
const WHOLE_NAMES = ['scope', 'services', 'services[]', 'service_id', 'expires_at'] as const;

/**
 * Returns an error for the first unknown parameter that looks like a token restriction.
 *
 * If it were ignored, the token would lack a restriction that someone meant to set. Returns
 * undefined if there is none.
 */
export function firstMistyped(names: readonly string[]): string | undefined {
  for (const name of names) {
    const suggestion = suggestionFor(name);
    if (suggestion !== undefined)
      return `The parameter ${JSON.stringify(name.slice(0, MAX_QUOTED))} is unknown; did you mean ${JSON.stringify(suggestion)}?`;
  }
  return undefined;
}

/**
 * Returns an error for the first query parameter that looks like a restriction of a token.
 *
 * The query is not read for these. Returns undefined if there is none.
 */
export function firstMisplaced(
  names: readonly string[],
  suggest: (name: string) => string | undefined = suggestionFor,
): string | undefined {
  for (const name of names) {
    const suggestion = suggest(name);
    if (suggestion !== undefined)
      return `The parameter ${JSON.stringify(name.slice(0, MAX_QUOTED))} is not accepted in the query; send ${JSON.stringify(suggestion)} in the body`;
  }
  return undefined;
}

const MAX_QUOTED = 64;

function suggestionFor(name: string): string | undefined {
  const lower = lowerLetters(name);
  const base = baseOf(lower);
  const known = RESTRICTIONS.find(({ name, others }) => base === name || others.includes(base));
  if (known !== undefined) return known.name;
  const near = RESTRICTIONS.find((each) => isOneEdit(base, each.name))?.name;
  return near ?? WHOLE_NAMES.find((whole) => isOneEdit(lower, whole));
}

/** Returns a name without what clients append to it for a list or a member. */
function baseOf(name: string): string {
  const bracket = name.indexOf('[');
  return bracket < 0 ? name : name.slice(0, bracket);
}

/**
 * Lowercases only ASCII letters.
 *
 * Some other letters become two characters in lower case, and would count as two edits.
 */
function lowerLetters(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}
