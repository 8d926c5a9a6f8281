import { isAsVerified, type VerifiedOwner } from '../../domain/user.js';
import type { SessionCreation, SessionStore } from '../session-store.js';
import type { Lists } from './lists.js';
import type { LookUps } from './look-ups.js';
import { readSession, readUser } from './read.js';
import type { Transactions } from './transactions.js';
import type { EpochMs } from '../../util/time.js';
import { decoder, encode, isTime, sudoOf } from '../records.js';
import { countIndex, type Databases, listIndex, type StoredLogout } from './databases.js';
import { isEndedBy, type PendingLogin, type RecordedLogout } from '../../domain/provider-logout.js';
import { type Session, sessionEndsAt } from '../../domain/session.js';
import type { SessionUse } from '../../domain/token.js';
import { unlessDamaged } from '../faults.js';
import { noteEnded } from './ended-log.js';

export function lmdbSessionStore(transactions: Transactions, lookUps: LookUps, lists: Lists): SessionStore {
  return {
    find: (digest) => transactions.read(() => lookUps.session(digest)),
    listOfUser: (userId) => lists.sessions(userId),
    create: async (session, owner, maxPerUser, login) =>
      transactions.write((dbs) => createSession(dbs, session, owner, maxPerUser, login)),
    noteLogouts: async (logouts, until) => transactions.remove((dbs) => noteLogouts(dbs, logouts, until)),
    end: async (digest) => transactions.remove((dbs) => removeSession(dbs, digest) !== undefined),
    endOfUser: async (userId, except) => transactions.remove((dbs) => endSessions(dbs, userId, except)),
    grantSudo: async (owner, credentialId, until) =>
      transactions.write((dbs) => {
        if (!isAsVerified(readUser(dbs, owner.id), owner)) return 'owner_changed';
        addSudo(dbs, owner.id, credentialId, until);
        return 'granted';
      }),
    hasSudo: (userId, credentialId, now) =>
      transactions.read((dbs) => hasSudo(dbs, userId, credentialId, now)),
  };
}

/** Separates the ids in the expiry index; no id contains one. */
const SEPARATOR = ' ';

function hasSudo(dbs: Databases, userId: string, credentialId: string, now: EpochMs): boolean {
  const stored = dbs.sudoGrants.get([userId, credentialId]);
  return stored !== undefined && sudoOf(stored).until > now;
}

/** Writes a sudo grant over the previous one. Run it in a write transaction. */
function addSudo(dbs: Databases, userId: string, credentialId: string, until: EpochMs): void {
  removeSudo(dbs, userId, credentialId);
  dbs.sudoGrants.putSync([userId, credentialId], encode({ until }));
  dbs.expiry.putSync([until, 'sudo', userId + SEPARATOR + credentialId], true);
}

/** Removes the sudo grant of an expiry index entry. Run it in a write transaction. */
export function removeExpiredSudo(dbs: Databases, key: string): void {
  const [userId = '', credentialId = ''] = key.split(SEPARATOR);
  dbs.sudoGrants.removeSync([userId, credentialId]);
}

/** Run it in a write transaction. */
export function removeSudoGrantsOf(dbs: Databases, userId: string): void {
  for (const credentialId of listIndex(dbs.sudoGrants, userId)) removeSudo(dbs, userId, credentialId);
}

function removeSudo(dbs: Databases, userId: string, credentialId: string): void {
  const stored = dbs.sudoGrants.get([userId, credentialId]);
  if (stored === undefined) return;
  dbs.sudoGrants.removeSync([userId, credentialId]);
  dbs.expiry.removeSync([stored.until, 'sudo', userId + SEPARATOR + credentialId]);
}

/**
 * Adds a session within the owner's limit and returns those that ended for it.
 * Run it in a write transaction.
 */
function createSession(
  dbs: Databases,
  session: Session,
  owner: VerifiedOwner,
  maxPerUser: number | null,
  login?: PendingLogin,
): SessionCreation {
  if (!isAsVerified(readUser(dbs, owner.id), owner)) return 'owner_changed';
  if (login !== undefined && isLoggedOut(dbs, login)) return 'logged_out';
  // A session with the same digest is overwritten, with its index entry.
  removeSession(dbs, session.digest);
  const ended = endLeastUsed(dbs, session.userId, maxPerUser);
  addSession(dbs, session);
  return ended;
}

