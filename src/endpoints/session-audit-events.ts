import type { AuditEvent } from '../domain/audit.js';
import type { Session } from '../domain/session.js';

/**
 * The audit event of a session.
 *
 * @param customerId of its owner
 * @param reason why it ended
 */
export function sessionEvent(
  event: 'session.started' | 'session.ended',
  { id, userId }: Pick<Session, 'id' | 'userId'>,
  customerId: string,
  reason?: string,
): AuditEvent {
  const target = { session_id: id, user_id: userId, customer_id: customerId };
  return { event, outcome: 'success', target, ...(reason === undefined ? {} : { reason }) };
}
