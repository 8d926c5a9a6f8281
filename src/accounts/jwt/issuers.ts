import { errors, jwtVerify, type JWTVerifyOptions } from 'jose';
import { LRUCache } from 'lru-cache';
import type { JwtSubject } from '../../domain/credential.js';
import { derivedId, digestOf } from '../../domain/secret.js';
import type { EpochMs } from '../../domain/time.js';
import { Unavailable } from '../../domain/unavailable.js';
import { type Claims, unverifiedClaims } from './decode.js';
import { KeySet, type FetchEnded } from './key-set.js';
import { createKeySource, type KeySource } from './key-source.js';
import { ruleFor, type SubjectRule } from './subjects.js';

/** How the verification of a JWT ended, for metrics. */
export type VerificationOutcome = 'valid' | 'invalid' | 'expired' | 'no_subject' | 'unavailable';

/** One issuer (`jwt_issuers`); times in milliseconds. */
export interface IssuerSettings {
  readonly name: string;
  readonly issuer: string;
  readonly audience: string;
  readonly jwks: { readonly url: string } | { readonly file: string } | null;
  readonly algorithms: readonly string[];
  readonly clock_skew: number;
  readonly subjects: readonly SubjectRule[];
}

/** Told what happens; for metrics and the log. */
export interface JwtEvents {
  readonly verified: (issuer: string, outcome: VerificationOutcome) => void;
  readonly fetched: (issuer: string, ...ended: Parameters<FetchEnded>) => void;
}

/** Longest time that a verified JWT is remembered. */
const REMEMBERED_MS = 60_000;
const MAX_REMEMBERED = 10_000;
const MAX_SUBJECT = 255;

/** The last time that is written with four digits of a year. */
const LAST_TIME = Date.UTC(9999, 11, 31);

/** What a header field carries without being encoded; `%` would make two subjects one. */
const SUBJECT = /^[\x21-\x24\x26-\x7e]+$/;

interface Issuer {
  readonly settings: IssuerSettings;
  readonly keys: KeySet;
  readonly options: Omit<JWTVerifyOptions, 'currentDate'>;
}

interface Remembered {
  readonly subject: JwtSubject;
  readonly from: EpochMs;
  readonly until: EpochMs;
}

/**
 * JWTs of other issuers as credentials.
 *
 * The issuer is found by the claim `iss`, before anything is checked or fetched: one that is not configured costs nothing.
 * Keys and algorithms come from the configuration alone, never from the JWT's own header.
 */
export class JwtIssuers {
  readonly #issuers: ReadonlyMap<string, Issuer>;
  readonly #events: JwtEvents;
  readonly #known = new LRUCache<string, Remembered>({ max: MAX_REMEMBERED });
  readonly #pending = new Map<string, Promise<JwtSubject | undefined>>();

  constructor(
    issuers: readonly IssuerSettings[],
    events: JwtEvents,
    sourceOf: (settings: IssuerSettings) => KeySource = ({ issuer, jwks }) => createKeySource(issuer, jwks),
  ) {
    this.#events = events;
    this.#issuers = new Map(
      issuers.map((settings) => [settings.issuer, openIssuer(settings, events, sourceOf(settings))]),
    );
  }

  /** Whether a JWT says that it is of an issuer of these. Nothing else of it is looked at. */
  isOwn(jwt: string): boolean {
    return this.#issuerOf(unverifiedClaims(jwt)) !== undefined;
  }

  /**
   * Who sent a JWT; undefined when it does not hold, whatever the reason.
   *
   * @throws Unavailable when that can't be known, because the issuer's keys can't be fetched
   */
  verify(jwt: string, now: EpochMs): JwtSubject | undefined | Promise<JwtSubject | undefined> {
    const digest = digestOf(jwt);
    const known = this.#known.get(digest);
    // A clock that went back would otherwise give it a longer life.
    if (known !== undefined && now >= known.from && now < known.until) return known.subject;
    const pending = this.#pending.get(digest);
    if (pending !== undefined) return pending;
    const issuer = this.#issuerOf(unverifiedClaims(jwt));
    if (issuer === undefined) return undefined;
    const started = this.#check(issuer, jwt, digest, now).finally(() => this.#pending.delete(digest));
    this.#pending.set(digest, started);
    return started;
  }

  #issuerOf(claims: Claims | undefined): Issuer | undefined {
    return typeof claims?.['iss'] === 'string' ? this.#issuers.get(claims['iss']) : undefined;
  }

  async #check(issuer: Issuer, jwt: string, digest: string, now: EpochMs): Promise<JwtSubject | undefined> {
    const { name, clock_skew: skew } = issuer.settings;
    try {
      const claims = await verifiedClaims(issuer, jwt, now);
      const subject = subjectOf(issuer.settings, claims, digest, now);
      this.#events.verified(name, subject === undefined ? 'no_subject' : 'valid');
      if (subject === undefined) return undefined;
      const until = Math.min((subject.token.expiresAt ?? now) + skew, now + REMEMBERED_MS);
      this.#known.set(digest, { subject, from: now, until });
      return subject;
    } catch (error) {
      if (error instanceof Unavailable) {
        this.#events.verified(name, 'unavailable');
        throw error;
      }
      this.#events.verified(name, error instanceof errors.JWTExpired ? 'expired' : 'invalid');
      return undefined;
    }
  }
}

