import type { Session } from '../../../src/domain/session.js';
import type { SigningKey } from '../../../src/domain/signing-key.js';
import type { Token } from '../../../src/domain/token.js';
import type { User } from '../../../src/domain/user.js';
import type { AttemptLimit } from '../../../src/store/core/usage.js';
import type { Changes } from '../../../src/store/core/directory-checks.js';
import type { Store } from '../../../src/store/core/store.js';

export const NOW = 1_800_000_000_000;
/** Before any real time: what expired then has expired by every clock. */
export const LONG_AGO = 1_600_000_000_000;
export const USE = { at: NOW, ip: '127.0.0.1', userAgent: 'probe' };

export function user(id: string, more: Partial<User> = {}): User {
  return {
    id, customerId: 'C1', login: `${id}@example.com`, name: id, role: 'user', passwordHash: 'hash', otpSecret: null,
    locked: false, createdAt: NOW, updatedAt: NOW, ...more,
  }; // prettier-ignore
}

export function token(id: string, more: Partial<Token> = {}): Token {
  return {
    id, digest: `digest-${id}`, kind: 'token', userId: 'U1', name: '', scopes: ['global'], services: [],
    serviceId: null, createdAt: NOW, updatedAt: NOW, expiresAt: null, ...more,
  }; // prettier-ignore
}

export function session(digest: string, more: Partial<Session> = {}): Session {
  return {
    digest, id: `id-${digest}`, userId: 'U1', createdAt: NOW, endsAt: NOW + 1_000, lastSeenAt: NOW,
    idleEndsAt: more.endsAt ?? NOW + 1_000, ip: '127.0.0.1', userAgent: null, ...more,
  }; // prettier-ignore
}

export function signingKey(kid: string): SigningKey {
  return { kid, algorithm: 'EdDSA', sealedKey: 'v1.a.b', signsFrom: NOW };
} // prettier-ignore

/** Returns a user as recorded in {@link BASE}. */
export function ownerOf(id: string): User {
  return user(id, { customerId: id === 'U3' ? 'C2' : 'C1' });
}

/** Creates a token for its owner in {@link BASE}. */
export async function createToken(store: Store, created: Token, maxPerUser: number | null, now: number) {
  const limits = { active: maxPerUser, stored: null };
  return store.tokens.create(created, ownerOf(created.userId), limits, now);
}

export async function createSession(store: Store, created: Session) {
  return store.sessions.create(created, ownerOf(created.userId), null);
}

/** Returns whether a customer has at least one, two and three tokens. */
export async function countsOf(store: Store, customerId: string): Promise<boolean[]> {
  const has = [1, 2, 3].map(async (count) => store.tokens.customerHasAtLeast(customerId, count));
  return Promise.all(has);
}

/** Limits for the failures of an account, as for a login. */
export const FAILURES: AttemptLimit = {
  key: 'account:a', free: 3, longestWait: 4_000, stopAt: 1_000, forgetAfter: 20_000, forgetFrom: 'latest',
}; // prettier-ignore

export const BASE: Changes = {
  customers: [{ id: 'C1', name: 'One' }, { id: 'C2', name: 'Two' }],
  services: [{ id: 'S1', customerId: 'C1', name: 'www' }],
  users: [user('U1'), user('U2'), user('U3', { customerId: 'C2' })],
}; // prettier-ignore
