import { isOneEdit } from '../domain/one-edit.js';

/** Parameters that restrict a token, and other names by which people mean them. */
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
 * Says which of some parameters that nobody reads was meant to restrict a token; undefined when none was. Ignored, it
 * would leave the token without a restriction that somebody meant to set.
 */
export function firstMistyped(names: readonly string[]): string | undefined {
  for (const name of names) {
    const meant = meantBy(name);
    if (meant !== undefined)
      return `The parameter ${JSON.stringify(name.slice(0, MAX_TOLD))} is unknown; did you mean ${JSON.stringify(meant)}?`;
  }
  return undefined;
}

/**
 * Says which of some parameters that somebody put into the query, where nobody reads them, were meant to restrict a
 * token; undefined when none was.
 */
export function firstMisplaced(
  names: readonly string[],
  meant: (name: string) => string | undefined = meantBy,
): string | undefined {
  for (const name of names) {
    const right = meant(name);
    if (right !== undefined)
      return `The parameter ${JSON.stringify(name.slice(0, MAX_TOLD))} in the query is not read; send ${JSON.stringify(right)} in the body`;
  }
  return undefined;
}

const MAX_TOLD = 64;

function meantBy(name: string): string | undefined {
  const bracket = name.indexOf('[');
  const base = lowerLetters(bracket < 0 ? name : name.slice(0, bracket));
  const known = RESTRICTIONS.find(({ name, others }) => base === name || others.includes(base));
  return (known ?? RESTRICTIONS.find((each) => isOneEdit(base, each.name)))?.name;
}

/** Lower case of ASCII letters. Other letters stay one character each: some become two in lower case, and so two edits. */
function lowerLetters(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}
