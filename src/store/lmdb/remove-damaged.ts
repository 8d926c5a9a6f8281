import type { Database } from 'lmdb';
import { RecordNewer, RecordUnreadable } from '../faults.js';
import { DIGEST_PART, type RemovableKind } from '../records.js';
import type { Maintenance } from '../store.js';
import { deadLetterOf } from '../webhook-records.js';
import { type Databases, listIndex } from './databases.js';
import { noteEnded } from './ended-log.js';
import { readCustomer, readService, readSession, readToken, readUse, readUser } from './read.js';
import { removeSession, removeSudoGrantsOf } from './session-store.js';
import type { Transactions } from './transactions.js';
import { headOf, removeFirst } from './webhook-heads.js';

/** A record; `read` returns undefined if it does not exist. */
interface Found {
  readonly read: () => unknown;
  readonly remove: () => void;
}

export function lmdbRemoveDamaged(transactions: Transactions): Maintenance['removeDamaged'] {
  return async (kind, id) =>
    transactions.remove((dbs) => {
      const found = FIND[kind](dbs, id);
      try {
        return found?.read() === undefined ? 'not_found' : 'kept';
      } catch (error) {
        if (!(error instanceof RecordUnreadable) || error instanceof RecordNewer) throw error;
      }
      found?.remove();
      return 'removed';
    });
}

const FIND: Readonly<Record<RemovableKind, (dbs: Databases, id: string) => Found | undefined>> = {
  customer: (dbs, id) => ({
    read: () => readCustomer(dbs, id),
    remove: () => void dbs.customers.removeSync(id),
  }),
  service: (dbs, id) => ({
    read: () => readService(dbs, id),
    remove: () => {
      removeFromIndex(dbs.servicesOf, id);
      dbs.services.removeSync(id);
    },
  }),
  user: (dbs, id) => ({ read: () => readUser(dbs, id), remove: () => removeUser(dbs, id) }),
  token: (dbs, name) => {
    const key = findKey(dbs.tokensOf, (id) => id === name || isDigest(dbs.tokenIds.get(id), name));
    return key && { read: () => readToken(dbs, key[1]), remove: () => removeToken(dbs, key) };
  },
  session: (dbs, name) => {
    const key = findKey(dbs.sessionsOf, (digest) => isDigest(digest, name));
    if (key === undefined) return undefined;
    const [, digest] = key;
    return {
      read: () => readSession(dbs, digest),
      // Its expiry index entry stays until it is due.
      remove: () => {
        dbs.sessions.removeSync(digest);
        dbs.sessionsOf.removeSync(key);
        noteEnded(dbs, `session:${digest}`);
      },
    };
  },
  use: (dbs, id) => ({
    read: () => readUse(dbs, id) ?? undefined,
    remove: () => void dbs.uses.removeSync(id),
  }),
  webhook: ({ outbox }, name) => {
    const at = name.lastIndexOf('/');
    const [endpoint, subject] = [name.slice(0, at), name.slice(at + 1)];
    if (outbox.get(['subject', endpoint, subject]) === undefined) return undefined;
    return {
      read: () => headOf(outbox, endpoint, subject),
      remove: () => removeFirst(outbox, endpoint, subject),
    };
  },
  dead_letter: ({ outbox }, endpoint) => {
    const letters = outbox.entries(['dead', endpoint]);
    let at = 0;
    return {
      read: () => {
        for (const { value } of letters) {
          deadLetterOf(value, endpoint);
          at += 1;
        }
        return letters[0];
      },
      remove: () => {
        const damaged = letters[at];
        if (damaged !== undefined) outbox.remove(damaged.key);
      },
    };
  },
};

/** Ends the sessions of a user. Tokens stay, and are unknown until the user exists again. */
function removeUser(dbs: Databases, id: string): void {
  for (const digest of listIndex(dbs.sessionsOf, id)) removeSession(dbs, digest);
  removeSudoGrantsOf(dbs, id);
  const logins = Array.from(dbs.logins.getRange({})).filter(({ value }) => value === id);
  for (const { key } of logins) dbs.logins.removeSync(key);
  removeFromIndex(dbs.usersOf, id);
  dbs.pendingDeletions.removeSync(id);
  dbs.users.removeSync(id);
}

/** Deletes an unreadable token and blocks its id and digest. */
function removeToken(dbs: Databases, key: [string, string]): void {
  const [, id] = key;
  const [digest, expiresAt] = [dbs.tokenIds.get(id), dbs.tokensOf.get(key)];
  for (const db of [dbs.uses, dbs.warned, dbs.tokenIds, dbs.successors, dbs.declared, dbs.overlaps])
    db.removeSync(id);
  dbs.tokensOf.removeSync(key);
  if (typeof expiresAt === 'number') dbs.expiry.removeSync([expiresAt, 'token', id]);
  noteEnded(dbs, `token:${id}`);
  dbs.revoked.putSync(`id:${id}`, true);
  if (digest === undefined) return;
  dbs.tokens.removeSync(digest);
  dbs.revoked.putSync(digest, true);
}

function isDigest(digest: string | undefined, name: string): boolean {
  return name.length >= DIGEST_PART && digest?.startsWith(name) === true;
}

/** Returns the first key of an index whose second part is wanted. */
function findKey(
  index: Database<unknown, [string, string]>,
  isWanted: (second: string) => boolean,
): [string, string] | undefined {
  for (const key of index.getKeys({})) if (isWanted(key[1])) return key;
  return undefined;
}

function removeFromIndex(index: Database<unknown, [string, string]>, second: string): void {
  const key = findKey(index, (each) => each === second);
  if (key !== undefined) index.removeSync(key);
}
