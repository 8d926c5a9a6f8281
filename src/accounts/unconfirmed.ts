import type { AuditFact } from '../domain/audit.js';
import type { Refusal } from '../domain/refusal.js';
import { OutcomeUnknown } from '../store/store.js';

/** The same facts of a change of which nobody knows whether it was made. */
export function unknown(facts: readonly AuditFact[]): AuditFact[] {
  return facts.map((fact) => ({ ...fact, outcome: 'unknown' }));
}

/** Makes a change, or returns the refusal of one that was not confirmed, with what may have come true. */
export async function unlessUnknown<T>(facts: readonly AuditFact[], change: () => Promise<T>): Promise<T | Refusal> {
  try {
    return await change();
  } catch (error) {
    if (!(error instanceof OutcomeUnknown)) throw error;
    return { refusal: 'outcome_unknown', facts: unknown(facts) };
  }
} // prettier-ignore
