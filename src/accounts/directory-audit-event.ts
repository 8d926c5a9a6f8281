import type { AuditEvent, AuditOutcome } from '../domain/audit.js';
import type { Difference } from './directory-differences.js';
import { tokenCreatedEvent, tokenRevokedEvent } from './token-audit-events.js';

/** Most ids that are named in one entry. */
const MAX_NAMED = 100;

/** The audit events of an applied directory: all of it, and each token that it adds or revokes; none without a change. */
export function directoryAuditEvents(
  differences: readonly Difference[],
  outcome: AuditOutcome = 'success',
): AuditEvent[] {
  if (differences.length === 0) return [];
  const count = (change: Difference['change']) => differences.filter((each) => each.change === change).length;
  const applied: AuditEvent = {
    event: 'directory.applied',
    outcome,
    target: {
      added: count('add'),
      updated: count('update'),
      removed: count('remove'),
      records: differences.slice(0, MAX_NAMED).map(({ change, kind, id }) => `${change} ${kind} ${id}`),
    },
  };
  return [applied, ...differences.flatMap(tokenEvents).map((event) => ({ ...event, outcome }))];
}

function tokenEvents({ kind, change, id, created }: Difference): AuditEvent[] {
  if (created !== undefined) return [tokenCreatedEvent(created.token, created.customerId)];
  if (kind !== 'token' || change !== 'remove') return [];
  return [{ ...tokenRevokedEvent(id), reason: 'not_in_directory' }];
}