function openIssuer(settings: IssuerSettings, events: JwtEvents, source: KeySource): Issuer {
  const { name, issuer, audience, algorithms, clock_skew: skew } = settings;
  return {
    settings,
    keys: new KeySet(source, (error) => events.fetched(name, error)),
    options: {
      issuer,
      audience,
      algorithms: [...algorithms],
      clockTolerance: skew / 1000,
      requiredClaims: ['exp', 'sub'],
    },
  };
}

/** @throws Error of jose when it does not hold; Unavailable */
async function verifiedClaims({ keys, options }: Issuer, jwt: string, now: EpochMs): Promise<Claims> {
  const at = { ...options, currentDate: new Date(now) };
  try {
    return (await jwtVerify(jwt, keys.find, at)).payload;
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    // It names no key: any of those that fit may have signed it.
    for await (const key of error) {
      try {
        return (await jwtVerify(jwt, key as Parameters<typeof jwtVerify>[1], at)).payload;
      } catch (failed) {
        if (!(failed instanceof errors.JWSSignatureVerificationFailed)) throw failed;
      }
    }
    throw new errors.JWSSignatureVerificationFailed();
  }
}

/** The subject of claims that hold; undefined when no rule fits, or `sub` can't name a user. */
export function subjectOf(
  settings: IssuerSettings,
  claims: Claims,
  digest: string,
  now: EpochMs,
): JwtSubject | undefined {
  const { sub, exp, iat } = claims;
  if (typeof sub !== 'string' || sub.length > MAX_SUBJECT || !SUBJECT.test(sub)) return undefined;
  const rule = ruleFor(settings.subjects, claims);
  if (rule === undefined) return undefined;
  const issuedAt = typeof iat === 'number' ? Math.trunc(iat) * 1000 : now;
  const createdAt = Math.min(Math.max(0, issuedAt), now);
  return jwtSubject(settings.name, sub, rule, {
    digest,
    createdAt,
    expiresAt: Math.min(Math.trunc(Number(exp)) * 1000, LAST_TIME),
  });
}

function jwtSubject(
  issuer: string,
  subject: string,
  rule: SubjectRule,
  { digest, createdAt, expiresAt }: { readonly digest: string; readonly createdAt: EpochMs; readonly expiresAt: EpochMs },
): JwtSubject {
  const id = `${issuer}/${subject}`;
  const times = { createdAt, updatedAt: createdAt };
  const services = rule.services ?? [];
  return {
    credential: 'jwt',
    user: { id, customerId: rule.customer_id, login: id, name: subject, role: rule.role, passwordHash: null, otpSecret: null, locked: false, ...times },
    token: {
      id: derivedId('jwt', digest), digest, kind: 'token', userId: id, name: `JWT of ${issuer}`, scopes: rule.scope, services,
      serviceId: services.at(-1) ?? null, expiresAt, ...times,
    },
    jwt: { issuer, subject },
  };
} // prettier-ignore
