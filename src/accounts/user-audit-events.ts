import type { AuditEvent } from '../domain/audit.js';
import type { User } from '../domain/user.js';

type Ids = Pick<User, 'id'> & { readonly customerId: string | null };

/**
 * Logins and names are omitted: people typed them. @param source what created the user, if not an operator
 */
export function userWrittenEvents(before: User | undefined, user: User, source?: string): AuditEvent[] {
  if (before === undefined) {
    const created = { event: 'user.created', outcome: 'success' } as const;
    const target = { ...idsOf(user), role: user.role };
    return [{ ...created, target, ...(source === undefined ? {} : { reason: source }) }];
  }
  const reasons = [
    ...(before.login === user.login ? [] : ['login']),
    ...(before.name === user.name ? [] : ['name']),
    ...(before.passwordHash === user.passwordHash ? [] : ['password']),
    ...(before.otpSecret === user.otpSecret ? [] : ['one_time_password']),
    ...(before.locked === user.locked ? [] : [user.locked ? 'locked' : 'unlocked']),
    ...(before.deletionPending === user.deletionPending
      ? []
      : [user.deletionPending ? 'deletion_pending' : 'deletion_withdrawn']),
  ];
  return [
    ...(before.role === user.role
      ? []
      : [userChangedEvent(user, 'role', { role: user.role, previous_role: before.role })]),
    ...(before.customerId === user.customerId
      ? []
      : [userChangedEvent(user, 'customer', { previous_customer_id: before.customerId })]),
    ...reasons.map((reason) => userChangedEvent(user, reason)),
  ];
}

export function userChangedEvent(user: Ids, reason: string, more: AuditEvent['target'] = {}): AuditEvent {
  return { event: 'user.changed', outcome: 'success', target: { ...idsOf(user), ...more }, reason };
}

export function userDeletedEvent(user: Ids, reason?: string): AuditEvent {
  const deleted = { event: 'user.deleted', outcome: 'success', target: idsOf(user) } as const;
  return reason === undefined ? deleted : { ...deleted, reason };
}

function idsOf({ id, customerId }: Ids) {
  return { user_id: id, customer_id: customerId };
}
