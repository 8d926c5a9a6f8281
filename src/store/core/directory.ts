/** Customers, services and users, and atomic changes of several records. */
import { costOfHash } from '../../domain/limits.js';
import type { Token } from '../../domain/token.js';
import { loginKey, type User } from '../../domain/user.js';
import { mapMaybe } from '../../util/async.js';
import type { EpochMs } from '../../util/time.js';
import { type ChangeRefused, type Changes, refusalOf } from './directory-checks.js';
import { nameOfChange } from '../revocations.js';
import {
  addToken,
  forbid,
  isNewDigest,
  namesOfRevoked,
  overwriteToken,
  readToken,
  removeById,
  replaceToken,
  revokeToken,
} from './token-records.js';
import type { Events } from './events.js';
import {
  CUSTOMER,
  CUSTOMERS,
  GUARD,
  keyOf,
  LOGIN,
  META,
  OTP_STEP,
  PENDING_DELETIONS,
  REVOKED,
  SERVICE,
  servicesOf,
  TOKEN,
  TOKEN_ID,
  tokensOf,
  USER,
  usersOf,
  valueOf,
  WRITES,
} from './kinds.js';
import type { Kv } from './kv.js';
import { endAllOf } from './sessions.js';
import {
  namesOf,
  type Transaction,
  type Transactor,
  valueAt,
  valuePagesOf,
  valuesOf,
} from './transaction.js';

/** Id of the setting with the highest cost of any password hash ever written. */
const PASSWORD_COST = 'password_cost';

export type DirectoryStore = ReturnType<typeof directoryStore>;

export async function allUsers(
  directory: Pick<DirectoryStore, 'listCustomers' | 'listUsers'>,
): Promise<User[]> {
  const users: User[] = [];
  for (const { id } of await directory.listCustomers()) users.push(...(await directory.listUsers(id)));
  return users;
}

export function directoryStore(transactor: Transactor, events: Events) {
  const { kv } = transactor;
  return {
    getCustomer: (id: string) => valueAt(kv, CUSTOMER, id),
    getService: (id: string) => valueAt(kv, SERVICE, id),
    getUser: (id: string) => valueAt(kv, USER, id),
    /** Finds a user by login name, ignoring case. */
    getUserByLogin: (login: string) => findUser(kv, loginKey(login)),
    listCustomers: async () => valuesOf(kv, CUSTOMERS, CUSTOMER),
    listServices: async (customerId: string) => valuesOf(kv, servicesOf(customerId), SERVICE),
    listUsers: async (customerId: string) => valuesOf(kv, usersOf(customerId), USER),
    pagesOfUsers: (customerId: string) => valuePagesOf(kv, usersOf(customerId), USER),
    listPendingDeletions: async () => namesOf(kv, PENDING_DELETIONS),
    /** Returns the highest cost (`costOfHash`) of any password hash ever written; 0 if none was. */
    getPasswordCost: () => mapMaybe(valueAt(kv, META, PASSWORD_COST), (cost) => cost?.number ?? 0),
    /** Applies a set of changes, all or none. Returns `undefined` if they were written. */
    change: async (changes: Changes, now: EpochMs) => {
      const isReserved = await addsNothing(kv, changes);
      return transactor.transact(async (tx) => applyChanges(tx, events, changes, now), { isReserved });
    },
  };
}

function findUser(kv: Kv, key: string) {
  return mapMaybe(kv.follow(keyOf(LOGIN, key)), ({ chain: [login, user] }) => {
    const id = valueOf(LOGIN, key, login)?.userId;
    return id === undefined ? undefined : valueOf(USER, id, user);
  });
}

/** Whether a change only removes records or updates existing users, like a lock or password. */
async function addsNothing(kv: Kv, changes: Changes): Promise<boolean> {
  const { customers = [], services = [], users = [], tokens = [], declared = [] } = changes;
  if (customers.length + services.length + tokens.length + declared.length > 0) return false;
  return (await kv.read(users.map(({ id }) => keyOf(USER, id)))).every((stored) => stored !== undefined);
}

/** Checks everything before it writes anything. */
async function applyChanges(
  tx: Transaction,
  events: Events,
  changes: Changes,
  now: EpochMs,
): Promise<ChangeRefused | undefined> {
  await preload(tx, changes);
  const refused = await refusalOf(tx, changes, now);
  if (refused !== undefined) return refused;
  if (changes.transfer) tx.silence();
  for (const id of changes.removeTokens ?? []) await removeById(tx, events, id);
  for (const id of changes.revokeDeclared ?? []) {
    const token = await readToken(tx, id);
    if (token?.declared) await revokeToken(tx, events, token);
  }
  for (const id of changes.removeUsers ?? []) await removeUser(tx, events, id);
  for (const id of changes.removeServices ?? []) await removeService(tx, id);
  for (const id of changes.removeCustomers ?? []) {
    tx.remove(CUSTOMER, id);
    tx.unlink(CUSTOMERS, id);
  }
  for (const customer of changes.customers ?? []) {
    tx.put(CUSTOMER, customer.id, customer);
    tx.link(CUSTOMERS, customer.id);
  }
  for (const service of changes.services ?? []) {
    await removeService(tx, service.id);
    tx.put(SERVICE, service.id, service);
    addTo(tx, servicesOf(service.customerId), service.id);
  }
  await putUsers(tx, events, changes.users ?? [], new Set(changes.rehashed));
  for (const [id, step] of changes.transfer?.otpSteps ?? [])
    if (step < 0) tx.remove(OTP_STEP, id);
    else tx.put(OTP_STEP, id, { step });
  for (const token of changes.tokens ?? []) {
    if (changes.transfer !== undefined)
      await overwriteToken(tx, token, changes.transfer.uses?.get(token.id) ?? null);
    else if ((await isNewDigest(tx, token.digest)) && !(await tx.has(TOKEN_ID, token.id)))
      await addToken(tx, events, token);
  }
  for (const token of changes.declared ?? []) await putDeclared(tx, events, token);
  return undefined;
}

