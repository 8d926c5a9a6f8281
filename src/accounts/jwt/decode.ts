import { parseUntrustedJson } from '../../util/json.js';

const MAX_JWT = 8 * 1024;

/** Verified or not. */
export type Claims = Readonly<Record<string, unknown>>;

export function unverifiedClaims(jwt: string): Claims | undefined {
  return objectIn(jwt, 1);
}

export function unverifiedAlgorithm(jwt: string): string | undefined {
  const alg = objectIn(jwt, 0)?.['alg'];
  return typeof alg === 'string' ? alg : undefined;
}

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
