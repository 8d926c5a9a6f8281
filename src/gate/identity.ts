import { mapMaybe, type MaybePromise } from '../util/async.js';
import type { Subject } from '../domain/credential.js';
import { factFields, type ForwardedClaims, type IdentityNames } from '../domain/identity-fields.js';
import { upTo } from '../util/collections.js';
import type { EpochMs } from '../util/time.js';
import { asPropertyName } from '../http/fields.js';
import type { Session } from '../domain/session.js';
import type { Token } from '../domain/token.js';
import type { User } from '../domain/user.js';
import { type KeyRing, type Signer, signingUnavailable } from '../accounts/signing-keys.js';
import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';

type ClaimHeaders = Readonly<Record<string, string>>;

/**
 * @param request the request that the assertion is bound to, or null
 * @throws Unavailable when the request must not be forwarded
 */
export type Identify = (
  subject: Subject,
  now: EpochMs,
  request: BoundRequest | null,
) => MaybePromise<readonly string[]>;

/** @param claims the claim of each further header */
export function createIdentify(
  names: IdentityNames,
  sessionScope: string,
  assertion: { readonly header: string; readonly assertions: Assertions } | null,
  claims: ClaimHeaders = {},
): Identify {
  const built = new SubjectMemo((subject) => identityFields(subject, names, sessionScope, claims));
  if (assertion === null) return (subject) => built.of(subject);
  const { header, assertions } = assertion;
  return (subject, now, request) => {
    const fields = built.of(subject);
    const jwt = request === null ? assertions.of(subject, now) : assertions.boundTo(request, subject, now);
    return mapMaybe(jwt, (text) => [...fields, header, text]);
  };
}

/** Returns the identity headers: alternating names and values. A field without a value is absent. */
export function identityFields(
  subject: Subject,
  names: IdentityNames,
  sessionScope: string,
  claims: ClaimHeaders = {},
): string[] {
  const { user } = subject;
  const token = subject.credential === 'session' ? undefined : subject.token;
  const fields = factFields(names, {
    user_id: user.id,
    customer_id: user.customerId,
    login: user.login,
    role: user.role,
    scope: token === undefined ? sessionScope : token.scopes.join(' '),
    services: token === undefined ? '' : token.services.join(','),
    credential: subject.credential,
    token_id: subject.credential === 'jwt' ? '' : (token?.id ?? ''),
  });
  const held = claimsOf(subject);
  for (const [header, claim] of Object.entries(claims)) {
    const value = held[claim];
    if (value !== undefined) fields.push(header, value);
  }
  return fields.map((each, i) => (i % 2 === 0 ? asPropertyName(each) : each));
}

function claimsOf(subject: Subject): ForwardedClaims {
  if (subject.credential === 'session') return subject.session.provider?.claims ?? {};
  return subject.credential === 'jwt' ? (subject.claims ?? {}) : {};
}

/** Caches a value derived from a subject while the store returns the same objects for its records. */
export class SubjectMemo<T> {
  readonly #make: (subject: Subject) => T;
  readonly #made = new WeakMap<Token | Session, { readonly user: User; readonly value: T }>();

  constructor(make: (subject: Subject) => T) {
    this.#make = make;
  }

  of(subject: Subject): T {
    const { user } = subject;
    const record = subject.credential === 'session' ? subject.session : subject.token;
    const known = this.#made.get(record);
    if (known !== undefined && known.user === user) return known.value;
    const value = this.#make(subject);
    this.#made.set(record, { user, value });
    return value;
  }
}

export interface AssertionSettings {
  readonly issuer: string;
  readonly audience: string;
  readonly ttl: number;
  readonly idleTimeout: number;
  readonly sessionScope: string;
}

/** The request that an assertion is bound to. */
export interface BoundRequest {
  readonly method: string;
  /** As the upstream receives it, including the query. */
  readonly target: string;
  readonly requestId: string;
}

/** Maximum lifetime of a bound assertion, milliseconds: it only covers clock skew and network delay. */
const MAX_BOUND_TTL = 10_000;

/** Maximum number of subjects whose assertion is cached; about 2 KiB each. */
const MAX_KEPT = 10_000;

interface Entry {
  readonly subject: Subject;
  readonly kid: string;
  /** From this time on, a new assertion would be valid for much longer. */
  readonly freshUntil: EpochMs;
  /** A promise while signing is in progress. */
  jwt: MaybePromise<string>;
}

/** Signs the identity of callers as JWTs (RFC 7519), reused while half of their lifetime is left. */
export class Assertions {
  readonly #keys: Pick<KeyRing, 'signer' | 'findSigner'>;
  readonly #settings: AssertionSettings;
  readonly #kept = new LRUCache<string, Entry>(upTo(MAX_KEPT));

