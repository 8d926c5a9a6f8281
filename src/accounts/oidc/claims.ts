import { MAX_NAME } from '../../domain/limits.js';
import { isReservedLogin, loginKey } from '../../domain/user.js';
import { printable } from '../../observe/printable.js';
import { LoginFailed, type ProviderSettings } from './settings.js';

/** Claims whose signature was checked. */
export type Claims = Readonly<Record<string, unknown>>;

/** What a provider says of a person. */
export interface Person {
  readonly subject: string;
  readonly login: string;
  readonly name: string;
}

/** Longest subject (OpenID Connect Core 2) and login name, in characters. */
const [MAX_SUBJECT, MAX_LOGIN] = [255, 254];

/** The person that claims are about. @throws LoginFailed */
export function personOf(claims: Claims, { login_claim: claim, allow_unverified_email: unverified }: ProviderSettings): Person {
  const { sub, name } = claims;
  if (typeof sub !== 'string' || sub === '' || sub.length > MAX_SUBJECT)
    throw new LoginFailed('invalid_answer', 'the claim sub is not a valid subject');
  const login = claims[claim];
  if (typeof login !== 'string' || !isLogin(login))
    throw new LoginFailed('login_missing', `the claim ${claim} is not a valid login name`);
  if (claim === 'email' && claims['email_verified'] !== true && !unverified)
    throw new LoginFailed('email_unverified', 'the claim email_verified is not true');
  const shown = typeof name === 'string' ? Array.from(printable(name)).slice(0, MAX_NAME).join('') : '';
  return { subject: sub, login: login.trim(), name: shown };
} // prettier-ignore

/** The role that claims give, by the first value of the map that a person has; undefined for none. */
export function roleOf(claims: Claims, { roles }: ProviderSettings): string | undefined {
  const given = new Set([claims[roles.claim]].flat());
  const mapped = Object.entries(roles.map).find(([value]) => given.has(value));
  return mapped?.[1] ?? roles.default ?? undefined;
}

/**
 * The claims of an ID token with those of the UserInfo endpoint that it lacks. Whether an email is verified is told beside
 * that email, and says nothing of another one.
 */
export function withMore(signed: Claims, told: Claims): Claims {
  const isOfSigned = signed['email_verified'] !== undefined || signed['email'] !== told['email'];
  const { email_verified: verified } = signed['email'] !== undefined && isOfSigned ? signed : told;
  return { ...told, ...signed, email_verified: verified };
}

/** Whether the claims are complete, so that the UserInfo endpoint need not be asked. */
export function isComplete(claims: Claims, settings: ProviderSettings): boolean {
  const { login_claim: login, roles, allow_unverified_email: unverified } = settings;
  const needed = [login, roles.claim, ...(login === 'email' && !unverified ? ['email_verified'] : [])];
  return needed.every((claim) => claims[claim] !== undefined);
}

function isLogin(login: string): boolean {
  const key = loginKey(login);
  return (
    key !== '' && login.length <= MAX_LOGIN && printable(login) === login && !isReservedLogin(key)
  );
} // prettier-ignore

/** The provider's own session, when it names one. */
export function sidOf({ sid }: Claims): string | null {
  return typeof sid === 'string' && sid.length <= 255 ? sid : null;
}
