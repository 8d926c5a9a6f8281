import type { MaybePromise } from '../util/async.js';
import type { EpochMs } from '../util/time.js';
import type { Token } from '../domain/token.js';
import type { Customer, Service, User } from '../domain/user.js';

/** Records to write and remove in one step: all of them or none. */
export interface Changes {
  readonly customers?: readonly Customer[];
  readonly services?: readonly Service[];
  /**
   * Users to write, as whole records. A user whose `passwordHash` or `otpSecret` changes, or who
   * becomes locked, loses all sessions and sudo grants.
   */
  readonly users?: readonly User[];
  /**
   * Ids of users whose `passwordHash` is a new hash of the same password. They
   * keep sessions and sudo grants.
   */
  readonly rehashed?: readonly string[];
  /** Tokens to add. A token whose digest exists or was revoked is skipped. */
  readonly tokens?: readonly Token[];
  /**
   * Tokens that a directory file declares, to add or to overwrite by id. A token whose id or digest
   * was revoked is skipped. If a digest changes, the previous one is revoked.
   */
  readonly declared?: readonly Token[];
  /** Declared tokens to revoke by id. Neither the id nor the digest can be declared again. */
  readonly revokeDeclared?: readonly string[];
  /** Tokens to remove by id without recording a revocation: the same digest may be added again. */
  readonly removeTokens?: readonly string[];
  /**
   * Customers to remove. The whole change fails if a customer would leave users or services behind.
   */
  readonly removeCustomers?: readonly string[];
  readonly removeServices?: readonly string[];
  /**
   * Users to remove, with their sessions and expired tokens. The whole change fails if one has
   * active tokens, by the earlier one of the given time and the store's clock.
   */
  readonly removeUsers?: readonly string[];
  /**
   * The `updatedAt` of users as they were read; null for a user that did not exist. If any differs
   * now, nothing is written.
   */
  readonly basedOn?: ReadonlyMap<string, EpochMs | null>;
  /**
   * Part of a transfer from a backup or another store. What it removes may be written again, so it
   * is not remembered as ended.
   */
  readonly transfer?: true;
}

/** Why a change was refused; nothing was written. */
export type ChangeRefused =
  | {
      readonly reason: 'active_tokens';
      /** Every user to remove who has active tokens. */
      readonly users: readonly { readonly userId: string; readonly tokenIds: readonly string[] }[];
    }
  | { readonly reason: 'login_taken'; readonly login: string; readonly userId: string }
  | { readonly reason: 'unknown_customer'; readonly customerId: string }
  /** A customer to remove would leave users or services behind. */
  | { readonly reason: 'customer_in_use'; readonly customerId: string }
  /** The owner of a token to add does not exist. */
  | { readonly reason: 'unknown_user'; readonly userId: string }
  /** The id or digest of a declared token is taken by another token, or its id by another user. */
  | { readonly reason: 'token_taken'; readonly tokenId: string }
  | { readonly reason: 'changed_meanwhile'; readonly userId: string };

/** Returns the users of all customers. */
export async function allUsers(
  directory: Pick<DirectoryStore, 'listCustomers' | 'listUsers'>,
): Promise<User[]> {
  const users: User[] = [];
  for (const { id } of await directory.listCustomers()) users.push(...(await directory.listUsers(id)));
  return users;
}

/** Customers, services and users, and atomic changes of several records. */
export interface DirectoryStore {
  getCustomer(id: string): MaybePromise<Customer | undefined>;
  getService(id: string): MaybePromise<Service | undefined>;
  getUser(id: string): MaybePromise<User | undefined>;
  /** Finds a user by login name, ignoring case. */
  getUserByLogin(login: string): MaybePromise<User | undefined>;
  listCustomers(): MaybePromise<Customer[]>;
  listServices(customerId: string): MaybePromise<Service[]>;
  listUsers(customerId: string): MaybePromise<User[]>;
  /** Lists the ids of users whose `deletionPending` is set. */
  listPendingDeletions(): MaybePromise<string[]>;
  /** Returns the highest cost (`costOfHash`) of any password hash ever written; 0 if none was. */
  getPasswordCost(): MaybePromise<number>;
  /** Applies a set of changes, all or none. Returns `undefined` if they were written. */
  change(changes: Changes, now: EpochMs): Promise<ChangeRefused | undefined>;
}
