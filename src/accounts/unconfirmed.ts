import type { AuditEvent } from '../domain/audit.js';
import type { MaybePromise } from '../util/async.js';
import { Unavailable, withAuditEvents } from '../domain/refusal.js';
import { OutcomeUnknown } from '../store/faults.js';

export function unknown(auditEvents: readonly AuditEvent[]): AuditEvent[] {
  return auditEvents.map((event) => ({ ...event, outcome: 'unknown' }));
}

/** Work after a change: if it is unavailable, the error still reports the change. */
export async function reporting<T>(auditEvents: readonly AuditEvent[], work: () => MaybePromise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof Unavailable) throw withEvents(cause, auditEvents);
    throw cause;
  }
} // prettier-ignore

/** A change: if it is not confirmed, the error reports it with the outcome `unknown`. */
export async function reportingUnknown<T>(auditEvents: readonly AuditEvent[], change: () => Promise<T>): Promise<T> {
  try {
    return await change();
  } catch (cause) {
    if (cause instanceof OutcomeUnknown) throw withEvents(cause, unknown(auditEvents));
    throw cause;
  }
} // prettier-ignore

function withEvents(cause: Unavailable, auditEvents: readonly AuditEvent[]): Unavailable {
  return new Unavailable(withAuditEvents(cause.refusal, auditEvents), cause.message, { cause });
}
