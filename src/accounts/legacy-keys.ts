import { derivedId, digestFromHex, digestOf } from '../domain/secret.js';
import type { EpochMs } from '../util/time.js';
import type { Token } from '../domain/token.js';
import { GLOBAL_API_TOKEN, KEY_OWNER_LOGIN, type User } from '../domain/user.js';
import type { Directory, LegacyKey } from './declared-directory.js';

/** The owner of a customer's legacy keys. Without a password, nobody can log in as this user. */
export function globalApiTokenUser(customerId: string, now: EpochMs): User {
  return {
    id: derivedId('global-api-token', customerId),
    customerId,
    login: `${KEY_OWNER_LOGIN}${customerId}`,
    name: GLOBAL_API_TOKEN,
    role: 'superuser',
    passwordHash: null,
    otpSecret: null,
    locked: false,
    createdAt: now,
    updatedAt: now,
  };
}

export function isGlobalApiTokenUser(user: Pick<User, 'id' | 'customerId'>): boolean {
  return user.id === globalApiTokenUser(user.customerId, 0).id;
}

/** The key itself is not stored. */
function legacyToken(entry: LegacyKey, userId: string, now: EpochMs): Token {
  const digest = entry.key == null ? digestFromHex(entry.key_sha256 ?? '') : digestOf(entry.key);
  const createdAt = Math.floor(now / 1000) * 1000;
  return {
    id: derivedId('legacy-key', digest),
    digest,
    kind: 'legacy_key',
    userId,
    name: GLOBAL_API_TOKEN,
    scopes: ['global'],
    services: [],
    serviceId: null,
    createdAt,
    updatedAt: createdAt,
    expiresAt: null,
  };
}

/** By digest. */
export function legacyTokens({ legacy_keys: keys = [] }: Directory, now: EpochMs): Map<string, Token> {
  const owners = new Map<string, string>();
  const tokens = new Map<string, Token>();
  for (const key of keys) {
    let owner = owners.get(key.customer_id);
    if (owner === undefined)
      owners.set(key.customer_id, (owner = globalApiTokenUser(key.customer_id, now).id));
    const token = legacyToken(key, owner, now);
    tokens.set(token.digest, token);
  }
  return tokens;
}

/** Returns the ids of keys that are undeclared or declared for another customer. */
export function staleKeys(declared: ReadonlyMap<string, Token>, known: ReadonlyMap<string, Token>): string[] {
  return [...known.values()]
    .filter((token) => !declared.has(token.digest) || isMoved(token, declared.get(token.digest)))
    .map(({ id }) => id);
}

/** A moved key keeps its limits: a suspended one stays so. */
export function withLimitsOf(before: Token | undefined, after: Token): Token {
  return before?.restrictions === undefined ? after : { ...after, restrictions: before.restrictions };
}

/** Each customer has its own owner of keys. */
export function isMoved(before: Token | undefined, after: Token | undefined): boolean {
  return before !== undefined && after !== undefined && before.userId !== after.userId;
}
