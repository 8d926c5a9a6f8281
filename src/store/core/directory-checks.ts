import type { EpochMs } from '../../util/time.js';
import type { Token, TokenUse } from '../../domain/token.js';
import { type Customer, loginKey, type Service, type User } from '../../domain/user.js';
import { activeOf, namesOfRevoked, readToken } from './token-records.js';
import {
  CUSTOMER,
  GUARD,
  keyOf,
  type Kind,
  LOGIN,
  REVOKED,
  SERVICE,
  servicesOf,
  TOKEN,
  USER,
  usersOf,
} from './kinds.js';
import type { Transaction } from './transaction.js';

export interface Changes {
  readonly customers?: readonly Customer[];
  readonly services?: readonly Service[];
  /** A user who is locked, or gets another password or OTP secret, loses all sessions and sudo grants. */
  readonly users?: readonly User[];
  /** Users whose `passwordHash` is a new hash of the same password: they lose nothing. */
  readonly rehashed?: readonly string[];
  /** Tokens to add. A token whose digest exists or was revoked is skipped. */
  readonly tokens?: readonly Token[];
  /** Declared tokens to add or overwrite by id; revoked ones are skipped. A replaced digest is revoked. */
  readonly declared?: readonly Token[];
  /** Declared tokens to revoke by id. Neither the id nor the digest can be declared again. */
  readonly revokeDeclared?: readonly string[];
  /** Removed without a revocation: the same digest may be added again. */
  readonly removeTokens?: readonly string[];
  /** Refused if a customer would leave users or services behind. */
  readonly removeCustomers?: readonly string[];
  readonly removeServices?: readonly string[];
  /** Refused if one has active tokens, by the earlier one of the given time and the store's clock. */
  readonly removeUsers?: readonly string[];
  /** The `updatedAt` of users as they were read; null for none. If any differs, nothing is written. */
  readonly basedOn?: ReadonlyMap<string, EpochMs | null>;
  /**
   * Part of a transfer: what it removes may be written again, so it is not remembered as ended. Tokens
   * overwrite what has their id or digest, and get these last uses; users these used one-time passwords.
   */
  readonly transfer?: {
    readonly uses?: ReadonlyMap<string, TokenUse | null>;
    readonly otpSteps?: ReadonlyMap<string, number>;
  };
}

export type ChangeRefused =
  | {
      readonly reason: 'active_tokens';
      readonly users: readonly { readonly userId: string; readonly tokenIds: readonly string[] }[];
    }
  | { readonly reason: 'login_taken'; readonly login: string; readonly userId: string }
  | { readonly reason: 'unknown_customer'; readonly customerId: string }
  | { readonly reason: 'customer_in_use'; readonly customerId: string }
  | { readonly reason: 'unknown_user'; readonly userId: string }
  /** The id or digest of a declared token is taken by another token, or its id by another user. */
  | { readonly reason: 'token_taken'; readonly tokenId: string }
  | { readonly reason: 'changed_meanwhile'; readonly userId: string };

type Check = (tx: Transaction, changes: Changes, now: EpochMs) => Promise<ChangeRefused | undefined>;

const CHECKS: readonly Check[] = [
  refuseStale,
  refuseRemovals,
  refuseLogins,
  refuseCustomers,
  refuseCustomersInUse,
  refuseOwners,
  refuseDuplicates,
];

export async function refusalOf(
  tx: Transaction,
  changes: Changes,
  now: EpochMs,
): Promise<ChangeRefused | undefined> {
  for (const check of CHECKS) {
    const refused = await check(tx, changes, now);
    if (refused !== undefined) return refused;
  }
  return undefined;
}

async function refuseStale(tx: Transaction, { basedOn }: Changes): Promise<ChangeRefused | undefined> {
  for (const [userId, updatedAt] of basedOn ?? [])
    if (((await tx.get(USER, userId))?.updatedAt ?? null) !== updatedAt)
      return { reason: 'changed_meanwhile', userId };
  return undefined;
}

async function refuseRemovals(
  tx: Transaction,
  changes: Changes,
  now: EpochMs,
): Promise<ChangeRefused | undefined> {
  const leaving = new Set([...(changes.removeTokens ?? []), ...(changes.revokeDeclared ?? [])]);
  const users: { userId: string; tokenIds: string[] }[] = [];
  for (const userId of changes.removeUsers ?? []) {
    const tokenIds = (await activeOf(tx, userId, await tx.earlier(now))).filter((id) => !leaving.has(id));
    if (tokenIds.length > 0) users.push({ userId, tokenIds });
  }
  return users.length > 0 ? { reason: 'active_tokens', users } : undefined;
}

