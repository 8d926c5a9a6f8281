import { userInfo } from 'node:os';
import type { AuditEvent } from '../domain/audit.js';
import { unknown } from '../accounts/unconfirmed.js';
import type { OpenedStore } from '../server/stores/open-store.js';
import { OutcomeUnknown } from '../store/faults.js';
import type { Refusal } from '../domain/refusal.js';
import { Unavailable } from '../domain/unavailable.js';
import { CommandFailed } from './terminal/failure.js';

/**
 * Writes what a command has done to the audit log.
 *
 * @param done what the command has done, for the error: it stands without its entry
 * @throws CommandFailed when the audit log is required and cannot be written
 */
export function recordOperation(
  { audit }: OpenedStore,
  auditEvents: readonly AuditEvent[],
  done = 'the change was made, but the audit log lacks it',
): void {
  try {
    audit.record(...auditEvents.map((event) => ({ ...event, actor: operator() })));
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    throw new CommandFailed(`${error.message}; ${done}`, { cause: error });
  }
}

/**
 * Makes an operator's change and writes it to the audit log, even when its outcome is unknown.
 *
 * @param isChange whether anything was changed; without a change, nothing is written
 */
export async function recordChange<T>(
  opened: OpenedStore,
  auditEvents: readonly AuditEvent[],
  change: () => Promise<T>,
  isChange: (changed: T) => boolean = () => true,
): Promise<T> {
  let changed: T;
  try {
    changed = await change();
  } catch (error) {
    if (error instanceof OutcomeUnknown) recordOperation(opened, unknown(auditEvents), error.message);
    throw error;
  }
  if (isChange(changed)) recordOperation(opened, auditEvents);
  return changed;
}

/**
 * Makes a change that may be refused. One with an unknown outcome is written to the audit log.
 *
 * @param remedy how to find out what became of a change with an unknown outcome
 * @throws CommandFailed for a refusal
 */
export async function unlessRefused<T extends object>(
  opened: OpenedStore,
  remedy: string,
  change: () => Promise<T | Refusal>,
): Promise<T> {
  const outcome = await change().catch((error: unknown) => {
    if (!(error instanceof Unavailable) || error.refusal.refusal !== 'outcome_unknown') throw error;
    const unconfirmed = `${error.message}; ${remedy}`;
    recordOperation(opened, error.refusal.auditEvents ?? [], unconfirmed);
    throw new CommandFailed(unconfirmed, { cause: error });
  });
  if (isRefusal(outcome)) {
    const detail = 'detail' in outcome ? outcome.detail : outcome.refusal;
    recordOperation(opened, outcome.auditEvents ?? [], detail);
    throw new CommandFailed(detail);
  }
  return outcome;
}

function isRefusal(outcome: object): outcome is Refusal {
  return 'refusal' in outcome;
}

function operator() {
  const uid = process.getuid?.() ?? null;
  try {
    return { operator: userInfo().username, uid };
  } catch {
    // A container may run under a uid that has no user name.
    return { operator: null, uid };
  }
}
