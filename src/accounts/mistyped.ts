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
  const bracket = name.indexOf('[');
  const base = lowerLetters(bracket < 0 ? name : name.slice(0, bracket));
  const known = RESTRICTIONS.find(({ name, others }) => base === name || others.includes(base));
  return (known ?? RESTRICTIONS.find((each) => isOneEdit(base, each.name)))?.name;
}

/**
 * Lowercases only ASCII letters.
 *
 * Some other letters become two characters in lower case, and would count as two edits.
 */
function lowerLetters(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}
