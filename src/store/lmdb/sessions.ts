import type { LoginUnderWay } from '../../domain/provider-logout.js';
import { type Session, sessionOverAt } from '../../domain/session.js';
import { isAsVerified, type VerifiedOwner } from '../../domain/user.js';
import type { SessionUse } from '../../domain/token.js';
import { encode } from '../records.js';
import type { SessionCreation } from '../session-store.js';
import { countIndex, type Databases, listIndex } from './databases.js';
import { isLoggedOut } from './provider-logouts.js';
import { noteEnded } from './ended-log.js';
import { readSession, readUser } from './read.js';

/** Adds a session within the owner's limit; returns those that ended for it. Run it in a write transaction. */
export function createSession(
  dbs: Databases,
  session: Session,
  owner: VerifiedOwner,
  maxPerUser: number | null,
  login?: LoginUnderWay,
): SessionCreation {
  if (!isAsVerified(readUser(dbs, owner.id), owner)) return 'owner_changed';
  if (login !== undefined && isLoggedOut(dbs, login)) return 'logged_out';
  // One of the same digest is written over, with its entry in the index.
  removeSession(dbs, session.digest);
  const ended = endLeastUsed(dbs, session.userId, maxPerUser);
  addSession(dbs, session);
  return ended;
}

/** Ends those sessions of a user that were used longest ago, until one more fits. */
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
  dbs.expiry.putSync([sessionOverAt(session), 'session', session.digest], true);
}

/** Removes a session with its indexes; says whether it was there. Run it in a write transaction. */
export function removeSession(dbs: Databases, digest: string): boolean {
  const session = readSession(dbs, digest);
  if (session === undefined) return false;
  dbs.sessions.removeSync(digest);
  noteEnded(dbs, `session:${digest}`);
  dbs.sessionsOf.removeSync([session.userId, digest]);
  dbs.expiry.removeSync([sessionOverAt(session), 'session', digest]);
  return true;
}

/** Ends the sessions of a user, all but one; returns how many. Run it in a write transaction. */
export function endSessions(dbs: Databases, userId: string, except: string | undefined): number {
  const ended = listIndex(dbs.sessionsOf, userId).filter((digest) => digest !== except);
  for (const digest of ended) removeSession(dbs, digest);
  return ended.length;
}

/** Writes a session's activity down unless it is gone or a newer one is known. */
export function recordSessionUse(dbs: Databases, digest: string, use: SessionUse): void {
  const session = readSession(dbs, digest);
  if (session === undefined || session.lastSeenAt >= use.at) return;
  const { at: lastSeenAt, ip, userAgent, idleEndsAt } = use;
  const used: Session = { ...session, lastSeenAt, ip, userAgent, idleEndsAt };
  dbs.sessions.putSync(digest, encode(used));
  if (sessionOverAt(used) === sessionOverAt(session)) return;
  dbs.expiry.removeSync([sessionOverAt(session), 'session', digest]);
  dbs.expiry.putSync([sessionOverAt(used), 'session', digest], true);
}
