import type { SessionSubject, TokenSubject } from '../domain/credential.js';
import { restrictedTo } from '../domain/token.js';
import type { User } from '../domain/user.js';

/** Returns a synthetic session of a user, to find out what it may do. */
export function syntheticSession(user: User): SessionSubject {
  const session = {
    digest: '',
    id: '',
    userId: user.id,
    createdAt: 0,
    endsAt: 0,
    lastSeenAt: 0,
    ip: '',
    userAgent: null,
  };
  return { credential: 'session', user, session };
}

/**
 * Returns a synthetic token of a user, to find out what it may do. It has no id, so no identity
 * header names one.
 */
export function syntheticToken(user: User, scope: string, services: readonly string[]): TokenSubject {
  const token = {
    id: '',
    digest: '',
    kind: 'token' as const,
    userId: user.id,
    name: '',
    scopes: scope.split(' ').filter((name) => name !== ''),
    ...restrictedTo(services),
    createdAt: 0,
    updatedAt: 0,
    expiresAt: null,
  };
  return { credential: 'token', user, token };
}
