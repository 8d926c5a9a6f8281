import type { Subject } from '../domain/credential.js';
import type { Token } from '../domain/token.js';
import type { User } from '../domain/user.js';

/** Who asks, as if the credential had been checked: nobody, somebody whose credential does not hold, or a subject. */
export type Asker = 'anonymous' | 'invalid' | Subject;

/** Stands for every role, or scope, that neither configuration has. */
export const OTHER = '(any other)';

/** How a token is limited to services, as far as requests tell it apart. */
export type ServiceLimit =
  /** It is not. */
  | 'none'
  /** To services, and the request is about none. */
  | 'any'
  /** The service that the request names is one of them. */
  | 'named'
  | 'other'
  /** The two sides take the service from different parts of the request, and one of them finds one of the token's. */
  | 'named_by_config'
  | 'named_by_against';

/** Somebody who stands for all that both gates judge alike, and what to call them. */
export interface KnownAsker {
  readonly asker: Asker;
  /** null: nobody in particular. */
  readonly role: string | null;
  /** The scopes of a token, separated by spaces; null for a session. */
  readonly scope: string | null;
  readonly limit: ServiceLimit;
}

/** Names that either policy knows. */
export interface Names {
  readonly roles: readonly string[];
  readonly scopes: readonly string[];
}

const ID = 'somebody';

/** The id of the user who asks. */
export const OWN_ID = ID;

/**
 * Everybody with a credential, by role, scope and services.
 *
 * Several scopes allow what one of them allows. So where one action is asked for, a token with several scopes changes only with a
 * token that has one of them; where two are (another's record), two scopes are enough to tell.
 *
 * @param named the service that the request names to each side
 */
export function* askers(
  { roles, scopes }: Names,
  named: readonly [string | null | undefined, string | null | undefined],
  { customerId, jwt, pairs }: { customerId: string; jwt: boolean; pairs: boolean },
): Generator<KnownAsker> {
  const limits = limitsOf(named);
  const held = [...scopes, OTHER];
  const lists = pairs ? held.flatMap((a, i) => held.slice(i).map((b) => (a === b ? [a] : [a, b]))) : held.map((name) => [name]); // prettier-ignore
  for (const role of [...roles, OTHER]) {
    const user = userOf(role, customerId);
    if (!jwt) yield { asker: sessionOf(user), role, scope: null, limit: 'none' };
    for (const list of lists)
      for (const { limit, services } of limits)
        yield { asker: holderOf(user, list, services, jwt), role, scope: list.join(' '), limit };
  }
}

function limitsOf([a, b]: readonly [string | null | undefined, string | null | undefined]) {
  const limits: { limit: ServiceLimit; services: string[] }[] = [{ limit: 'none', services: [] }];
  const [x, y] = [a ?? undefined, b ?? undefined];
  // A name that no request of a sample has.
  const other = ['any-other-service'];
  if (x === undefined && y === undefined) return [...limits, { limit: 'any' as const, services: other }];
  limits.push({ limit: 'other', services: other });
  if (x === undefined || y === undefined || x === y)
    return [...limits, { limit: 'named' as const, services: [x ?? y ?? ''] }];
  return [
    ...limits,
    { limit: 'named' as const, services: [x, y] },
    { limit: 'named_by_config' as const, services: [x] },
    { limit: 'named_by_against' as const, services: [y] },
  ];
}

/** A user who is imagined. */
export function userOf(role: string, customerId: string): User {
  return {
    id: ID, customerId, login: ID, name: '', role, passwordHash: null, otpSecret: null, locked: false, createdAt: 0, updatedAt: 0,
  };
} // prettier-ignore

/** A token of a user, as a store would hold it. */
export function tokenOf(
  id: string,
  userId: string,
  scopes: readonly string[],
  services: readonly string[],
): Token {
  return {
    id, digest: '', kind: 'token', userId, name: '', scopes, services, serviceId: null, createdAt: 0, updatedAt: 0, expiresAt: null,
  };
} // prettier-ignore

/** A session of a user. */
export function sessionOf(user: User): Subject {
  const session = {
    digest: '', id: '', userId: user.id, createdAt: 0, endsAt: 0, lastSeenAt: 0, ip: '', userAgent: null,
  }; // prettier-ignore
  return { credential: 'session', user, session };
}

function holderOf(user: User, scopes: readonly string[], services: readonly string[], jwt: boolean): Subject {
  const token = tokenOf('', user.id, scopes, services);
  if (!jwt) return { credential: 'token', user, token };
  return { credential: 'jwt', user, token, jwt: { issuer: '', subject: '' } };
}
