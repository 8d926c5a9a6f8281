import type { Session } from '../../domain/session.js';
import type { TokenUse } from '../../domain/token.js';
import { encode } from '../records.js';
import type { Databases } from './databases.js';
import { readSession } from './read.js';

/** Writes a session with its indexes. Run it in a write transaction. */
export function addSession(dbs: Databases, session: Session): void {
  dbs.sessions.putSync(session.digest, encode(session));
  dbs.sessionsOf.putSync([session.userId, session.digest], true);
  dbs.expiry.putSync([session.endsAt, 'session', session.digest], true);
}

/** Removes a session with its indexes; says whether it was there. Run it in a write transaction. */
export function removeSession(dbs: Databases, digest: string): boolean {
  const session = readSession(dbs, digest);
  if (session === undefined) return false;
  dbs.sessions.removeSync(digest);
  dbs.sessionsOf.removeSync([session.userId, digest]);
  dbs.expiry.removeSync([session.endsAt, 'session', digest]);
  return true;
}

/** Writes a session's activity down unless it is gone or a newer one is known. */
export function recordSessionUse(dbs: Databases, digest: string, use: TokenUse): void {
  const session = readSession(dbs, digest);
  if (session === undefined || session.lastSeenAt >= use.at) return;
  dbs.sessions.putSync(
    digest,
    encode({ ...session, lastSeenAt: use.at, ip: use.ip, userAgent: use.userAgent }),
  );
}
