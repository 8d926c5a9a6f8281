import { parseForeignJson } from '../../domain/json.js';

/** Longest JWT that is looked at, in characters. */
const MAX_JWT = 8 * 1024;

/** Claims as they were sent. */
export type Claims = Readonly<Record<string, unknown>>;

/** The claims of a JWT, of which nothing is checked yet; undefined when it is none. */
export function unverifiedClaims(jwt: string): Claims | undefined {
  if (jwt.length > MAX_JWT) return undefined;
  try {
    const text = Buffer.from(jwt.split('.', 2)[1] ?? '', 'base64url').toString();
    const claims = parseForeignJson(text, { values: 1_000, members: 200 });
    return typeof claims === 'object' && claims !== null && !Array.isArray(claims)
      ? (claims as Claims)
      : undefined;
  } catch {
    return undefined;
  }
}
