import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type KeyRing, type Signer, signingUnavailable } from '../accounts/signing-keys.js';
import type { MaybePromise } from '../util/async.js';
import type { Subject } from '../domain/credential.js';
import type { EpochMs } from '../util/time.js';
import { upTo } from '../util/collections.js';

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
export function boundClaims({ method, target, requestId }: BoundRequest): Record<string, string> {
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
