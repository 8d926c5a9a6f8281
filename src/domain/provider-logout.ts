import { digestOf } from './secret.js';
import type { EpochMs } from './time.js';

/** A login at a provider that is about to give a session, as logouts are compared with it. */
export interface LoginUnderWay {
  /** Names of the logouts that would end that session. */
  readonly logouts: readonly string[];
  /** When the provider issued the ID token, by the provider's clock. */
  readonly issuedAt: EpochMs;
  /** When the browser began the login, by the clock here. */
  readonly begunAt: EpochMs;
}

/** A logout that a provider told of, kept for as long as a login from before it may still be under way. */
export interface NotedLogout {
  readonly name: string;
  /** When the provider issued it, by the provider's clock. */
  readonly issuedAt: EpochMs;
  /** When it was received, by the clock here. */
  readonly receivedAt: EpochMs;
}

/** Whether a login gives no session because of a logout: it was under way, or the provider says that it was before. */
export function isEndedBy(login: Omit<LoginUnderWay, 'logouts'>, logout: Omit<NotedLogout, 'name'>): boolean {
  return login.issuedAt < logout.issuedAt || login.begunAt <= logout.receivedAt;
}

/** Names of the logouts that end a login. @param sid the provider's own session, when it names one */
export function logoutsOfLogin(provider: string, userId: string, sid: string | null): string[] {
  return [ofUser(userId), sid === null ? ofUnnamed(userId) : ofSession(provider, sid)];
}

/**
 * What is noted of a logout: of one of a person's sessions at the provider, or of all of them.
 *
 * @param userId undefined when only the session is named
 */
export function notedLogouts(
  provider: string,
  { userId, sid }: { readonly userId: string | undefined; readonly sid: string | undefined },
  issuedAt: EpochMs,
  receivedAt: EpochMs,
): NotedLogout[] {
  const times = { issuedAt, receivedAt };
  if (sid === undefined) return userId === undefined ? [] : [{ name: ofUser(userId), ...times }];
  const session = { name: ofSession(provider, sid), ...times };
  // A login without a session of the provider's may be any of them.
  return userId === undefined ? [session] : [session, { name: ofUnnamed(userId), ...times }];
}

const ofUser = (userId: string) => digestOf(JSON.stringify(['user', userId]));
const ofUnnamed = (userId: string) => digestOf(JSON.stringify(['user without a session', userId]));
const ofSession = (provider: string, sid: string) => digestOf(JSON.stringify(['session', provider, sid]));
