import { userInfo } from 'node:os';
import type { AuditEvent } from '../domain/audit.js';
import { unknown } from '../accounts/unconfirmed.js';
import type { OpenedStore } from '../server/stores/open-store.js';
import { OutcomeUnknown } from '../store/faults.js';
import type { Refusal } from '../domain/refusal.js';
import { CommandFailed } from './terminal/failure.js';

/** Writes to the audit log what an operator did by a command. @throws Unavailable when it must be written and can't be */
export function recordOperation({ audit }: OpenedStore, ...auditEvents: readonly AuditEvent[]): void {
  for (const event of auditEvents) audit.record({ ...event, actor: operator() });
}

/** Makes a change of an operator and writes it to the audit log, also when it was not confirmed. */
export async function recordChange<T>(
  opened: OpenedStore,
  auditEvents: readonly AuditEvent[],
  change: () => Promise<T>,
): Promise<T> {
  let changed: T;
  try {
    changed = await change();
  } catch (error) {
    if (error instanceof OutcomeUnknown) recordOperation(opened, ...unknown(auditEvents));
    throw error;
  }
  recordOperation(opened, ...auditEvents);
  return changed;
}

/**
 * The outcome of an operation that is none of the refusals. What may have come true is written to the audit log.
 *
 * @param unconfirmed says what may have been done
 * @throws CommandFailed for a refusal
 */
export function unlessRefused<T extends object>(
  opened: OpenedStore,
  outcome: T | Refusal,
  unconfirmed: string,
): T {
  if (!isRefusal(outcome)) return outcome;
  if (outcome.refusal !== 'outcome_unknown')
    throw new CommandFailed('detail' in outcome ? outcome.detail : outcome.refusal);
  recordOperation(opened, ...(outcome.auditEvents ?? []));
  throw new CommandFailed(unconfirmed);
}

function isRefusal(outcome: object): outcome is Refusal {
  return 'refusal' in outcome;
}

function operator() {
  const uid = process.getuid?.() ?? null;
  try {
    return { operator: userInfo().username, uid };
  } catch {
    // A container may run as a number that has no name.
    return { operator: null, uid };
  }
}
