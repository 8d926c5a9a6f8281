import type { EpochMs } from '../../util/time.js';
import { loginKey, type User } from '../../domain/user.js';
import { encode } from '../records.js';
import type { ChangeRefused, Changes, DirectoryStore } from '../directory-store.js';
import { costOfHash } from '../../domain/password-cost.js';
import { countIndex, type Databases, listIndex, PASSWORD_COST } from './databases.js';
import { noteEnded } from './ended-log.js';
import { putDeclared, refuseDuplicates, revokeDeclared } from './declared-tokens.js';
import { queueUserLocked } from './webhook-events.js';
import { readCustomer, readService, readToken, readUser, readUserByLogin } from './read.js';
import { activeTokensOf, addToken, isNewDigest, removeToken } from './tokens.js';
import { removeSession, removeSudoGrantsOf } from './session-store.js';
import type { Lists } from './lists.js';
import type { Transactions } from './transactions.js';

/**
 * Applies a set of changes. Run it in a write transaction. Everything is checked before the first
 * write, so a refusal leaves no trace.
 */
function applyChanges(dbs: Databases, changes: Changes, now: EpochMs): ChangeRefused | undefined {
  const refused =
    refuseStale(dbs, changes) ??
    refuseRemovals(dbs, changes, now) ??
    refuseLogins(dbs, changes) ??
    refuseCustomers(dbs, changes) ??
    refuseCustomersInUse(dbs, changes) ??
    refuseOwners(dbs, changes) ??
    refuseDuplicates(dbs, changes);
  if (refused !== undefined) return refused;
  for (const id of changes.removeTokens ?? []) dropToken(dbs, id);
  for (const id of changes.revokeDeclared ?? []) revokeDeclared(dbs, id);
  for (const id of changes.removeUsers ?? []) removeUser(dbs, id);
  for (const id of changes.removeServices ?? []) removeService(dbs, id);
  for (const id of changes.removeCustomers ?? []) dbs.customers.removeSync(id);
  for (const customer of changes.customers ?? []) dbs.customers.putSync(customer.id, encode(customer));
  for (const service of changes.services ?? []) {
    removeService(dbs, service.id);
    dbs.services.putSync(service.id, encode(service));
    dbs.servicesOf.putSync([service.customerId, service.id], true);
  }
  putUsers(dbs, changes.users ?? [], new Set(changes.rehashed));
  for (const token of changes.tokens ?? []) if (isNewDigest(dbs, token.digest)) addToken(dbs, token);
  for (const token of changes.declared ?? []) putDeclared(dbs, token);
  return undefined;
}

/** Whether a change only removes records or updates existing users, like a lock or password. */
function addsNothing(dbs: Databases, changes: Changes): boolean {
  const { customers = [], services = [], users = [], tokens = [], declared = [] } = changes;
  if (customers.length + services.length + tokens.length + declared.length > 0) return false;
  return users.every(({ id }) => dbs.users.doesExist(id));
}

function refuseStale(dbs: Databases, { basedOn }: Changes): ChangeRefused | undefined {
  for (const [userId, updatedAt] of basedOn ?? []) {
    if ((readUser(dbs, userId)?.updatedAt ?? null) !== updatedAt)
      return { reason: 'changed_meanwhile', userId };
  }
  return undefined;
}

function refuseRemovals(dbs: Databases, changes: Changes, now: EpochMs): ChangeRefused | undefined {
  const leaving = new Set([...(changes.removeTokens ?? []), ...(changes.revokeDeclared ?? [])]);
  const users = (changes.removeUsers ?? [])
    .map((userId) => ({
      userId,
      tokenIds: activeTokensOf(dbs, userId, now).filter((id) => !leaving.has(id)),
    }))
    .filter(({ tokenIds }) => tokenIds.length > 0);
  return users.length > 0 ? { reason: 'active_tokens', users } : undefined;
}

/**
 * Refuses duplicate logins. Two users may swap login names, so the holder after the change counts.
 */
function refuseLogins(dbs: Databases, changes: Changes): ChangeRefused | undefined {
  const users = changes.users ?? [];
  const leaving = new Set([...(changes.removeUsers ?? []), ...users.map((user) => user.id)]);
  const holders = new Map<string, string>();
  for (const { id, login } of users) {
    const key = loginKey(login);
    const holder = dbs.logins.get(key);
    const heldByOther = holder !== undefined && holder !== id && !leaving.has(holder);
    if (heldByOther || (holders.get(key) ?? id) !== id) return { reason: 'login_taken', login, userId: id };
    holders.set(key, id);
  }
  return undefined;
}

function refuseCustomers(dbs: Databases, changes: Changes): ChangeRefused | undefined {
  const added = new Set((changes.customers ?? []).map(({ id }) => id));
  const removed = new Set(changes.removeCustomers ?? []);
  for (const { customerId } of [...(changes.users ?? []), ...(changes.services ?? [])]) {
    const known =
      added.has(customerId) || (!removed.has(customerId) && dbs.customers.get(customerId) !== undefined);
    if (!known) return { reason: 'unknown_customer', customerId };
    added.add(customerId);
  }
  return undefined;
}

/**
 * Refuses to remove customers that would keep users or services after the change. Adding some to
 * such a customer is refused by {@link refuseCustomers}.
 */
