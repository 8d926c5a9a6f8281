import { isStorable, storableName } from '../../domain/limits.js';
import { isReservedLogin, loginKey } from '../../domain/user.js';
import { memberAt } from '../../util/json.js';
import { counted, printable } from '../../util/text.js';
import { LoginFailed, type ProviderSettings } from './settings.js';

/** Verified. */
export type Claims = Readonly<Record<string, unknown>>;

export interface Person {
  readonly subject: string;
  readonly login: string;
  readonly name: string;
}

/** Maximum length of a subject (OpenID Connect Core 2) and of a login name, in characters. */
const [MAX_SUBJECT, MAX_LOGIN] = [255, 254];

/** @throws LoginFailed */
export function personOf(claims: Claims, { login_claim: claim, allow_unverified_email: unverified }: ProviderSettings): Person {
  const { sub, name } = claims;
  if (typeof sub !== 'string' || sub === '' || sub.length > MAX_SUBJECT || !isStorable(sub))
    throw new LoginFailed('invalid_answer', 'the claim sub is not a valid subject');
  const login = memberAt(claims, claim);
  if (typeof login !== 'string' || !isLogin(login))
    throw new LoginFailed('login_missing', `${describeClaim(claims, claim)}; expected a valid login name`);
  // Amazon Cognito, Apple and others send the text.
  const isVerified = [true, 'true'].includes(claims['email_verified'] as boolean | string);
  if (claim === 'email' && !isVerified && !unverified)
    throw new LoginFailed('email_unverified', `${describeClaim(claims, 'email_verified')}; expected true`);
  const shown = typeof name === 'string' ? storableName(printable(name)) : '';
  return { subject: sub, login: login.trim(), name: shown };
} // prettier-ignore

/** That of the first value in the map that the person has, else the default role. */
export function roleOf(claims: Claims, { roles }: ProviderSettings): string | undefined {
  const given = new Set(valuesOf(memberAt(claims, roles.claim), roles.separator));
  const value = roles.order.find((each) => given.has(each));
  return (value === undefined ? roles.default : roles.map[value]) ?? undefined;
}

function valuesOf(claim: unknown, separator: string | null): unknown[] {
  const isSplit = separator !== null && typeof claim === 'string';
  return isSplit ? claim.split(separator).map((value) => value.trim()) : [claim].flat();
}

/** For the log: which claims are there, and of which type, but no values. */
export function describeClaims(claims: Claims, { login_claim: login, roles }: ProviderSettings): string {
  return `${describeClaim(claims, login)}; ${describeClaim(claims, roles.claim, roles.separator)}`;
}

function describeClaim(claims: Claims, name: string, separator: string | null = null): string {
  const value = memberAt(claims, name);
  if (value === undefined) return `the claim ${name} is missing`;
  const values = valuesOf(value, separator);
  if (Array.isArray(value)) return `the claim ${name} is a list of ${counted(values.length, 'value')}`;
  if (values.length > 1) return `the claim ${name} is text with ${counted(values.length, 'value')}`;
  if (typeof value === 'object' && value !== null)
    return `the claim ${name} is an object with ${counted(Object.keys(value).length, 'member')}`;
  return `the claim ${name} is ${typeof value === 'string' ? 'one text' : `one ${value === null ? 'null' : typeof value}`}`;
}

/** `email_verified` belongs to the email next to it, and says nothing about a different one. */
export function mergeUserInfo(idToken: Claims, userInfo: Claims): Claims {
  const isFromIdToken = idToken['email_verified'] !== undefined || idToken['email'] !== userInfo['email'];
  const { email_verified: verified } = idToken['email'] !== undefined && isFromIdToken ? idToken : userInfo;
  return { ...userInfo, ...idToken, email_verified: verified };
}

/** If so, the UserInfo endpoint is not needed. */
export function isComplete(
  claims: Claims,
  settings: ProviderSettings,
  forwarded: readonly string[],
): boolean {
  const { login_claim: login, roles, allow_unverified_email: unverified } = settings;
  const needed = [
    login,
    roles.claim,
    ...forwarded,
    ...(login === 'email' && !unverified ? ['email_verified'] : []),
  ];
  return needed.every((claim) => memberAt(claims, claim) !== undefined);
}

function isLogin(login: string): boolean {
  const key = loginKey(login);
  return (
    key !== '' && login.length <= MAX_LOGIN && isStorable(login) && printable(login) === login && !isReservedLogin(key)
  );
} // prettier-ignore

/** Null if the provider sent none that can be stored. */
export function sidOf({ sid }: Claims): string | null {
  return typeof sid === 'string' && sid.length <= 255 && isStorable(sid) ? sid : null;
}
