import { userInfo } from 'node:os';
import type { AuditFact } from '../domain/audit.js';
import { unknown } from '../accounts/unconfirmed.js';
import type { StoreRoom } from '../server/stores/open-store.js';
import { OutcomeUnknown } from '../store/store.js';

/** Writes to the audit log what an operator did by a command. @throws AuditUnavailable when it must be written and can't be */
export function recordOperation({ audit }: StoreRoom, ...facts: readonly AuditFact[]): void {
  for (const fact of facts) audit.record({ ...fact, actor: operator() });
}

/** Makes a change of an operator and writes it to the audit log, also when it was not confirmed. */
export async function operate<T>(
  room: StoreRoom,
  facts: readonly AuditFact[],
  change: () => Promise<T>,
): Promise<T> {
  let changed: T;
  try {
    changed = await change();
  } catch (error) {
    if (error instanceof OutcomeUnknown) recordOperation(room, ...unknown(facts));
    throw error;
  }
  recordOperation(room, ...facts);
  return changed;
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