function refuseCustomersInUse(dbs: Databases, changes: Changes): ChangeRefused | undefined {
  const { customers = [], users = [], services = [], removeCustomers = [] } = changes;
  if (removeCustomers.length === 0) return undefined;
  const kept = new Set(customers.map(idOf));
  const removedCounts = [
    countByCustomer([...users.map(idOf), ...(changes.removeUsers ?? [])], (id) => readUser(dbs, id)),
    countByCustomer([...services.map(idOf), ...(changes.removeServices ?? [])], (id) => readService(dbs, id)),
  ] as const;
  const isInUse = (id: string): boolean =>
    [dbs.usersOf, dbs.servicesOf].some(
      (index, i) => countIndex(index, id) > (removedCounts[i]?.get(id) ?? 0),
    );
  const customerId = removeCustomers.find((id) => !kept.has(id) && isInUse(id));
  return customerId === undefined ? undefined : { reason: 'customer_in_use', customerId };
}

function countByCustomer(
  ids: readonly string[],
  read: (id: string) => { readonly customerId: string } | undefined,
): Map<string, number> {
  const counts = new Map<string, number>();
  for (const id of new Set(ids)) {
    const customerId = read(id)?.customerId;
    if (customerId !== undefined) counts.set(customerId, (counts.get(customerId) ?? 0) + 1);
  }
  return counts;
}

function idOf({ id }: { readonly id: string }): string {
  return id;
}

function refuseOwners(dbs: Databases, changes: Changes): ChangeRefused | undefined {
  const added = new Set((changes.users ?? []).map(({ id }) => id));
  const removed = new Set(changes.removeUsers ?? []);
  for (const { userId } of [...(changes.tokens ?? []), ...(changes.declared ?? [])]) {
    const known = added.has(userId) || (!removed.has(userId) && dbs.users.doesExist(userId));
    if (!known) return { reason: 'unknown_user', userId };
    added.add(userId);
  }
  return undefined;
}

function putUsers(dbs: Databases, users: readonly User[], rehashed: ReadonlySet<string>): void {
  const before = users.map((user) => readUser(dbs, user.id));
  for (const old of before) {
    if (old === undefined) continue;
    dbs.logins.removeSync(loginKey(old.login));
    dbs.usersOf.removeSync([old.customerId, old.id]);
  }
  users.forEach((user, i) => {
    dbs.users.putSync(user.id, encode(user));
    dbs.logins.putSync(loginKey(user.login), user.id);
    dbs.usersOf.putSync([user.customerId, user.id], true);
    if (user.deletionPending) dbs.pendingDeletions.putSync(user.id, true);
    else dbs.pendingDeletions.removeSync(user.id);
    const old = before[i];
    if (old !== undefined) noteEnded(dbs, `user:${user.updatedAt}:${user.id}`);
    if (old !== undefined && endsSessions(old, user, rehashed.has(user.id))) endSessions(dbs, user.id);
    if (old?.locked === false && user.locked) queueUserLocked(dbs, user);
  });
  const cost = Math.max(0, ...users.map(({ passwordHash }) => costOfHash(passwordHash)));
  if (cost > (dbs.meta.get(PASSWORD_COST) ?? 0)) dbs.meta.putSync(PASSWORD_COST, cost);
}

function endsSessions(old: User, user: User, rehashed: boolean): boolean {
  return (
    (old.passwordHash !== user.passwordHash && !rehashed) ||
    old.otpSecret !== user.otpSecret ||
    (user.locked && !old.locked)
  );
}

function removeUser(dbs: Databases, id: string): void {
  const user = readUser(dbs, id);
  if (user === undefined) return;
  endSessions(dbs, id);
  for (const tokenId of listIndex(dbs.tokensOf, id)) dropToken(dbs, tokenId);
  dbs.otpSteps.removeSync(id);
  dbs.writes.removeSync(id);
  dbs.logins.removeSync(loginKey(user.login));
  dbs.usersOf.removeSync([user.customerId, id]);
  dbs.pendingDeletions.removeSync(id);
  dbs.users.removeSync(id);
}

/** Removes a token without recording a revocation: the same one may be imported again. */
function dropToken(dbs: Databases, id: string): void {
  const token = readToken(dbs, id);
  if (token === undefined) return;
  removeToken(dbs, token);
  noteEnded(dbs, `token:${id}`);
}

function endSessions(dbs: Databases, userId: string): void {
  for (const digest of listIndex(dbs.sessionsOf, userId)) removeSession(dbs, digest);
  removeSudoGrantsOf(dbs, userId);
}

function removeService(dbs: Databases, id: string): void {
  const service = readService(dbs, id);
  if (service !== undefined) dbs.servicesOf.removeSync([service.customerId, id]);
  dbs.services.removeSync(id);
}

export function lmdbDirectoryStore(transactions: Transactions, lists: Lists): DirectoryStore {
  return {
    getCustomer: (id) => transactions.read((dbs) => readCustomer(dbs, id)),
    getService: (id) => transactions.read((dbs) => readService(dbs, id)),
    getUser: (id) => transactions.read((dbs) => readUser(dbs, id)),
    getUserByLogin: (login) => transactions.read((dbs) => readUserByLogin(dbs, loginKey(login))),
    listCustomers: () => lists.customers(),
    listServices: (customerId) => lists.services(customerId),
    listUsers: (customerId) => lists.users(customerId),
    listPendingDeletions: () => lists.keys('pendingDeletions'),
    getPasswordCost: () => transactions.read(({ meta }) => meta.get(PASSWORD_COST) ?? 0),
    change: async (changes, now) => {
      const isReserved = transactions.read((dbs) => addsNothing(dbs, changes));
      const apply = (dbs: Databases) => applyChanges(dbs, changes, now);
      return isReserved ? transactions.remove(apply) : transactions.write(apply);
    },
  };
}
