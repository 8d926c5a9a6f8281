import type { AuditEvent, AuditOutcome } from '../domain/audit.js';
import type { Difference } from './directory-differences.js';

/** So many ids are named in one entry. */
const MAX_NAMED = 100;

/** The audit event of an applied directory; undefined when there was nothing to change. */
export function directoryAuditEvent(
  differences: readonly Difference[],
  outcome: AuditOutcome = 'success',
): AuditEvent | undefined {
  if (differences.length === 0) return undefined;
  const count = (change: Difference['change']) => differences.filter((each) => each.change === change).length;
  return {
    event: 'directory.applied',
    outcome,
    target: {
      added: count('add'),
      updated: count('update'),
      removed: count('remove'),
      records: differences.slice(0, MAX_NAMED).map(({ change, kind, id }) => `${change} ${kind} ${id}`),
    },
  };
}
