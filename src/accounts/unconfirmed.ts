import type { AuditEvent } from '../domain/audit.js';
import type { Refusal } from '../domain/refusal.js';
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
