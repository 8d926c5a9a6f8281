import type { MaybePromise } from '../util/async.js';
import type { EpochMs } from '../util/time.js';
import type { Token } from '../domain/token.js';
import type { Customer, Service, User } from '../domain/user.js';

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
  /** Part of a transfer: what it removes may be written again, so it is not remembered as ended. */
  readonly transfer?: true;
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

export async function allUsers(
  directory: Pick<DirectoryStore, 'listCustomers' | 'listUsers'>,
): Promise<User[]> {
  const users: User[] = [];
  for (const { id } of await directory.listCustomers()) users.push(...(await directory.listUsers(id)));
  return users;
}

export interface DirectoryStore {
  getCustomer(id: string): MaybePromise<Customer | undefined>;
  getService(id: string): MaybePromise<Service | undefined>;
  getUser(id: string): MaybePromise<User | undefined>;
  /** Finds a user by login name, ignoring case. */
  getUserByLogin(login: string): MaybePromise<User | undefined>;
  listCustomers(): MaybePromise<Customer[]>;
  listServices(customerId: string): MaybePromise<Service[]>;
  listUsers(customerId: string): MaybePromise<User[]>;
  listPendingDeletions(): MaybePromise<string[]>;
  /** Returns the highest cost (`costOfHash`) of any password hash ever written; 0 if none was. */
  getPasswordCost(): MaybePromise<number>;
  /** Applies a set of changes, all or none. Returns `undefined` if they were written. */
  change(changes: Changes, now: EpochMs): Promise<ChangeRefused | undefined>;
}
