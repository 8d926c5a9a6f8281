import type { Database } from 'lmdb';
import { unlessDamaged } from '../faults.js';
import { DIGEST_PART, type RemovableKind } from '../records.js';
import type { Maintenance } from '../store.js';
import { deadLetterOf } from '../webhook-records.js';
import { type Databases, listIndex } from './databases.js';
import { noteEnded } from './ended-log.js';
import { readCustomer, readService, readSession, readTokenWithUse, readUser } from './read.js';
import { removeSession, removeSudoGrantsOf } from './session-store.js';
import type { Transactions } from './transactions.js';
import { headOf, removeFirst } from './webhook-heads.js';

type Index = Database<unknown, [string, string]>;

export function lmdbRemoveDamaged(transactions: Transactions): Maintenance['removeDamaged'] {
  return async (kind, name) => transactions.remove((dbs) => REMOVE[kind](dbs, name));
}

/** Whether a record is there and damaged. */
function isDamaged(read: () => unknown): boolean {
  return unlessDamaged(() => [read()]) === undefined;
}

/** Removes a record if it is damaged. Returns whether it was. */
const REMOVE: Readonly<Record<RemovableKind, (dbs: Databases, name: string) => boolean>> = {
  customer: (dbs, id) => isDamaged(() => readCustomer(dbs, id)) && dbs.customers.removeSync(id),
  service: (dbs, id) => {
    if (!isDamaged(() => readService(dbs, id))) return false;
    removeFromIndex(dbs.servicesOf, id);
    return dbs.services.removeSync(id);
  },
  user: (dbs, id) => isDamaged(() => readUser(dbs, id)) && removeUser(dbs, id),
  token: (dbs, name) => {
    const key = findKey(dbs.tokensOf, (id) => id === name || isDigest(dbs.tokenIds.get(id), name));
    return key !== undefined && isDamaged(() => readTokenWithUse(dbs, key[1])) && removeToken(dbs, key);
  },
  session: (dbs, name) => {
    const key = findKey(dbs.sessionsOf, (digest) => isDigest(digest, name));
    if (key === undefined || !isDamaged(() => readSession(dbs, key[1]))) return false;
    // Its expiry index entry stays until it is due.
    dbs.sessionsOf.removeSync(key);
    noteEnded(dbs, `session:${key[1]}`);
    return dbs.sessions.removeSync(key[1]);
  },
  webhook: ({ outbox }, name) => {
    const at = name.lastIndexOf('/');
    const [endpoint, subject] = [name.slice(0, at), name.slice(at + 1)];
    const isQueued = outbox.get(['subject', endpoint, subject]) !== undefined;
    if (!isQueued || !isDamaged(() => headOf(outbox, endpoint, subject))) return false;
    removeFirst(outbox, endpoint, subject);
    return true;
  },
  dead_letter: ({ outbox }, endpoint) => {
    const letters = outbox.entries(['dead', endpoint]);
    const damaged = letters.find(({ value }) => isDamaged(() => deadLetterOf(value, endpoint)));
    if (damaged !== undefined) outbox.remove(damaged.key);
    return damaged !== undefined;
  },
};

/** Ends the sessions of a user. Tokens stay, and are unknown until the user exists again. */
function removeUser(dbs: Databases, id: string): boolean {
  for (const digest of listIndex(dbs.sessionsOf, id)) removeSession(dbs, digest);
  removeSudoGrantsOf(dbs, id);
  const logins = Array.from(dbs.logins.getRange({})).filter(({ value }) => value === id);
  for (const { key } of logins) dbs.logins.removeSync(key);
  removeFromIndex(dbs.usersOf, id);
  dbs.pendingDeletions.removeSync(id);
  return dbs.users.removeSync(id);
}

/** Deletes an unreadable token and blocks its id and digest. */
function removeToken(dbs: Databases, key: [string, string]): boolean {
  const [, id] = key;
  const [digest = '', expiresAt] = [dbs.tokenIds.get(id), dbs.tokensOf.get(key)];
  for (const db of [dbs.uses, dbs.warned, dbs.tokenIds, dbs.successors, dbs.declared, dbs.overlaps])
    db.removeSync(id);
  dbs.tokensOf.removeSync(key);
  if (typeof expiresAt === 'number') dbs.expiry.removeSync([expiresAt, 'token', id]);
  noteEnded(dbs, `token:${id}`);
  for (const name of [`id:${id}`, digest]) dbs.revoked.putSync(name, true);
  return dbs.tokens.removeSync(digest);
}

function isDigest(digest: string | undefined, name: string): boolean {
  return name.length >= DIGEST_PART && digest?.startsWith(name) === true;
}

/** Returns the first key of an index whose second part is wanted. */
function findKey(index: Index, isWanted: (second: string) => boolean): [string, string] | undefined {
  for (const key of index.getKeys({})) if (isWanted(key[1])) return key;
  return undefined;
}

function removeFromIndex(index: Index, second: string): void {
  const key = findKey(index, (each) => each === second);
  if (key !== undefined) index.removeSync(key);
}
