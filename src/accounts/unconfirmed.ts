import type { AuditEvent } from '../domain/audit.js';
import type { Refusal } from '../domain/refusal.js';
import { OutcomeUnknown } from '../store/faults.js';

/** The same events for a change whose outcome is unknown. */
export function unknown(auditEvents: readonly AuditEvent[]): AuditEvent[] {
  return auditEvents.map((event) => ({ ...event, outcome: 'unknown' }));
}

/** Makes a change, or returns the refusal of one that was not confirmed, with what may have come true. */
export async function unlessUnknown<T>(auditEvents: readonly AuditEvent[], change: () => Promise<T>): Promise<T | Refusal> {
  try {
    return await change();
  } catch (error) {
    if (!(error instanceof OutcomeUnknown)) throw error;
    return { refusal: 'outcome_unknown', auditEvents: unknown(auditEvents) };
  }
} // prettier-ignore
