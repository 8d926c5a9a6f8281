import type { AuditFact } from '../domain/audit.js';
import type { User } from '../domain/user.js';
import type { Checked } from './accounts.js';

type Right = Extract<Checked, { verdict: 'right' }>;
type Failed = Exclude<Checked, Right>;

/** What the audit log is told of a login that was let in. */
export function succeededLogin({ user, otp }: Right): AuditFact[] {
  const target = idsOf(user);
  const facts: AuditFact[] = [{ event: 'login.succeeded', outcome: 'success', target }];
  if (otp !== null) facts.push({ event: 'otp.accepted', outcome: 'success', target });
  return facts;
}

/**
 * What the audit log is told of a login that was not let in. The login name is not told: people type passwords there.
 *
 * @param wait seconds that the next try has to wait; 0 when it need not
 */
export function failedLogin(checked: Failed, wait: number): AuditFact[] {
  const target = idsOf(checked.user);
  const facts: AuditFact[] = [];
  if (checked.verdict === 'needs_otp') {
    facts.push({ event: 'otp.refused', outcome: 'failure', reason: checked.otp, target });
  } else {
    const reason =
      checked.verdict === 'locked' ? 'locked' : checked.user === null ? 'unknown_login' : 'wrong_password';
    facts.push({ event: 'login.failed', outcome: 'failure', reason, target });
  }
  if (wait > 0) facts.push({ event: 'login.locked_out', outcome: 'denied', retry_after: wait, target });
  return facts;
}

/** A try that came too early and was not looked at. */
export function throttled(wait: number): AuditFact {
  return { event: 'login.throttled', outcome: 'denied', retry_after: wait };
}

function idsOf(user: User | null): Record<string, string | null> {
  return { user_id: user?.id ?? null, customer_id: user?.customerId ?? null };
}
