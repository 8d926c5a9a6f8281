import type { Subject } from '../domain/credential.js';
import type { Token } from '../domain/token.js';
import type { User } from '../domain/user.js';

/** The authenticated sender of a request: anonymous, with an invalid credential, or a subject. */
export type Sender = 'anonymous' | 'invalid' | Subject;

/** Stands for every role, or scope, that neither configuration has. */
export const OTHER = '(any other)';

/** How a token is limited to services, as far as requests can distinguish it. */
export type ServiceLimit =
  /** Not limited. */
  | 'none'
  /** Limited to services, and the request names none. */
  | 'any'
  /** Limited to services that include the one in the request. */
  | 'named'
  | 'other'
  /**
   * The two sides read the service from different parts of the request, and only one of them finds
   * a service of the token.
   */
  | 'named_by_config'
  | 'named_by_against';

/** A sender who stands for all those that both gates treat alike, and a description. */
export interface SampleSender {
  readonly sender: Sender;
  /** null for no user in particular. */
  readonly role: string | null;
  /** The scopes of a token, separated by spaces; null for a session. */
  readonly scope: string | null;
  readonly limit: ServiceLimit;
}

/** Names of roles and scopes that either policy has. */
export interface Names {
  readonly roles: readonly string[];
  readonly scopes: readonly string[];
}

const ID = 'somebody';

/** Id of the synthetic user. */
export const OWN_ID = ID;

/**
 * Yields every kind of subject, by role, scope and services.
 *
 * A token with several scopes may do what any one of them allows. So where a single action is
 * checked, its decision changes only if that of a token with one of its scopes changes. Where two
 * actions are checked (another user's record), pairs of scopes are enough.
 *
 * @param named the service that each side finds in the request
 */
export function* sampleSenders(
  { roles, scopes }: Names,
  named: readonly [string | null | undefined, string | null | undefined],
  { customerId, jwt, pairs }: { customerId: string; jwt: boolean; pairs: boolean },
): Generator<SampleSender> {
  const limits = limitsOf(named);
  const held = [...scopes, OTHER];
  const lists = pairs ? held.flatMap((a, i) => held.slice(i).map((b) => (a === b ? [a] : [a, b]))) : held.map((name) => [name]); // prettier-ignore
  for (const role of [...roles, OTHER]) {
    const user = userOf(role, customerId);
    if (!jwt) yield { sender: sessionOf(user), role, scope: null, limit: 'none' };
    for (const list of lists)
      for (const { limit, services } of limits)
        yield { sender: holderOf(user, list, services, jwt), role, scope: list.join(' '), limit };
  }
}

function limitsOf([a, b]: readonly [string | null | undefined, string | null | undefined]) {
  const limits: { limit: ServiceLimit; services: string[] }[] = [{ limit: 'none', services: [] }];
  const [x, y] = [a ?? undefined, b ?? undefined];
  // A service that no sample request names.
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

/** Returns a synthetic user. */
export function userOf(role: string, customerId: string): User {
  return {
    id: ID, customerId, login: ID, name: '', role, passwordHash: null, otpSecret: null, locked: false, createdAt: 0, updatedAt: 0,
  };
} // prettier-ignore

/** Returns a synthetic token of a user, as a store would hold it. */
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

/** Returns a synthetic session of a user. */
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
