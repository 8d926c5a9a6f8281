import { formatTime } from '../util/time.js';
import type { Token } from '../domain/token.js';
import type { TokenWithUse } from '../store/core/token-records.js';
import type { CreatedTokenObject, TokenObject } from './schema/responses.js';

export function tokenObject({ token, use }: TokenWithUse, customerId: string): TokenObject {
  const seenAt = use === null ? null : formatTime(use.at);
  return {
    ...baseObject(token, customerId),
    last_seen_at: seenAt,
    last_used_at: seenAt,
    ip: use?.ip ?? null,
    user_agent: use?.userAgent ?? null,
  };
}

export function createdTokenObject(token: Token, customerId: string, secret: string): CreatedTokenObject {
  return { ...baseObject(token, customerId), access_token: secret };
}

function baseObject(token: Token, customerId: string): Omit<CreatedTokenObject, 'access_token'> {
  return {
    id: token.id,
    user_id: token.userId,
    customer_id: customerId,
    service_id: token.serviceId,
    services: token.services,
    name: token.name,
    scope: token.scopes.join(' '),
    scopes: token.scopes,
    created_at: formatTime(token.createdAt),
    updated_at: formatTime(token.updatedAt),
    expires_at: token.expiresAt === null ? null : formatTime(token.expiresAt),
    ...(token.predecessorId === undefined ? {} : { predecessor_id: token.predecessorId }),
    ...token.restrictions,
  };
}

/** For the tokens that a revocation or suspension reached by their rotation. */
export function furtherTokens(count: number): string[] {
  return count === 0 ? [] : ['Latchkey-Further-Tokens', String(count)];
}
