import { mapMaybe, type MaybePromise } from '../util/async.js';
import type { Subject } from '../domain/credential.js';
import { factFields, type ForwardedClaims, type IdentityNames } from '../domain/identity-fields.js';
import type { EpochMs } from '../util/time.js';
import { asPropertyName } from '../http/fields.js';
import type { Assertions, BoundRequest } from './assertion.js';
import type { Session } from '../domain/session.js';
import type { Token } from '../domain/token.js';
import type { User } from '../domain/user.js';

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
