import type { SessionSubject, Subject, TokenSubject } from '../domain/credential.js';
import { restrictedTo, type Token } from '../domain/token.js';
import type { User } from '../domain/user.js';
import type { WhatIf } from './gate.js';

/** The sender of a hypothetical request: nobody, one with an invalid credential, or a subject. */
export type Sender = 'anonymous' | 'invalid' | Subject;

/** Returns an authenticator to which every request comes from one sender. */
export function authenticatorOf(sender: Sender): WhatIf['authenticator'] {
  const isValid = typeof sender !== 'string' && !sender.user.locked;
  return {
    isSent: () => sender !== 'anonymous',
    authenticate: () => (isValid ? sender : { refusal: 'unauthenticated' }),
  };
}

export function syntheticUser(role: string, customerId: string, id = 'somebody'): User {
  return {
    id, customerId, login: id, name: '', role, passwordHash: null, otpSecret: null, locked: false, createdAt: 0, updatedAt: 0,
  };
} // prettier-ignore

export function syntheticSession(user: User): SessionSubject {
  const session = {
    digest: '', id: '', userId: user.id, createdAt: 0, endsAt: 0, idleEndsAt: 0, lastSeenAt: 0, ip: '',
    userAgent: null,
  }; // prettier-ignore
  return { credential: 'session', user, session };
}

/** Returns a synthetic token of a user. It has no id, so no identity header names one. */
export function syntheticToken(
  user: User,
  scope: string | readonly string[],
  services: readonly string[],
): TokenSubject {
  const scopes = typeof scope === 'string' ? scope.split(' ').filter((name) => name !== '') : scope;
  const token = { ...storedToken('', user.id), scopes, ...restrictedTo(services) };
  return { credential: 'token', user, token };
}

/** Returns a token of a user with a scope or services, or a session if neither is given. */
export function syntheticSubject(
  user: User,
  {
    scope,
    services,
  }: { readonly scope?: string | undefined; readonly services?: readonly string[] | undefined },
): SessionSubject | TokenSubject {
  if (scope === undefined && services === undefined) return syntheticSession(user);
  return syntheticToken(user, scope ?? 'global', services ?? []);
}

/** Returns a synthetic token without permissions, as a store would hold it. */
export function storedToken(id: string, userId: string): Token {
  return {
    id, digest: '', kind: 'token', userId, name: '', scopes: [], services: [], serviceId: null, createdAt: 0, updatedAt: 0, expiresAt: null,
  };
} // prettier-ignore
