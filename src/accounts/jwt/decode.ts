import { parseForeignJson } from '../../domain/json.js';

/** Longest JWT that is read, in characters. */
const MAX_JWT = 8 * 1024;

/** Claims as they were sent. */
export type Claims = Readonly<Record<string, unknown>>;

/** The unchecked claims of a JWT; undefined when it is not one. */
export function unverifiedClaims(jwt: string): Claims | undefined {
  return objectIn(jwt, 1);
}

/** Whether claims tell of an event, as those of a logout token do: then they are nobody's credential (RFC 8417 4.5). */
export function isEvent({ events }: Claims): boolean {
  return events !== undefined;
}

/**
 * Whether claims bind a JWT to a key (RFC 7800), as DPoP and mutual TLS do. Whoever sends it would have to prove that key,
 * which nothing here checks, so a stolen one would count.
 */
export function isBound({ cnf }: Claims): boolean {
  return cnf !== undefined;
}

/** The algorithm that a JWT names; undefined when it names none. */
export function unverifiedAlgorithm(jwt: string): string | undefined {
  const alg = objectIn(jwt, 0)?.['alg'];
  return typeof alg === 'string' ? alg : undefined;
}

/** @param at its place among the parts between the dots */
function objectIn(jwt: string, at: number): Readonly<Record<string, unknown>> | undefined {
  if (jwt.length > MAX_JWT) return undefined;
  try {
    const text = Buffer.from(jwt.split('.', 2)[at] ?? '', 'base64url').toString();
    const value = parseForeignJson(text, { values: 1_000, members: 200 });
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
