/** Sessions, the logouts that end them, and sudo grants. */
import {
  type Session,
  sessionEndsAt,
  isEndedBy,
  type PendingLogin,
  type RecordedLogout,
} from '../../domain/session.js';
import { isAsVerified, type User, type VerifiedOwner } from '../../domain/user.js';
import {
  boundOf,
  EXPIRY,
  GUARD,
  keyOf,
  LOGOUT,
  SESSION,
  SESSION_USE,
  sessionsOf,
  SUDO,
  sudosOf,
  USER,
  valueOf,
} from './kinds.js';
import { guardAddition } from './token-records.js';
import type { SessionUse } from '../../domain/token.js';
import { mapMaybe, type MaybePromise } from '../../util/async.js';
import type { EpochMs } from '../../util/time.js';
import type { Kv, Stored } from './kv.js';
import { pagesOf, type Transaction, type Transactor, valueAt } from './transaction.js';

export interface SessionWithOwner {
  readonly session: Session;
  readonly owner: User;
}

/** The sessions that ended to make room for the new one, or why none was created. */
export type SessionCreation = readonly Session[] | 'owner_changed' | 'logged_out';

/** No id contains a slash. */
const sudoId = (userId: string, credentialId: string) => `${userId}/${credentialId}`;

export type SessionStore = ReturnType<typeof sessionStore>;

export function sessionStore(transactor: Transactor) {
  const { kv } = transactor;
  const end = async <T>(userId: string | undefined, decide: (tx: Transaction) => Promise<T>): Promise<T> =>
    transactor.transact(decide, {
      isReserved: true,
      ...(userId === undefined ? {} : { guard: sessionsOf(userId) }),
    });
  return {
    find: (digest: string) => findSession(kv, digest),
    listOfUser: async (userId: string): Promise<Session[]> => {
      const found: Session[] = [];
      for await (const page of pagesOf(kv, sessionsOf(userId))) {
        const digests = page.map(({ name }) => name);
        const keys = [SESSION, SESSION_USE].flatMap((kind) => digests.map((digest) => keyOf(kind, digest)));
        const stored = await kv.read(keys);
        for (const [i, digest] of digests.entries())
          found.push(...asUsed(digest, stored[i], stored[digests.length + i]));
      }
      return found;
    },
    /**
     * Adds a session unless its owner changed since being verified. Beyond `maxPerUser` others, the least
     * recently used end. @param login for which it is; a recorded logout may have ended it
     * @param ready what else has to succeed first
     */
    create: async (
      session: Session,
      owner: VerifiedOwner,
      maxPerUser: number | null,
      login?: PendingLogin,
      ready?: Promise<unknown>,
    ) =>
      transactor.transact(async (tx) => createSession(tx, session, owner, maxPerUser, login, ready), {
        guard: sessionsOf(owner.id),
      }),
    /** Records provider logouts until a time, for logins that are in progress. */
    noteLogouts: async (logouts: readonly RecordedLogout[], until: EpochMs) =>
      end(undefined, async (tx) => noteLogouts(tx, logouts, until)),
    end: async (digest: string) => end(undefined, async (tx) => endSession(tx, digest)),
    /** Ends all but `except`. Returns those that ended. */
    endOfUser: async (userId: string, except?: string): Promise<readonly Session[]> =>
      end(userId, async (tx) => endSessionsOf(tx, userId, except)),
    /** Grants sudo to a token or session, unless its user changed since being verified. */
    grantSudo: async (owner: VerifiedOwner, credentialId: string, until: EpochMs) =>
      transactor.transact(async (tx): Promise<'granted' | 'owner_changed'> => {
        if (!isAsVerified(await tx.get(USER, owner.id), owner)) return 'owner_changed';
        const id = sudoId(owner.id, credentialId);
        tx.put(SUDO, id, { until });
        tx.link(sudosOf(owner.id), credentialId, until);
        tx.link(EXPIRY, keyOf(SUDO, id), until);
        return 'granted';
      }),
    hasSudo: (userId: string, credentialId: string, now: EpochMs) =>
      mapMaybe(valueAt(kv, SUDO, sudoId(userId, credentialId)), (sudo) => (sudo?.until ?? 0) > now),
  };
}

function findSession(kv: Kv, digest: string): MaybePromise<SessionWithOwner | undefined> {
  return mapMaybe(
    kv.urgent.follow(keyOf(SESSION, digest), keyOf(SESSION_USE, digest)),
    ({ chain: [stored, owner], beside }) => {
      const [session] = asUsed(digest, stored, beside);
      const user = session && valueOf(USER, session.userId, owner);
      return session && user && { session, owner: user };
    },
  );
}

/** Returns a session as its last use left it: in a list, empty if there is no session. */
function asUsed(digest: string, stored: Stored | undefined, used: Stored | undefined): Session[] {
  const session = valueOf(SESSION, digest, stored);
  return session === undefined ? [] : [withUse(session, valueOf(SESSION_USE, digest, used))];
}

function withUse(session: Session, use: SessionUse | null | undefined): Session {
  if (use == null || use.at <= session.lastSeenAt) return session;
  const { at: lastSeenAt, ip, userAgent, idleEndsAt } = use;
  return { ...session, lastSeenAt, ip, userAgent, idleEndsAt };
}

async function readUsed(tx: Transaction, digest: string): Promise<Session | undefined> {
  const session = await tx.get(SESSION, digest);
  return session && withUse(session, await tx.get(SESSION_USE, digest));
}

