import { isUtf8 } from 'node:buffer';
import { parseUntrustedJson } from '../../util/json.js';

const MAX_JWT = 8 * 1024;

/** A header, claims and a signature, none of them empty. */
const JWS_FORM = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/** Verified or not. */
export type Claims = Readonly<Record<string, unknown>>;

export function unverifiedClaims(jwt: string): Claims | undefined {
  return objectIn(jwt, 1);
}

export function unverifiedAlgorithm(jwt: string): string | undefined {
  const alg = objectIn(jwt, 0)?.['alg'];
  return typeof alg === 'string' ? alg : undefined;
}

/** Readers must refuse `crit` with an extension that they do not know (RFC 7515 4.1.11). */
export function formFault(jwt: string): string | undefined {
  if (!JWS_FORM.test(jwt)) return 'it does not consist of three base64url parts';
  const { crit, b64, kid } = objectIn(jwt, 0) ?? {};
  // The only known extension is that of RFC 7797, which a JWT may name but not use.
  const isKnown = Array.isArray(crit) && crit.length > 0 && crit.every((name) => name === 'b64');
  if (crit !== undefined && !(isKnown && b64 === true))
    return 'its header requires an extension (crit) that is not supported';
  if (kid !== undefined && typeof kid !== 'string') return 'its header has a kid that is not text';
  return isUtf8(bytesOf(jwt, 1)) ? undefined : 'its claims are not UTF-8';
}

function bytesOf(jwt: string, at: number): Buffer {
  return Buffer.from(jwt.split('.', 2)[at] ?? '', 'base64url');
}

function objectIn(jwt: string, at: number): Readonly<Record<string, unknown>> | undefined {
  if (jwt.length > MAX_JWT) return undefined;
  try {
    const value = parseUntrustedJson(bytesOf(jwt, at).toString(), { values: 1_000, members: 200 });
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
