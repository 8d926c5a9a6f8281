import type { EpochMs } from './time.js';

/** A login session. The id that the cookie carries is never part of it. */
export interface Session {
  /** SHA-256 of the session id, base64url. */
  readonly digest: string;
  /** Public id, to list and end sessions by. */
  readonly id: string;
  readonly userId: string;
  readonly customerId: string;
  readonly createdAt: EpochMs;
  /** End by the absolute timeout; activity does not move it. */
  readonly endsAt: EpochMs;
  /** Last activity that was written down; the idle timeout counts from here. */
  readonly lastSeenAt: EpochMs;
  readonly ip: string;
  readonly userAgent: string | null;
}
