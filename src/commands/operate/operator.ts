import { userInfo } from 'node:os';
import type { AuditFact } from '../../domain/audit.js';
import type { StoreRoom } from '../../server/stores/store-room.js';

/** Writes to the audit log what an operator did by a command. @throws AuditUnavailable when it must be written and can't be */
export function recordOperation({ audit }: StoreRoom, ...facts: readonly AuditFact[]): void {
  for (const fact of facts) audit.record({ ...fact, actor: operator() });
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
