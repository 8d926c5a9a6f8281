import { isOneEdit } from '../util/text.js';

/** With common wrong names for them. */
const RESTRICTIONS: readonly { readonly name: string; readonly others: readonly string[] }[] = [
  { name: 'scope', others: ['scopes'] },
  { name: 'services', others: ['service'] },
  { name: 'service_id', others: [] },
  { name: 'expires_at', others: ['expires', 'expiry', 'expires_in', 'expiration'] },
  { name: 'rate', others: ['rate_limit', 'ratelimit'] },
  { name: 'addresses', others: ['address', 'cidr', 'cidrs'] },
  { name: 'suspended', others: ['suspend'] },
];

/** Compared with brackets: an edit may concern a bracket. */
const WHOLE_NAMES = ['scope', 'services', 'services[]', 'service_id', 'expires_at'] as const;

type Suggest = (name: string) => string | undefined;

/**
 * Refuses an unknown parameter that looks like a restriction: if it were ignored, the token would lack one
 * that someone meant to set.
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

/** The query is not read for restrictions. */
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

/** A rotation keeps the restrictions of the old token. */
export function firstUnchangeable(names: readonly string[]): string | undefined {
  const name = names.find((each) => suggestRestriction(each) !== undefined);
  return name === undefined
    ? undefined
    : `The parameter ${quoted(name)} is not accepted: a rotation keeps the restrictions of the old token`;
}

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

function baseOf(name: string): string {
  const bracket = name.indexOf('[');
  return bracket < 0 ? name : name.slice(0, bracket);
}

/** Other letters may become two characters in lower case, which would count as two edits. */
function lowerLetters(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}