/**
 * Refuses duplicate logins. Two users may swap theirs, so the holder after the change counts; in a
 * transfer, which is checked as a whole, even the holder after later changes.
 */
async function refuseLogins(tx: Transaction, changes: Changes): Promise<ChangeRefused | undefined> {
  const users = changes.transfer === undefined ? (changes.users ?? []) : [];
  const leaving = new Set([...(changes.removeUsers ?? []), ...users.map(({ id }) => id)]);
  const holders = new Map<string, string>();
  for (const { id, login } of users) {
    const key = loginKey(login);
    const holder = (await tx.get(LOGIN, key))?.userId;
    const isHeld =
      holder !== undefined && holder !== id && !leaving.has(holder) && (await tx.has(USER, holder));
    if (isHeld || (holders.get(key) ?? id) !== id) return { reason: 'login_taken', login, userId: id };
    holders.set(key, id);
  }
  return undefined;
}

async function refuseCustomers(tx: Transaction, changes: Changes): Promise<ChangeRefused | undefined> {
  const { customers = [], users = [], services = [], removeCustomers } = changes;
  const ids = [...users, ...services].map(({ customerId }) => customerId);
  const customerId = await firstUnknown(tx, CUSTOMER, ids, customers, removeCustomers);
  return customerId === undefined ? undefined : { reason: 'unknown_customer', customerId };
}

async function refuseOwners(tx: Transaction, changes: Changes): Promise<ChangeRefused | undefined> {
  const { users = [], tokens = [], declared = [], removeUsers } = changes;
  const ids = [...tokens, ...declared].map(({ userId }) => userId);
  const userId = await firstUnknown(tx, USER, ids, users, removeUsers);
  return userId === undefined ? undefined : { reason: 'unknown_user', userId };
}

/** Returns the first of some ids that is neither added nor stays. */
async function firstUnknown(
  tx: Transaction,
  kind: Kind<unknown>,
  ids: readonly string[],
  added: readonly { readonly id: string }[],
  removed: readonly string[] = [],
): Promise<string | undefined> {
  const [known, gone] = [new Set(added.map(({ id }) => id)), new Set(removed)];
  for (const id of new Set(ids)) if (!known.has(id) && (gone.has(id) || !(await tx.has(kind, id)))) return id;
  return undefined;
}

/** {@link refuseCustomers} guards additions. */
async function refuseCustomersInUse(tx: Transaction, changes: Changes): Promise<ChangeRefused | undefined> {
  const { customers = [], users = [], services = [], removeUsers = [], removeServices = [] } = changes;
  const kept = new Set(customers.map(({ id }) => id));
  for (const customerId of changes.removeCustomers ?? []) {
    if (kept.has(customerId)) continue;
    await tx.load([usersOf(customerId), servicesOf(customerId)].map((index) => keyOf(GUARD, index)));
    const leavingUsers = await countIn(tx, USER, [...users.map(({ id }) => id), ...removeUsers], customerId);
    const leavingServices = await countIn(
      tx,
      SERVICE,
      [...services.map(({ id }) => id), ...removeServices],
      customerId,
    );
    const isInUse =
      (await tx.count(usersOf(customerId))) > leavingUsers ||
      (await tx.count(servicesOf(customerId))) > leavingServices;
    if (isInUse) return { reason: 'customer_in_use', customerId };
  }
  return undefined;
}

async function countIn(
  tx: Transaction,
  kind: Kind<{ readonly customerId: string }>,
  ids: readonly string[],
  customerId: string,
): Promise<number> {
  let count = 0;
  for (const id of new Set(ids)) if ((await tx.get(kind, id))?.customerId === customerId) count += 1;
  return count;
}

/** Revoked ones are skipped, so they do not count. */
async function refuseDuplicates(
  tx: Transaction,
  { declared = [] }: Changes,
): Promise<ChangeRefused | undefined> {
  for (const token of declared) {
    const revoked = await Promise.all(namesOfRevoked(token).map((name) => tx.has(REVOKED, name)));
    if (revoked.includes(true)) continue;
    const before = await readToken(tx, token.id);
    const isOther = before !== undefined && (!before.declared || before.userId !== token.userId);
    if (isOther || (before?.digest !== token.digest && (await tx.has(TOKEN, token.digest))))
      return { reason: 'token_taken', tokenId: token.id };
  }
  return undefined;
}
