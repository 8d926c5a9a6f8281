import { derivedId, digestFromHex, digestOf } from '../domain/secret.js';
import type { EpochMs } from '../domain/time.js';
import type { Token } from '../domain/token.js';
import { GLOBAL_API_TOKEN, type User } from '../domain/user.js';

/** A legacy key, plain or as its SHA-256 in hexadecimal. */
export interface LegacyKey {
  readonly customer_id: string;
  readonly key?: string | null | undefined;
  readonly key_sha256?: string | null | undefined;
}

/** The user who owns a customer's migrated legacy keys: no password, so it can't log in. */
export function globalApiTokenUser(customerId: string, now: EpochMs): User {
  return {
    id: derivedId('global-api-token', customerId),
    customerId,
    login: `global-api-token+${customerId}`,
    name: GLOBAL_API_TOKEN,
    role: 'superuser',
    passwordHash: null,
    otpSecret: null,
    locked: false,
    createdAt: now,
    updatedAt: now,
  };
}

/** Whether a user is the synthetic owner of its customer's legacy keys. */
export function isGlobalApiTokenUser(user: Pick<User, 'id' | 'customerId'>): boolean {
  return user.id === globalApiTokenUser(user.customerId, 0).id;
}

/** The token that a legacy key becomes: global scope, every service of the account. The key itself is not kept. */
export function legacyToken(entry: LegacyKey, userId: string, now: EpochMs): Token {
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
