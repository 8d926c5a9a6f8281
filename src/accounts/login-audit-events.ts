import type { AuditEvent } from '../domain/audit.js';
import type { User } from '../domain/user.js';
import type { Checked } from './accounts.js';

type Right = Extract<Checked, { verdict: 'right' }>;
type Failed = Exclude<Checked, Right>;

export function succeededLogin({ user, otp, auditEvents = [] }: Right): AuditEvent[] {
  const succeeded: AuditEvent = { event: 'login.succeeded', outcome: 'success', target: idsOf(user) };
  return [...auditEvents, succeeded, ...(otp === null ? [] : [otpAccepted(user)])];
}

export function otpAccepted(user: User): AuditEvent {
  return { event: 'otp.accepted', outcome: 'success', target: idsOf(user) };
}

/** The login name is omitted, because people type passwords there. @param wait seconds; 0 for none */
export function failedLogin(checked: Failed, wait: number): AuditEvent[] {
  const target = idsOf(checked.user);
  const auditEvents: AuditEvent[] = [...(checked.auditEvents ?? [])];
  if (checked.verdict === 'needs_otp') {
    auditEvents.push({ event: 'otp.refused', outcome: 'failure', reason: checked.otp, target });
  } else {
    const reason =
      checked.verdict === 'locked' ? 'locked' : checked.user === null ? 'unknown_login' : 'wrong_password';
    auditEvents.push({ event: 'login.failed', outcome: 'failure', reason, target });
  }
  if (wait > 0) auditEvents.push({ event: 'login.locked_out', outcome: 'denied', retry_after: wait, target });
  return auditEvents;
}

export function throttled(wait: number): AuditEvent {
  return { event: 'login.throttled', outcome: 'denied', retry_after: wait };
}

function idsOf(user: User | null): Record<string, string | null> {
  return { user_id: user?.id ?? null, customer_id: user?.customerId ?? null };
}
