import { isAccessToken } from '../domain/secret.js';

/** Lower-case name of the field of HTTP authentication (RFC 9110 11.6.2). It has no other spelling: there is nothing to fold. */
export const AUTHORIZATION = 'authorization';

/** One credential of RFC 6750 2.1: the scheme in any case (RFC 9110 11.1), spaces, one `token68`. */
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i;

/** The form of an access token (`domain/secret`), whether its checksum holds or not. */
const TOKEN_FORM = /^lk[0-9A-Za-z]{38}$/;

/** The same as a piece of a longer text, such as a list of credentials: no character of a `token68` around it. */
const TOKEN_PIECE = /(?<![A-Za-z0-9._~+/=-])lk[0-9A-Za-z]{38}(?![A-Za-z0-9._~+/=-])/;

/** The same with such characters around it. Then it may be part of another system's value, unless its checksum holds. */
const WRAPPED_TOKENS = /(?<![0-9A-Za-z])lk[0-9A-Za-z]{38}(?![0-9A-Za-z])/g;

const BASIC = /^basic +([A-Za-z0-9+/_-]+=*)$/i;

const JWT_FORM = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*$/;

/** The token of a `Bearer` credential; undefined for every other value of `Authorization`. */
export function bearerToken(authorization: string): string | undefined {
  return BEARER.exec(authorization)?.[1];
}

/** Whether a Bearer token has the form of a signed JWT (RFC 7519 3): header, claims and signature, which `none` has not. */
export function hasJwtForm(token: string): boolean {
  return JWT_FORM.test(token);
}

/** What of a value of `Authorization` may be a JWT, under whatever scheme. */
export function jwtsIn(authorization: string): string[] {
  return readable(authorization)
    .split(/[^A-Za-z0-9._-]+/)
    .filter(hasJwtForm);
}

/** Whether a Bearer token is one of Latchkey's by its form, so that no other system has a use for it. */
export function hasTokenForm(token: string): boolean {
  return TOKEN_FORM.test(token);
}

/**
 * Whether a value of `Authorization` holds an access token, also where it is no credential that is taken: under another
 * scheme, in quotes, in a list, as the name or password of Basic. An upstream must not get that either.
 */
export function holdsToken(authorization: string): boolean {
  if (TOKEN_PIECE.test(authorization)) return true;
  return readable(authorization).match(WRAPPED_TOKENS)?.some(isAccessToken) === true;
}

/** A value with what Basic encodes of name and password (RFC 7617 2). */
function readable(authorization: string): string {
  const basic = BASIC.exec(authorization)?.[1];
  return basic === undefined
    ? authorization
    : `${authorization} ${Buffer.from(basic, 'base64').toString('latin1')}`;
}
