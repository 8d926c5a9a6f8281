import { AccountSourceUnavailable } from '../../accounts/http-accounts.js';
import { SigningUnavailable } from '../../accounts/signing-keys.js';
import { AuditUnavailable } from '../../observe/audit.js';
import type { Log } from '../../observe/log.js';
import { StoreUnavailable } from '../../store/store.js';

/** A store that is away, or keys that can't be used, fail every request; the reason is told this often. */
const INTERVAL_MS = 10_000;

/** Logs a fault of a request. */
export type FaultLog = (error: unknown, message: string, requestId?: string) => void;

function isAway(
  error: unknown,
): error is StoreUnavailable | AccountSourceUnavailable | AuditUnavailable | SigningUnavailable {
  return (
    error instanceof StoreUnavailable ||
    error instanceof AccountSourceUnavailable ||
    error instanceof AuditUnavailable ||
    error instanceof SigningUnavailable
  );
}

/** Makes a {@link FaultLog}: one line for a neighbour that is away, not one for each request; any other fault each time. */
export function createFaultLog(log: Log): FaultLog {
  const told = new Map<string, { at: number; suppressed: number }>();
  return (error, message, requestId) => {
    if (!isAway(error)) {
      log.error({ err: error, request_id: requestId }, message);
      return;
    }
    const last = told.get(error.code);
    const now = Date.now();
    if (last !== undefined && now - last.at < INTERVAL_MS) {
      last.suppressed += 1;
      return;
    }
    told.set(error.code, { at: now, suppressed: 0 });
    log.error({ reason: error.message, request_id: requestId, suppressed: last?.suppressed ?? 0 }, message);
  };
}
