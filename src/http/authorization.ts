import { hasTokenForm, isAccessToken } from '../domain/secret.js';
import { fieldValues, firstField } from './fields.js';

/** Lower-case name of the HTTP authentication field (RFC 9110 11.6.2). */
export const AUTHORIZATION = 'authorization';

export function jwtCookiePlace(cookie: string): string {
  return `cookie ${cookie}`;
}

export interface AcceptedSchemes {
  readonly basic: boolean;
  /** Whether `Bearer`, `Token` and `ApiKey` carry a token (`interface.bearer`). */
  readonly bearer: boolean;
  /** Whether a JWT in `Bearer` is a credential: of an issuer that uses `Authorization`. */
  readonly jwt: boolean;
}

/** How a token was sent: `bearer` is also for `Token`, `ApiKey` and a WebSocket subprotocol. */
export type Scheme = 'basic' | 'bearer';

export interface SentCredential {
  readonly scheme: Scheme;
  readonly token: string | undefined;
  readonly jwt: string | undefined;
  /** Whether the user name and the password of Basic are different tokens. */
  readonly isAmbiguous: boolean;
}

/** A scheme in any case (RFC 9110 11.1), spaces, one `token68`, which base64 is too. */
const CREDENTIAL = /^(basic|bearer|token|apikey) +([A-Za-z0-9._~+/-]+=*)$/i;

/** The form of an access token (`domain/secret`) with no `token68` character around it. */
const TOKEN_PIECE = /(?<![A-Za-z0-9._~+/=-])lk[0-9A-Za-z]{38}(?![A-Za-z0-9._~+/=-])/;

/** The same next to such characters: another system's, unless its checksum is valid. */
const WRAPPED_TOKENS = /(?<![0-9A-Za-z])lk[0-9A-Za-z]{38}(?![0-9A-Za-z])/g;

const JWT_FORM = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*$/;

/** The password beside a token as user name, besides an empty one. */
const OAUTH_PASSWORD = 'x-oauth-basic';

export function credentialIn(value: string, accepted: AcceptedSchemes): SentCredential | undefined {
  const parts = CREDENTIAL.exec(value);
  if (parts === null) return undefined;
  const name = (parts[1] as string).toLowerCase();
  const credential = parts[2] as string;
  if (name === 'basic') return accepted.basic ? inBasic(credential) : undefined;
  const token = accepted.bearer && hasTokenForm(credential) ? credential : undefined;
  const jwt = accepted.jwt && name === 'bearer' && hasJwtForm(credential) ? credential : undefined;
  return (token ?? jwt) === undefined ? undefined : { scheme: 'bearer', token, jwt, isAmbiguous: false };
}

/** A token is the password with any user name, or the user name without a password of its own. */
function inBasic(credential: string): SentCredential | undefined {
  const pair = decodeBasic(credential);
  const colon = pair.indexOf(':');
  if (colon < 0) return undefined;
  const [user, password] = [pair.slice(0, colon), pair.slice(colon + 1)] as const;
  const isUser = hasTokenForm(user);
  const isPassword = hasTokenForm(password);
  if (!isPassword && !(isUser && (password === '' || password === OAUTH_PASSWORD))) return undefined;
  const isAmbiguous = isUser && isPassword && user !== password;
  return { scheme: 'basic', token: isPassword ? password : user, jwt: undefined, isAmbiguous };
}

/** Whether a Bearer token has the form of a JWT (RFC 7519 3); the signature may be empty (`alg: none`). */
function hasJwtForm(token: string): boolean {
  return JWT_FORM.test(token);
}

/** Returns the JWT that is the value of another field or a cookie, or follows `Bearer` in it. */
export function jwtIn(value: string): string | undefined {
  const parts = CREDENTIAL.exec(value);
  const jwt = parts?.[1]?.toLowerCase() === 'bearer' ? (parts[2] as string) : value;
  return hasJwtForm(jwt) ? jwt : undefined;
}

/** Returns the parts of an `Authorization` value that may be JWTs, under any scheme. */
export function jwtsIn(authorization: string): string[] {
  return readable(authorization)
    .split(/[^A-Za-z0-9._-]+/)
    .filter(hasJwtForm);
}

