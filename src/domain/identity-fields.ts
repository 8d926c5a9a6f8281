import { isExactNumber, memberAt } from '../util/json.js';

/** Facts about the user that upstreams can receive, each in its own header (`identity.headers`). */
export const IDENTITY_FACTS = [
  'user_id', 'customer_id', 'login', 'role', 'scope', 'services', 'credential', 'token_id',
] as const; // prettier-ignore

export type IdentityFact = (typeof IDENTITY_FACTS)[number];

/** A fact without a value is an empty string. */
export type IdentityFacts = Readonly<Record<IdentityFact, string>>;

/** Header field name for each fact (`identity.headers`); null omits the field. */
export type IdentityNames = Readonly<Record<IdentityFact, string | null>>;

/** Returns the identity headers as alternating names and values; facts without a value get none. */
export function factFields(names: IdentityNames, facts: IdentityFacts): string[] {
  const fields: string[] = [];
  for (const fact of IDENTITY_FACTS) {
    const name = names[fact];
    const value = facts[fact];
    if (name !== null && value !== '') fields.push(name, fieldValueOf(value));
  }
  return fields;
}

/** The claims that upstreams receive, as text, by name or JSON pointer. */
export type ForwardedClaims = Readonly<Record<string, string>>;

const MAX_CLAIMS = 8 * 1024;

/**
 * Returns the claims that upstreams receive. One that is not text, a number, a boolean or a list of these is
 * left out, and so is one beyond the limit: half a list of groups could be mistaken for all of it.
 */
export function forwardedClaims(
  claims: Readonly<Record<string, unknown>>,
  names: readonly string[],
): ForwardedClaims {
  const found: Record<string, string> = {};
  let length = 0;
  for (const name of names) {
    const text = claimText(memberAt(claims, name));
    if (text === '' || length + text.length > MAX_CLAIMS) continue;
    found[name] = text;
    length += text.length;
  }
  return found;
}

/** A comma within a value is encoded, so that the value cannot look like several. */
function claimText(claim: unknown): string {
  const values = [claim].flat();
  if (!values.every((value) => ['string', 'boolean'].includes(typeof value) || isExactNumber(value)))
    return '';
  const encoded = values.map((value) => fieldValueOf(String(value)).replaceAll(',', '%2C'));
  return encoded.filter((value) => value !== '').join(',');
}

/** Percent-encodes (UTF-8) what a header field cannot carry, and `%`, reversibly. */
function fieldValueOf(value: string): string {
  return /^[\x21-\x24\x26-\x7e](?:[\x20-\x24\x26-\x7e]*[\x21-\x24\x26-\x7e])?$/.test(value)
    ? value
    : encodeURIComponent(value.toWellFormed());
}
