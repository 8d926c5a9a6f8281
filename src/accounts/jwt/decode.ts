import { parseUntrustedJson } from '../../domain/json.js';

/** Maximum length of a JWT, in characters. */
const MAX_JWT = 8 * 1024;

/** The claims of a JWT, verified or not. */
export type Claims = Readonly<Record<string, unknown>>;

/** Returns the unverified claims of a JWT; undefined for anything else. */
export function unverifiedClaims(jwt: string): Claims | undefined {
  return objectIn(jwt, 1);
}

/**
 * Whether the claims describe an event, as in a logout token.
 *
 * Such a JWT is not a credential (RFC 8417 4.5).
 */
export function isEvent({ events }: Claims): boolean {
  return events !== undefined;
}

/**
 * Whether the claims bind the JWT to a key (RFC 7800), as DPoP and mutual TLS do.
 *
 * The sender would have to prove possession of that key. Nothing here checks this, so a stolen JWT
 * would be accepted.
 */
export function isBound({ cnf }: Claims): boolean {
  return cnf !== undefined;
}

/** Returns the unverified algorithm of a JWT; undefined if it names none. */
export function unverifiedAlgorithm(jwt: string): string | undefined {
  const alg = objectIn(jwt, 0)?.['alg'];
  return typeof alg === 'string' ? alg : undefined;
}

/** @param at index among the dot-separated parts */
function objectIn(jwt: string, at: number): Readonly<Record<string, unknown>> | undefined {
  if (jwt.length > MAX_JWT) return undefined;
  try {
    const text = Buffer.from(jwt.split('.', 2)[at] ?? '', 'base64url').toString();
    const value = parseUntrustedJson(text, { values: 1_000, members: 200 });
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
