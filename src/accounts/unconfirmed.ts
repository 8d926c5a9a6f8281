import type { AuditEvent } from '../domain/audit.js';
import type { MaybePromise } from '../domain/maybe-promise.js';
import { type Refusal, withAuditEvents } from '../domain/refusal.js';
import { Unavailable } from '../domain/unavailable.js';
import { OutcomeUnknown } from '../store/faults.js';

/** Returns the events with the outcome `unknown`. */
export function unknown(auditEvents: readonly AuditEvent[]): AuditEvent[] {
  return auditEvents.map((event) => ({ ...event, outcome: 'unknown' }));
}

/**
 * Makes a change, or returns a refusal if it was not confirmed.
 *
 * @param auditEvents events of the change, which the refusal reports with the outcome `unknown`
 */
export async function unlessUnknown<T>(auditEvents: readonly AuditEvent[], change: () => Promise<T>): Promise<T | Refusal> {
  try {
    return await change();
  } catch (error) {
    if (!(error instanceof OutcomeUnknown)) throw error;
    return { refusal: 'outcome_unknown', auditEvents: unknown(auditEvents) };
  }
} // prettier-ignore

/**
 * Reads something after a change. If that fails, the refusal still reports the change.
 *
 * @param auditEvents events of what was already done
 */
export async function readAfter<T>(auditEvents: readonly AuditEvent[], read: () => MaybePromise<T>): Promise<T | Refusal> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    return withAuditEvents(error.refusal, auditEvents);
  }
} // prettier-ignore

/**
 * Does something after a change. If it cannot be done now, the error still reports the change.
 *
 * @param auditEvents events of what was already done
 * @throws Unavailable
 */
export async function reporting<T>(auditEvents: readonly AuditEvent[], work: () => Promise<T>): Promise<T> {
  return work().catch((cause: unknown) => {
    if (cause instanceof Unavailable) throw withEvents(cause, auditEvents);
    throw cause;
  });
}

/**
 * Makes a change. If it is not confirmed, the error reports it with the outcome `unknown`.
 *
 * @throws Unavailable
 */
export async function reportingUnknown<T>(auditEvents: readonly AuditEvent[], change: () => Promise<T>): Promise<T> {
  return change().catch((cause: unknown) => {
    if (cause instanceof OutcomeUnknown) throw withEvents(cause, unknown(auditEvents));
    throw cause;
  });
} // prettier-ignore

function withEvents(cause: Unavailable, auditEvents: readonly AuditEvent[]): Unavailable {
  return new Unavailable(withAuditEvents(cause.refusal, auditEvents), cause.message, { cause });
}
