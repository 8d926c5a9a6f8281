import { AccountSourceUnavailable } from '../accounts/http-accounts.js';
import { SigningUnavailable } from '../accounts/signing-keys.js';
import { AuditUnavailable } from '../observe/audit.js';
import type { Log } from '../observe/log.js';
import { StoreUnavailable } from '../store/store.js';
import { createLogThrottle } from '../observe/log-throttle.js';

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
  // A store or an account source that is away fails every request.
  const throttle = createLogThrottle();
  return (error, message, requestId) => {
    if (!isAway(error)) {
      log.error({ err: error, request_id: requestId }, message);
      return;
    }
    const suppressed = throttle(error.code);
    if (suppressed !== undefined)
      log.error({ reason: error.message, request_id: requestId, suppressed }, message);
  };
}
