import type { EpochMs } from '../util/time.js';
import type { ForwardedClaims } from './identity-fields.js';

/** A login session. It never contains the id that the cookie carries. */
export interface Session {
  readonly digest: string;
  /** Public id, for listing and ending sessions. */
  readonly id: string;
  readonly userId: string;
  readonly createdAt: EpochMs;
  /** When the absolute timeout ends the session; activity does not extend it. */
  readonly endsAt: EpochMs;
  /** Last recorded activity; the idle timeout starts here. */
  readonly lastSeenAt: EpochMs;
  /** When the session ends unless it is used, by the idle timeout in effect at its last use. */
  readonly idleEndsAt: EpochMs;
  readonly ip: string;
  readonly userAgent: string | null;
  readonly provider?: ProviderLogin | undefined;
}

export interface ProviderLogin {
  readonly name: string;
  /** The provider's session id (`sid`), by which it can end this session; null if it sent none. */
  readonly sid: string | null;
  /** The sealed ID token, for the logout at the provider. */
  readonly idToken?: string | undefined;
  /** The claims of the person that upstreams receive; absent if there are none. */
  readonly claims?: ForwardedClaims | undefined;
}

/** Session timeouts in milliseconds, from the last use and from the login. */
export interface SessionTimeouts {
  readonly idle_timeout: number;
  readonly absolute_timeout: number;
}

/**
 * Whether a session is active, by both timeouts as now configured. A shorter idle timeout at its last use has
 * ended it for good.
 * @param seenAt time of its last use, which may be later than the recorded one
 */
export function isSessionActive(
  session: Session,
  seenAt: EpochMs,
  settings: SessionTimeouts,
  now: EpochMs,
): boolean {
  if (now >= session.endsAt || now - session.createdAt >= settings.absolute_timeout) return false;
  if (now - seenAt >= settings.idle_timeout) return false;
  return seenAt > session.lastSeenAt || now < session.idleEndsAt;
}

export function sessionEndsAt({ endsAt, idleEndsAt }: Session): EpochMs {
  return Math.min(endsAt, idleEndsAt);
}
