import type { AuditEvent } from '../domain/audit.js';
import type { MaybePromise } from '../util/async.js';
import { Unavailable, withAuditEvents } from '../domain/refusal.js';
import { OutcomeUnknown } from '../store/faults.js';

/** Returns the events with the outcome `unknown`. */
export function unknown(auditEvents: readonly AuditEvent[]): AuditEvent[] {
  return auditEvents.map((event) => ({ ...event, outcome: 'unknown' }));
}

/**
 * Does something after a change. If it cannot be done now, the error still reports the change.
 *
 * @param auditEvents events of what was already done
 * @throws Unavailable
 */
export async function reporting<T>(auditEvents: readonly AuditEvent[], work: () => MaybePromise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof Unavailable) throw withEvents(cause, auditEvents);
    throw cause;
  }
} // prettier-ignore

/**
 * Makes a change. If it is not confirmed, the error reports it with the outcome `unknown`.
 *
 * @throws Unavailable
 */
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
