import { isAccessToken } from '../domain/secret.js';

/**
 * Lower-case name of the HTTP authentication field (RFC 9110 11.6.2).
 *
 * It consists of letters only, so there are no alias spellings to fold.
 */
export const AUTHORIZATION = 'authorization';

/** Returns the place of JWTs in a cookie, which no field name is equal to. */
export function jwtCookiePlace(cookie: string): string {
  return `cookie ${cookie}`;
}

/**
 * A Bearer credential (RFC 6750 2.1): the scheme in any case
 * (RFC 9110 11.1), spaces, one `token68`.
 */
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i;

/**
 * The form of an access token (`domain/secret`) within a longer text, such as a list of credentials,
 * with no `token68` character around it.
 */
const TOKEN_PIECE = /(?<![A-Za-z0-9._~+/=-])lk[0-9A-Za-z]{38}(?![A-Za-z0-9._~+/=-])/;

/**
 * The same next to such characters. It may belong to another system unless its checksum is valid.
 */
const WRAPPED_TOKENS = /(?<![0-9A-Za-z])lk[0-9A-Za-z]{38}(?![0-9A-Za-z])/g;

const BASIC = /^basic +([A-Za-z0-9+/_-]+=*)$/i;

const JWT_FORM = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*$/;

/** Returns the token of a `Bearer` credential; undefined for any other value of `Authorization`. */
export function bearerToken(authorization: string): string | undefined {
  return BEARER.exec(authorization)?.[1];
}

/**
 * Returns whether a Bearer token has the form of a JWT (RFC 7519 3): header, claims and signature.
 *
 * The signature may be empty, as it is with `alg: none`.
 */
export function hasJwtForm(token: string): boolean {
  return JWT_FORM.test(token);
}

/** Returns the parts of an `Authorization` value that may be JWTs, under any scheme. */
export function jwtsIn(authorization: string): string[] {
  return readable(authorization)
    .split(/[^A-Za-z0-9._-]+/)
    .filter(hasJwtForm);
}

/**
 * Returns whether an `Authorization` value contains an access token.
 *
 * This includes places where it is not accepted as a credential: under another scheme, in quotes,
 * in a list, or as the name or password of Basic. An upstream must not receive it either.
 */
export function holdsToken(authorization: string): boolean {
  if (TOKEN_PIECE.test(authorization)) return true;
  return readable(authorization).match(WRAPPED_TOKENS)?.some(isAccessToken) === true;
}

/** Returns a value followed by the decoded name and password of Basic (RFC 7617 2). */
function readable(authorization: string): string {
  const basic = BASIC.exec(authorization)?.[1];
  return basic === undefined
    ? authorization
    : `${authorization} ${Buffer.from(basic, 'base64').toString('latin1')}`;
}
