import type { Log } from './log.js';

/** The same log for lines that are written whatever its level is. */
export function alwaysWritten(log: Log): Log {
  return log.child({}, { level: 'info' });
}
