import type { Config } from '../../config/schema/config.js';
import type { JwtSubject } from '../../domain/credential.js';
import { jwtCookiePlace } from '../../http/authorization.js';
import { isExactNumber, isObject, memberAt, parseUntrustedJson } from '../../util/json.js';
import { forwardedClaims } from '../../domain/identity-fields.js';
import { derivedId } from '../../domain/secret.js';
import type { EpochMs } from '../../util/time.js';
import { restrictedTo } from '../../domain/token.js';

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

function objectIn(jwt: string, at: number): Claims | undefined {
  if (jwt.length > MAX_JWT) return undefined;
  try {
    const text = Buffer.from(jwt.split('.', 2)[at] ?? '', 'base64url').toString();
    const value = parseUntrustedJson(text, { values: 1_000, members: 200 });
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const MAX_SUBJECT = 255;

const LAST_TIME = Date.UTC(9999, 11, 31);

/** Characters that a header field carries unencoded. With `%`, two subjects could look the same. */
const SUBJECT = /^[\x21-\x24\x26-\x7e]+$/;

/** Times are in milliseconds. */
export type IssuerSettings = Config['jwt_issuers'][number];

export type SubjectRule = IssuerSettings['subjects'][number];

/** As in `RequestHead.jwtPlace`. */
export function placeOf({ header, cookie }: Pick<IssuerSettings, 'header' | 'cookie'>): string {
  return cookie === null ? header.toLowerCase() : jwtCookiePlace(cookie);
}

/** Whether the claims of a JWT with a valid signature are those of a credential for this server. */
export function isCredentialForUs(
  { audience, audience_claim: claim }: IssuerSettings,
  claims: Claims,
): boolean {
  // RFC 7800, as with DPoP and mutual TLS: a stolen JWT would be accepted.
  if (claims['cnf'] !== undefined) return false;
  // A logout token is not a credential (RFC 8417 4.5).
  if (claims['events'] !== undefined) return false;
  const accepted: readonly unknown[] = [audience].flat();
  return [claims[claim]].flat().some((each) => accepted.includes(each));
}

export function ruleFor<Rule extends Pick<SubjectRule, 'claims'>>(
  rules: readonly Rule[],
  claims: Claims,
): Rule | undefined {
  return rules.find((rule) => fitsClaims(rule, claims));
}

/** The rules that may have produced a subject, judging by its `sub` claim. */
export function rulesForSub<Rule extends Pick<SubjectRule, 'claims'>>(
  rules: readonly Rule[],
  sub: string,
): Rule[] {
  const fitting = rules.filter(
    ({ claims: { sub: pattern } }) => pattern === undefined || matches(pattern, sub),
  );
  // Rules after one that requires nothing else are never reached.
  const last = fitting.findIndex(({ claims }) => Object.keys(claims).every((name) => name === 'sub'));
  return last < 0 ? fitting : fitting.slice(0, last + 1);
}

/** Claims that list scopes in one text, separated by spaces (RFC 8693 4.2; Entra ID, Okta). */
const LISTS_IN_TEXT: ReadonlySet<string> = new Set(['scope', 'scp']);

function fitsClaims({ claims: wanted }: Pick<SubjectRule, 'claims'>, claims: Claims): boolean {
  return Object.entries(wanted).every(([name, pattern]) => {
    const claim = memberAt(claims, name);
    const isList = typeof claim === 'string' && LISTS_IN_TEXT.has(name);
    const given = isList ? claim.split(' ').filter((each) => each !== '') : valueOf(claim);
    return given !== null && [given].flat().some((each) => matches(pattern, each));
  });
}

function valueOf(claim: unknown): string | string[] | null {
  if (isPlain(claim)) return String(claim);
  return Array.isArray(claim) && claim.every(isPlain) ? claim.map(String) : null;
}

function isPlain(value: unknown): value is string | number | boolean {
  return typeof value === 'string' || typeof value === 'boolean' || isExactNumber(value);
}

/** @param pattern an exact value, or one with `*` at its start or end */
function matches(pattern: string, value: string): boolean {
  if (pattern.endsWith('*')) return value.startsWith(pattern.slice(0, -1));
  if (pattern.startsWith('*')) return value.endsWith(pattern.slice(1));
  return value === pattern;
}

/**
 * As in `jose`, a fraction of a second lasts until the next one. @param exp in seconds; skew in milliseconds
 */
function refusedFrom(exp: number, skew: number): EpochMs {
  return Math.min(Math.ceil(exp + skew / 1000) * 1000, LAST_TIME);
}

/**
 * Its token expires when the JWT is refused: what is derived from it, such as an assertion, must last as
 * long.
 * @returns undefined if no rule matches, or `sub` cannot name a user
 */
export function subjectOf(
  settings: IssuerSettings,
  claims: Claims,
  digest: string,
  now: EpochMs,
  forwarded: readonly string[],
): JwtSubject | undefined {
  const { sub, exp, iat } = claims;
  if (typeof sub !== 'string' || sub.length > MAX_SUBJECT || !SUBJECT.test(sub)) return undefined;
  const rule = ruleFor(settings.subjects, claims);
  if (rule === undefined) return undefined;
  const issuedAt = typeof iat === 'number' ? Math.trunc(iat) * 1000 : now;
  const createdAt = Math.min(Math.max(0, issuedAt), now);
  const expiresAt = refusedFrom(Number(exp), settings.clock_skew);
  const id = `${settings.name}/${sub}`;
  const times = { createdAt, updatedAt: createdAt };
  return {
    credential: 'jwt',
    user: { id, customerId: rule.customer_id, login: id, name: sub, role: rule.role, passwordHash: null, otpSecret: null, locked: false, ...times },
    token: {
      id: derivedId('jwt', digest), digest, kind: 'token', userId: id, name: `JWT of ${settings.name}`, scopes: rule.scope,
      ...restrictedTo(rule.services ?? []), expiresAt, ...times,
    },
    jwt: { issuer: settings.name, subject: sub },
    claims: forwardedClaims(claims, forwarded),
  };
} // prettier-ignore
