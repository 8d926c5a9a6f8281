import { digestOf } from './secret.js';
import type { EpochMs } from '../util/time.js';

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