async function preload(tx: Transaction, changes: Changes): Promise<void> {
  const {
    users = [],
    services = [],
    tokens = [],
    declared = [],
    removeUsers = [],
    removeServices = [],
  } = changes;
  await tx.load([
    ...[...users.map(({ id }) => id), ...removeUsers].map((id) => keyOf(USER, id)),
    ...users.map(({ login }) => keyOf(LOGIN, loginKey(login))),
    ...[...services.map(({ id }) => id), ...removeServices].map((id) => keyOf(SERVICE, id)),
    ...[...users, ...services].map(({ customerId }) => keyOf(CUSTOMER, customerId)),
    ...[...tokens, ...declared].flatMap(({ id, digest, userId }) => [
      keyOf(TOKEN_ID, id),
      keyOf(TOKEN, digest),
      keyOf(REVOKED, digest),
      keyOf(USER, userId),
      keyOf(GUARD, tokensOf(userId)),
    ]),
  ]);
}

async function putUsers(
  tx: Transaction,
  events: Events,
  users: readonly User[],
  rehashed: ReadonlySet<string>,
): Promise<void> {
  const before = await Promise.all(users.map(({ id }) => tx.get(USER, id)));
  // Two users may swap their logins, so all old ones go first.
  for (const old of before) {
    if (old === undefined) continue;
    await removeLogin(tx, old);
    tx.unlink(usersOf(old.customerId), old.id);
  }
  for (const [i, user] of users.entries()) {
    const old = before[i];
    tx.put(USER, user.id, user);
    tx.put(LOGIN, loginKey(user.login), { userId: user.id }, keyOf(USER, user.id));
    if (old?.customerId === user.customerId) tx.link(usersOf(user.customerId), user.id);
    else addTo(tx, usersOf(user.customerId), user.id);
    if (user.deletionPending) tx.link(PENDING_DELETIONS, user.id);
    else tx.unlink(PENDING_DELETIONS, user.id);
    if (old === undefined) continue;
    // Before the other name, with which the whole lock would be made again as one that the directory may undo.
    if (user.lockedBy === 'operator' && old.lockedBy !== 'operator')
      tx.tell(`operator:${user.updatedAt}:${user.id}`);
    if (endsSessions(old, user, rehashed.has(user.id))) await endAllOf(tx, user.id);
    if (old.locked || !user.locked) continue;
    tx.tell(`user:${user.updatedAt}:${user.id}`);
    const locked = { userId: user.id, reason: 'user_locked', retryAfter: null } as const;
    await events.locked(tx, locked, user.customerId, Date.now());
  }
  const cost = Math.max(0, ...users.map(({ passwordHash }) => costOfHash(passwordHash)));
  if (cost > ((await tx.get(META, PASSWORD_COST))?.number ?? 0))
    tx.put(META, PASSWORD_COST, { number: cost });
}

/** Unless a transfer has given it to another user. */
async function removeLogin(tx: Transaction, { id, login }: User): Promise<void> {
  const key = loginKey(login);
  if ((await tx.get(LOGIN, key))?.userId === id) tx.remove(LOGIN, key);
}

/** Adds to what a customer has, which therefore cannot be removed meanwhile. */
function addTo(tx: Transaction, index: string, id: string): void {
  tx.link(index, id);
  tx.put(GUARD, index, {});
}

function endsSessions(old: User, user: User, rehashed: boolean): boolean {
  return (
    (old.passwordHash !== user.passwordHash && !rehashed) ||
    old.otpSecret !== user.otpSecret ||
    (user.locked && !old.locked)
  );
}

async function removeUser(tx: Transaction, events: Events, id: string): Promise<void> {
  const user = await tx.get(USER, id);
  if (user === undefined) return;
  await endAllOf(tx, id);
  for (const { name } of await tx.range(tokensOf(id))) await removeById(tx, events, name);
  for (const kind of [OTP_STEP, WRITES, USER]) tx.remove(kind, id);
  await removeLogin(tx, user);
  tx.unlink(usersOf(user.customerId), id);
  tx.unlink(PENDING_DELETIONS, id);
  // Just after the record that is removed, not now: a user declared again by another clock is not locked.
  tx.tell(`user:${user.updatedAt + 1}:${id}`);
}

async function removeService(tx: Transaction, id: string): Promise<void> {
  const service = await tx.get(SERVICE, id);
  if (service === undefined) return;
  tx.unlink(servicesOf(service.customerId), id);
  tx.remove(SERVICE, id);
}

async function putDeclared(tx: Transaction, events: Events, token: Token): Promise<void> {
  for (const name of namesOfRevoked(token)) if (await tx.has(REVOKED, name)) return;
  const before = await readToken(tx, token.id);
  if (before === undefined) return addToken(tx, events, token);
  await replaceToken(tx, events, before, token);
  tx.tell(nameOfChange(token));
  if (before.digest !== token.digest) forbid(tx, [before.digest]);
}
