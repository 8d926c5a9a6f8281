import type { AuditFact } from '../domain/audit.js';
import type { Session } from '../domain/session.js';

/** What the audit log is told of a session; `reason` says why it ended. */
export function sessionFact(
  event: 'session.started' | 'session.ended',
  { id, userId, customerId }: Session,
  reason?: string,
): AuditFact {
  const target = { session_id: id, user_id: userId, customer_id: customerId };
  return { event, outcome: 'success', target, ...(reason === undefined ? {} : { reason }) };
}
