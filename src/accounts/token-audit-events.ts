import type { AuditEvent } from '../domain/audit.js';
import { formatTime } from '../domain/time.js';
import type { Token } from '../domain/token.js';

/** The audit event of a new token. @param customerId of its owner */
export function tokenCreatedEvent(token: Token, customerId: string): AuditEvent {
  return {
    event: 'token.created',
    outcome: 'success',
    target: {
      token_id: token.id,
      user_id: token.userId,
      customer_id: customerId,
      scopes: token.scopes,
      services: token.services,
      expires_at: token.expiresAt === null ? null : formatTime(token.expiresAt),
    },
  };
}

/** The audit event of a revoked token. */
export function tokenRevokedEvent(id: string): AuditEvent {
  return { event: 'token.revoked', outcome: 'success', target: { token_id: id } };
}
