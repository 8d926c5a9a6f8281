import type { EpochMs } from '../util/time.js';
import type { ForwardedClaims } from './identity-fields.js';
import { digestOf } from './secret.js';

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
  /** The claims of the person that upstreams receive. */
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

/** A login at a provider that is about to start a session, in the form to match against logouts. */
export interface PendingLogin {
  /** Names of the logouts that would end this session. */
  readonly logouts: readonly string[];
  /** When the provider issued the ID token, by the provider's clock. */
  readonly issuedAt: EpochMs;
  /** When the browser began the login, by the local clock. */
  readonly begunAt: EpochMs;
}

/** A logout reported by a provider, kept while a login from before it may still be in progress. */
export interface RecordedLogout {
  readonly name: string;
  readonly issuedAt: EpochMs;
  readonly receivedAt: EpochMs;
}

/** Whether a logout ends a login: it was in progress, or its ID token is older than the logout. */
export function isEndedBy(
  login: Omit<PendingLogin, 'logouts'>,
  logout: Omit<RecordedLogout, 'name'>,
): boolean {
  return login.issuedAt < logout.issuedAt || login.begunAt <= logout.receivedAt;
}

/** @param sid the provider's own session id; null if it sent none */
export function logoutsOfLogin(issuer: string, userId: string, sid: string | null): string[] {
  return [ofUser(userId), sid === null ? ofUnnamed(userId) : ofSession(issuer, sid)];
}

/** @param userId undefined if the logout names only the session */
export function logoutRecords(
  issuer: string,
  { userId, sid }: { readonly userId: string | undefined; readonly sid: string | undefined },
  issuedAt: EpochMs,
  receivedAt: EpochMs,
): RecordedLogout[] {
  const times = { issuedAt, receivedAt };
  if (sid === undefined) return userId === undefined ? [] : [{ name: ofUser(userId), ...times }];
  const names = [ofSession(issuer, sid)];
  // A login without a provider session id may belong to any session.
  if (userId !== undefined) names.push(ofUnnamed(userId));
  return names.map((name) => ({ name, ...times }));
}

const ofUser = (userId: string) => digestOf(JSON.stringify(['user', userId]));
const ofUnnamed = (userId: string) => digestOf(JSON.stringify(['user without a session', userId]));
const ofSession = (issuer: string, sid: string) => digestOf(JSON.stringify(['session', issuer, sid]));