async function createSession(
  tx: Transaction,
  session: Session,
  owner: VerifiedOwner,
  maxPerUser: number | null,
  login: PendingLogin | undefined,
  ready: Promise<unknown> | undefined,
): Promise<SessionCreation> {
  const index = sessionsOf(owner.id);
  await tx.load([keyOf(USER, owner.id), keyOf(GUARD, index)]);
  await ready;
  if (!isAsVerified(await tx.get(USER, owner.id), owner)) return 'owner_changed';
  if (login !== undefined && (await isLoggedOut(tx, login))) return 'logged_out';
  let most = boundOf(await tx.get(GUARD, index)) ?? (await tx.count(index));
  let ended: Session[] = [];
  if (maxPerUser !== null && most >= maxPerUser) {
    most = await tx.count(index);
    if (most >= maxPerUser) {
      const others = await othersOf(tx, session);
      ended = others.slice(maxPerUser - 1);
      most = others.length - ended.length;
    }
  }
  for (const each of ended) removeSession(tx, each);
  await addSession(tx, session, most);
  return ended;
}

/** One with the same digest is replaced, with its use. @param most as for `addToken` */
export async function addSession(tx: Transaction, session: Session, most?: number): Promise<void> {
  tx.remove(SESSION_USE, session.digest);
  tx.put(SESSION, session.digest, session, keyOf(USER, session.userId));
  tx.link(sessionsOf(session.userId), session.digest);
  tx.link(EXPIRY, keyOf(SESSION, session.digest), sessionEndsAt(session));
  await guardAddition(tx, sessionsOf(session.userId), most);
}

/** The latest used first. */
async function othersOf(tx: Transaction, { userId, digest }: Session): Promise<Session[]> {
  const others = (await readSessions(tx, userId)).filter((each) => each.digest !== digest);
  return others.toSorted((a, b) => b.lastSeenAt - a.lastSeenAt);
}

/** Nobody adds one until the commit. */
async function readSessions(tx: Transaction, userId: string): Promise<Session[]> {
  await tx.has(GUARD, sessionsOf(userId));
  const digests = (await tx.range(sessionsOf(userId))).map(({ name }) => name);
  await tx.load([SESSION, SESSION_USE].flatMap((kind) => digests.map((digest) => keyOf(kind, digest))));
  const found = await Promise.all(digests.map((digest) => readUsed(tx, digest)));
  return found.filter((session) => session !== undefined);
}

export function removeSession(tx: Transaction, { digest, userId }: Pick<Session, 'digest' | 'userId'>): void {
  tx.remove(SESSION, digest);
  tx.remove(SESSION_USE, digest);
  tx.unlink(sessionsOf(userId), digest);
  tx.unlink(EXPIRY, keyOf(SESSION, digest));
  tx.tell(`session:${digest}`);
}

export async function endSession(tx: Transaction, digest: string): Promise<boolean> {
  const session = await tx.get(SESSION, digest);
  if (session !== undefined) removeSession(tx, session);
  return session !== undefined;
}

async function endSessionsOf(tx: Transaction, userId: string, except?: string): Promise<Session[]> {
  const ended = (await readSessions(tx, userId)).filter(({ digest }) => digest !== except);
  for (const session of ended) removeSession(tx, session);
  return ended;
}

export async function endAllOf(tx: Transaction, userId: string): Promise<void> {
  await endSessionsOf(tx, userId);
  for (const { name } of await tx.range(sudosOf(userId))) removeSudo(tx, sudoId(userId, name));
}

export function removeSudo(tx: Transaction, id: string): void {
  const [userId = '', credentialId = ''] = id.split('/');
  tx.remove(SUDO, id);
  tx.unlink(sudosOf(userId), credentialId);
  tx.unlink(EXPIRY, keyOf(SUDO, id));
}

async function isLoggedOut(tx: Transaction, { logouts, ...login }: PendingLogin): Promise<boolean> {
  await tx.load(logouts.map((name) => keyOf(LOGOUT, name)));
  for (const name of logouts) {
    const noted = await tx.get(LOGOUT, name);
    if (noted !== undefined && isEndedBy(login, noted)) return true;
  }
  return false;
}

/** Of two with the same name, the later times count. */
async function noteLogouts(
  tx: Transaction,
  logouts: readonly RecordedLogout[],
  until: EpochMs,
): Promise<void> {
  for (const { name, issuedAt, receivedAt } of logouts) {
    const before = await tx.get(LOGOUT, name);
    const noted = {
      issuedAt: Math.max(issuedAt, before?.issuedAt ?? 0),
      receivedAt: Math.max(receivedAt, before?.receivedAt ?? 0),
      until: Math.max(until, before?.until ?? 0),
    };
    tx.put(LOGOUT, name, noted);
    tx.link(EXPIRY, keyOf(LOGOUT, name), noted.until);
  }
}

/** Removes a session that ended, or moves its end to where its last use left it. */
export async function expireSession(tx: Transaction, digest: string, now: EpochMs): Promise<boolean> {
  const session = await readUsed(tx, digest);
  if (session === undefined) tx.unlink(EXPIRY, keyOf(SESSION, digest));
  else if (sessionEndsAt(session) > now) {
    tx.link(EXPIRY, keyOf(SESSION, digest), sessionEndsAt(session));
    return false;
  } else removeSession(tx, session);
  return true;
}
