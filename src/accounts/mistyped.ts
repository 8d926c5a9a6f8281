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

/** Otherwise a token would lack a restriction that someone meant to set. */
export function firstMistyped(names: readonly string[], suggest = suggestRestriction): string | undefined {
  return firstLike(
    names,
    suggest,
    (name, meant) => `The parameter ${name} is unknown; did you mean ${meant}?`,
  );
}

/** The query is not read for restrictions. */
export function firstMisplaced(names: readonly string[], suggest = suggestRestriction): string | undefined {
  return firstLike(names, suggest, (name, meant) => `The parameter ${name} is not accepted in the query; send ${meant} in the body`);
} // prettier-ignore

export function firstUnchangeable(names: readonly string[]): string | undefined {
  return firstLike(names, suggestRestriction, (name) => `The parameter ${name} is not accepted: a rotation keeps the restrictions of the old token`);
} // prettier-ignore

/** @param explain gets the name and what it looks like, both quoted */
function firstLike(
  names: readonly string[],
  suggest: (name: string) => string | undefined,
  explain: (name: string, meant: string) => string,
): string | undefined {
  for (const name of names) {
    const meant = suggest(name);
    if (meant !== undefined) return explain(JSON.stringify(name.slice(0, MAX_QUOTED)), JSON.stringify(meant));
  }
  return undefined;
}

export function suggestOverlap(name: string): string | undefined {
  const base = baseOf(lowerLetters(name));
  return base === 'overlap' || isOneEdit(base, 'overlap') ? 'overlap' : undefined;
}

const MAX_QUOTED = 64;

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