  constructor(keys: Pick<KeyRing, 'signer' | 'findSigner'>, settings: AssertionSettings) {
    this.#keys = keys;
    this.#settings = settings;
  }

  of(subject: Subject, now: EpochMs): MaybePromise<string> {
    const signer = this.#keys.signer(now);
    if (signer !== undefined) return this.#signedBy(signer, subject, now);
    return this.#keys.findSigner(now).then((found) => this.#signedBy(found, subject, now));
  }

  /** @throws Unavailable when the request must not be forwarded */
  async boundTo(request: BoundRequest, subject: Subject, now: EpochMs): Promise<string> {
    const signer = this.#keys.signer(now) ?? (await this.#keys.findSigner(now));
    const issuedAt = Math.floor(now / 1000);
    const ttl = Math.min(this.#settings.ttl, MAX_BOUND_TTL);
    const end = Math.min(issuedAt * 1000 + ttl, this.#endOf(subject, now));
    const claims = assertionClaims(subject, this.#settings, issuedAt, Math.floor(end / 1000));
    return sign(signer, { ...claims, ...boundClaims(request) });
  }

  #signedBy(signer: Signer, subject: Subject, now: EpochMs): MaybePromise<string> {
    const id = subject.credential === 'session' ? subject.session.digest : subject.token.digest;
    const known = this.#kept.get(id);
    if (known !== undefined && isUsable(known, signer, subject, now)) return known.jwt;

    const issuedAt = Math.floor(now / 1000);
    const wanted = issuedAt * 1000 + this.#settings.ttl;
    const end = Math.min(wanted, this.#endOf(subject, now));
    const expiresAt = Math.floor(end / 1000);
    const jwt = sign(signer, assertionClaims(subject, this.#settings, issuedAt, expiresAt));
    // If the credential ends earlier, a new assertion would not be valid for longer.
    const freshUntil = end < wanted ? expiresAt * 1000 : expiresAt * 1000 - this.#settings.ttl / 2;
    const entry: Entry = { subject, kid: signer.kid, freshUntil, jwt };
    this.#kept.set(id, entry);
    jwt.then(
      (text) => (entry.jwt = text),
      () => {
        if (this.#kept.peek(id) === entry) this.#kept.delete(id);
      },
    );
    return jwt;
  }

  #endOf(subject: Subject, now: EpochMs): EpochMs {
    if (subject.credential !== 'session') return subject.token.expiresAt ?? Infinity;
    return Math.min(subject.session.endsAt, now + this.#settings.idleTimeout);
  }
}

export function assertionClaims(
  subject: Subject,
  { issuer, audience, sessionScope }: Pick<AssertionSettings, 'issuer' | 'audience' | 'sessionScope'>,
  issuedAt: number,
  expiresAt: number,
): Record<string, unknown> {
  const { user, credential } = subject;
  const token = subject.credential === 'session' ? undefined : subject.token;
  return {
    iss: issuer,
    aud: audience,
    sub: user.id,
    iat: issuedAt,
    exp: expiresAt,
    customer_id: user.customerId,
    login: user.login,
    role: user.role,
    scope: token === undefined ? sessionScope : token.scopes.join(' '),
    ...(token === undefined || token.services.length === 0 ? {} : { services: token.services }),
    credential,
    ...(token === undefined || credential === 'jwt' ? {} : { token_id: token.id }),
  };
}

/** Returns the claims that bind an assertion to its request. The target is hashed because it may be long. */
function boundClaims({ method, target, requestId }: BoundRequest): Record<string, string> {
  const htu = createHash('sha256').update(target, 'latin1').digest('base64url');
  return { htm: method, htu, rid: requestId };
}

async function sign(signer: Signer, claims: Record<string, unknown>): Promise<string> {
  try {
    return await signer.sign({ alg: signer.algorithm, kid: signer.kid, typ: 'JWT' }, claims);
  } catch (cause) {
    throw signingUnavailable('the assertion could not be signed', { cause });
  }
}

function isUsable(known: Entry, signer: Signer, subject: Subject, now: EpochMs): boolean {
  return known.kid === signer.kid && now < known.freshUntil && haveSameClaims(known.subject, subject);
}

function haveSameClaims(a: Subject, b: Subject): boolean {
  const [x, y] = [a.user, b.user];
  if (x !== y && (x.id !== y.id || x.customerId !== y.customerId || x.login !== y.login || x.role !== y.role))
    return false;
  if (a.credential === 'session') return b.credential === 'session' && a.session.endsAt === b.session.endsAt;
  if (b.credential === 'session' || a.credential !== b.credential) return false;
  const [s, t] = [a.token, b.token];
  if (s === t) return true;
  return (
    s.id === t.id &&
    s.expiresAt === t.expiresAt &&
    isSameList(s.scopes, t.scopes) &&
    isSameList(s.services, t.services)
  );
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