/**
 * Whether an `Authorization` value contains an access token, also where it is not accepted as a credential:
 * under another scheme, in quotes, or in a list. An upstream must not receive it either.
 */
export function holdsToken(authorization: string): boolean {
  if (TOKEN_PIECE.test(authorization)) return true;
  return readable(authorization).match(WRAPPED_TOKENS)?.some(isAccessToken) === true;
}

/** Returns a value followed by the decoded user name and password of Basic (RFC 7617 2). */
function readable(authorization: string): string {
  const parts = CREDENTIAL.exec(authorization);
  if (parts?.[1]?.toLowerCase() !== 'basic') return authorization;
  return `${authorization} ${decodeBasic(parts[2] as string)}`;
}

function decodeBasic(credential: string): string {
  return Buffer.from(credential, 'base64').toString('latin1');
}

/** A scheme and what follows. Without a space, the field may be a secret of another system. */
const SCHEME = /^([A-Za-z][A-Za-z0-9-]{0,31}) +[^ ]/;

/** Returns why `Authorization` was ignored; undefined if it is absent. For the log, not the client. */
export function ignoredAuthorization(
  fields: readonly string[],
  { basic, bearer, jwt }: AcceptedSchemes,
): string | undefined {
  const value = firstField(fields, AUTHORIZATION);
  if (value === undefined) return undefined;
  const scheme = SCHEME.exec(value)?.[1];
  if (scheme === undefined) return 'Authorization has no scheme';
  const name = scheme.toLowerCase();
  const isKnown = name === 'basic' ? basic : name === 'bearer' ? bearer || jwt : bearer && /^(?:token|apikey)$/.test(name); // prettier-ignore
  return isKnown
    ? `Authorization has the scheme ${scheme} without a token`
    : `Authorization has the scheme ${scheme}, which is not accepted`;
}

/** Schemes that authenticate the connection, not the request (RFC 4559 6). */
const OF_CONNECTION = /(?:^|,)[ \t]*(?:ntlm|negotiate)(?![\w-])/i;

/**
 * Whether a field authenticates a whole connection, so that the upstream takes later requests on it for those
 * of the same user.
 * @param name of a field with credentials or challenges, in lower case
 */
export function bindsConnection(
  fields: readonly string[],
  name: typeof AUTHORIZATION | 'www-authenticate',
): boolean {
  for (let i = 0; i < fields.length; i += 2) {
    const own = fields[i] as string;
    if (own.length !== name.length || own.toLowerCase() !== name) continue;
    if (OF_CONNECTION.test(fields[i + 1] as string)) return true;
  }
  return false;
}

/** Lower-case name of the only field in which a page can send a token with a handshake (RFC 6455 4.1). */
export const SUBPROTOCOLS = 'sec-websocket-protocol';

/** Start of the subprotocol that carries a token. */
const CARRIER = 'latchkey.bearer.';

/** Returns the tokens in a `Sec-WebSocket-Protocol` value. */
export function tokensOfSubprotocols(value: string): string[] {
  return itemsOf(value).flatMap((item) => (item.startsWith(CARRIER) ? [item.slice(CARRIER.length)] : []));
}

/** Returns a `Sec-WebSocket-Protocol` value without those that carry a token, in any case. */
export function withoutCarriers(value: string): string {
  if (!value.toLowerCase().includes(CARRIER)) return value;
  return itemsOf(value)
    .filter((item) => !item.toLowerCase().startsWith(CARRIER))
    .join(', ');
}

/**
 * Returns the field of a 101 that accepts the token's subprotocol, if the upstream chose none: browsers fail
 * a WebSocket whose offer was not answered (WebSockets 3.1).
 */
export function acceptedCarrier(request: readonly string[], response: readonly string[]): readonly string[] {
  const [token] = tokensOfSubprotocols(fieldValues(request, SUBPROTOCOLS).join());
  if (token === undefined || fieldValues(response, SUBPROTOCOLS).length > 0) return [];
  return ['Sec-WebSocket-Protocol', CARRIER + token];
}

function itemsOf(value: string): string[] {
  return value.split(',').map((item) => item.trim());
}
