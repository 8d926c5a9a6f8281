import { Unavailable } from '../domain/unavailable.js';
import type { Log } from '../observe/log.js';
import { createLogThrottle } from '../observe/log-throttle.js';

export type FaultLog = (error: unknown, message: string, requestId?: string) => void;

/** Makes a {@link FaultLog}. What is unavailable fails every request, so it is throttled; any other fault is logged each time. */
export function createFaultLog(log: Log): FaultLog {
  const throttle = createLogThrottle();
  return (error, message, requestId) => {
    if (!(error instanceof Unavailable)) {
      log.error({ err: error, request_id: requestId }, message);
      return;
    }
    const suppressed = throttle(error.refusal.refusal);
    if (suppressed !== undefined)
      log.error({ reason: error.message, request_id: requestId, suppressed }, message);
  };
}