/** Ends the least recently used sessions of a user until one more fits. */
function endLeastUsed(dbs: Databases, userId: string, maxPerUser: number | null): Session[] {
  if (maxPerUser === null || countIndex(dbs.sessionsOf, userId) < maxPerUser) return [];
  const ended = listIndex(dbs.sessionsOf, userId)
    .map((digest) => readSession(dbs, digest))
    .filter((session) => session !== undefined)
    .toSorted((a, b) => b.lastSeenAt - a.lastSeenAt)
    .slice(maxPerUser - 1);
  for (const { digest } of ended) removeSession(dbs, digest);
  return ended;
}

/** Writes a session with its indexes. */
function addSession(dbs: Databases, session: Session): void {
  dbs.sessions.putSync(session.digest, encode(session));
  dbs.sessionsOf.putSync([session.userId, session.digest], true);
  dbs.expiry.putSync([sessionEndsAt(session), 'session', session.digest], true);
}

/**
 * Removes a session with its indexes, and returns it; undefined if there is none. Run it in a write
 * transaction.
 */
export function removeSession(dbs: Databases, digest: string): Session | undefined {
  const session = readSession(dbs, digest);
  if (session === undefined) return undefined;
  dbs.sessions.removeSync(digest);
  noteEnded(dbs, `session:${digest}`);
  dbs.sessionsOf.removeSync([session.userId, digest]);
  dbs.expiry.removeSync([sessionEndsAt(session), 'session', digest]);
  return session;
}

/** Ends the sessions of a user, except one, and returns them. Run it in a write transaction. */
function endSessions(dbs: Databases, userId: string, except: string | undefined): Session[] {
  const others = listIndex(dbs.sessionsOf, userId).filter((digest) => digest !== except);
  return others.map((digest) => removeSession(dbs, digest)).filter((session) => session !== undefined);
}

/** Records a session's last use, unless the session has ended or a newer use is known. */
export function recordSessionUse(dbs: Databases, digest: string, use: SessionUse): void {
  const session = unlessDamaged(() => readSession(dbs, digest));
  if (session === undefined || session.lastSeenAt >= use.at) return;
  const { at: lastSeenAt, ip, userAgent, idleEndsAt } = use;
  const used: Session = { ...session, lastSeenAt, ip, userAgent, idleEndsAt };
  dbs.sessions.putSync(digest, encode(used));
  if (sessionEndsAt(used) === sessionEndsAt(session)) return;
  dbs.expiry.removeSync([sessionEndsAt(session), 'session', digest]);
  dbs.expiry.putSync([sessionEndsAt(used), 'session', digest], true);
}

/** Whether a recorded logout ended a login. */
function isLoggedOut(dbs: Databases, { logouts, ...login }: PendingLogin): boolean {
  return logouts.some((name) => {
    const noted = readLogout(dbs, name);
    return noted !== undefined && isEndedBy(login, noted);
  });
}

/**
 * Records logouts. Of two with the same name, the later times count. Run it in a write transaction.
 */
function noteLogouts(dbs: Databases, logouts: readonly RecordedLogout[], until: EpochMs): void {
  for (const { name, issuedAt, receivedAt } of logouts) {
    const before = readLogout(dbs, name);
    if (before !== undefined) dbs.expiry.removeSync([before.until, 'logout', name]);
    const noted: StoredLogout = {
      issuedAt: Math.max(issuedAt, before?.issuedAt ?? 0),
      receivedAt: Math.max(receivedAt, before?.receivedAt ?? 0),
      until: Math.max(until, before?.until ?? 0),
    };
    dbs.logouts.putSync(name, encode(noted));
    dbs.expiry.putSync([noted.until, 'logout', name], true);
  }
}

const logoutOf = decoder<StoredLogout>('provider logout', {
  issuedAt: isTime,
  receivedAt: isTime,
  until: isTime,
});

function readLogout(dbs: Databases, name: string): StoredLogout | undefined {
  const stored = dbs.logouts.get(name);
  return stored === undefined ? undefined : logoutOf(stored);
}
