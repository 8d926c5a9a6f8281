import { isOneEdit } from '../util/text.js';

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

/** Returns the name of the parameter that another name looks like; undefined if there is none. */
type Suggest = (name: string) => string | undefined;

/**
 * Returns an error for the first unknown parameter that looks like a token restriction.
 *
 * If it were ignored, the token would lack a restriction that someone meant to set. Returns
 * undefined if there is none.
 */
export function firstMistyped(
  names: readonly string[],
  suggest: Suggest = suggestRestriction,
): string | undefined {
  for (const name of names) {
    const suggestion = suggest(name);
    if (suggestion !== undefined)
      return `The parameter ${quoted(name)} is unknown; did you mean ${JSON.stringify(suggestion)}?`;
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
  suggest: Suggest = suggestRestriction,
): string | undefined {
  for (const name of names) {
    const suggestion = suggest(name);
    if (suggestion !== undefined)
      return `The parameter ${quoted(name)} is not accepted in the query; send ${JSON.stringify(suggestion)} in the body`;
  }
  return undefined;
}

/**
 * Returns an error for the first parameter of a rotation that looks like a token restriction.
 *
 * The new token has the restrictions of the old one and no others. Returns undefined if there is
 * none.
 */
export function firstUnchangeable(names: readonly string[]): string | undefined {
  const name = names.find((each) => suggestRestriction(each) !== undefined);
  return name === undefined
    ? undefined
    : `The parameter ${quoted(name)} is not accepted: a rotation keeps the restrictions of the old token`;
}

/** Returns "overlap" for a name that looks like it. */
export function suggestOverlap(name: string): string | undefined {
  const base = baseOf(lowerLetters(name));
  return base === 'overlap' || isOneEdit(base, 'overlap') ? 'overlap' : undefined;
}

const MAX_QUOTED = 64;

function quoted(name: string): string {
  return JSON.stringify(name.slice(0, MAX_QUOTED));
}

function suggestRestriction(name: string): string | undefined {
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
