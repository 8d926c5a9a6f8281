import type { MaybePromise } from '../domain/maybe-promise.js';
import type { EpochMs } from '../domain/time.js';
import type { Token } from '../domain/token.js';
import type { Customer, Service, User } from '../domain/user.js';

/** Records to write and remove in one step: all of them or none. */
export interface Changes {
  readonly customers?: readonly Customer[];
  readonly services?: readonly Service[];
  /** Written whole; a user whose `passwordHash` or `otpSecret` changes, or who becomes locked, loses all sessions and sudo grants. */
  readonly users?: readonly User[];
  /** Ids of users whose `passwordHash` is a new one of the same password: they keep sessions and sudo grants. */
  readonly rehashed?: readonly string[];
  /** Tokens to add. One whose digest is known already, or was revoked, is left alone. */
  readonly tokens?: readonly Token[];
  /**
   * Tokens that a directory file declares, to add or to write over by id. One whose id or digest was revoked is left
   * alone; the digest that one had before is revoked.
   */
  readonly declared?: readonly Token[];
  /** Declared tokens to revoke by id: neither the id nor the digest can be declared again. */
  readonly revokeDeclared?: readonly string[];
  /** Tokens to remove by id, without remembering them as revoked: the same digest may be added again. */
  readonly removeTokens?: readonly string[];
  /** A customer whose users and services do not all go, or move, in the same change makes the whole change fail. */
  readonly removeCustomers?: readonly string[];
  readonly removeServices?: readonly string[];
  /** A user goes with sessions and expired tokens; active tokens make the whole change fail. */
  readonly removeUsers?: readonly string[];
  /**
   * What the changes were worked out from: the `updatedAt` of users as they were read, null for one that was not
   * there. When one is different by now, nothing is written.
   */
  readonly basedOn?: ReadonlyMap<string, EpochMs | null>;
}

/** Why a change was refused; nothing of it was written. */
export type ChangeRefused =
  | {
      readonly reason: 'active_tokens';
      /** Every user who was to be removed and has some. */
      readonly users: readonly { readonly userId: string; readonly tokenIds: readonly string[] }[];
    }
  | { readonly reason: 'login_taken'; readonly login: string; readonly userId: string }
  | { readonly reason: 'unknown_customer'; readonly customerId: string }
  /** A customer to remove who would leave users or services behind. */
  | { readonly reason: 'customer_in_use'; readonly customerId: string }
  /** The owner of a token to add. */
  | { readonly reason: 'unknown_user'; readonly userId: string }
  /** A declared token whose id or digest is another token's, or which is another user's so far. */
  | { readonly reason: 'token_taken'; readonly tokenId: string }
  | { readonly reason: 'changed_meanwhile'; readonly userId: string };

/** Customers, services and users, and changes of several records at once. */
export interface DirectoryStore {
  getCustomer(id: string): MaybePromise<Customer | undefined>;
  getService(id: string): MaybePromise<Service | undefined>;
  getUser(id: string): MaybePromise<User | undefined>;
  /** Finds a user by login name, upper and lower case alike. */
  getUserByLogin(login: string): MaybePromise<User | undefined>;
  listCustomers(): MaybePromise<Customer[]>;
  listServices(customerId: string): MaybePromise<Service[]>;
  listUsers(customerId: string): MaybePromise<User[]>;
  /** Ids of the users whose `deletionPending` is set. */
  listPendingDeletions(): MaybePromise<string[]>;
  /** What the costliest password hash takes that was ever written (`costOfHash`); 0 when none was. */
  getPasswordCost(): MaybePromise<number>;
  /** Writes a set of records, all or none. Returns `undefined` when it was written. */
  change(changes: Changes, now: EpochMs): Promise<ChangeRefused | undefined>;
}
