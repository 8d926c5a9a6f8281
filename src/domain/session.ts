import type { EpochMs } from './time.js';

/** A login session. The id that the cookie carries is never part of it. */
export interface Session {
  /** SHA-256 of the session id, base64url. */
  readonly digest: string;
  /** Public id, to list and end sessions by. */
  readonly id: string;
  /** The owner. The session's customer is the owner's. */
  readonly userId: string;
  readonly createdAt: EpochMs;
  /** End by the absolute timeout; activity does not move it. */
  readonly endsAt: EpochMs;
  /** Last activity that was written down; the idle timeout counts from here. */
  readonly lastSeenAt: EpochMs;
  /** When it ends unless it is used before, by the idle timeout that held at its last use. Older records have none. */
  readonly idleEndsAt?: EpochMs | undefined;
  readonly ip: string;
  readonly userAgent: string | null;
  /** The login at an OpenID Connect provider that made it; absent for a login with a password. */
  readonly provider?: ProviderLogin | undefined;
}

/** A login at an OpenID Connect provider. */
export interface ProviderLogin {
  /** Name of the provider in the configuration. */
  readonly name: string;
  /** The provider's own session (the claim `sid`), by which it ends this one; null when it names none. */
  readonly sid: string | null;
}

/** When a session ends, in milliseconds since its last use and since its login. */
export interface SessionTimeouts {
  readonly idle_timeout: number;
  readonly absolute_timeout: number;
}

/**
 * Whether a session is on. Both timeouts hold as they are set now; one that was shorter when the session was used last
 * has ended it for good.
 *
 * @param seenAt its last use, which may be later than the one that was written down
 */
export function isSessionOn(
  session: Session,
  seenAt: EpochMs,
  settings: SessionTimeouts,
  now: EpochMs,
): boolean {
  if (now >= session.endsAt || now - session.createdAt >= settings.absolute_timeout) return false;
  if (now - seenAt >= settings.idle_timeout) return false;
  return seenAt > session.lastSeenAt || now < (session.idleEndsAt ?? Infinity);
}

/** When a session is over if nobody uses it again. */
export function sessionOverAt({ endsAt, idleEndsAt }: Session): EpochMs {
  return Math.min(endsAt, idleEndsAt ?? Infinity);
}
