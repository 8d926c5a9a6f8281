import { digestOf } from './secret.js';
import type { EpochMs } from '../util/time.js';

/** An organisation that owns users and services. Nothing is shared between customers. */
export interface Customer {
  readonly id: string;
  readonly name: string;
}

/** Something that a token can be restricted to. A customer without services accepts any service id. */
export interface Service {
  readonly id: string;
  readonly customerId: string;
  readonly name: string;
}

export interface User {
  readonly id: string;
  readonly customerId: string;
  /** The login name, usually an e-mail address. It is unique; upper and lower case are equivalent. */
  readonly login: string;
  readonly name: string;
  /** A role of the policy. It is looked up at each request, so changes take effect immediately. */
  readonly role: string;
  /** An argon2id PHC string; null if the store has no password for the user. */
  readonly passwordHash: string | null;
  /** SHA-256 of the weaker hash that this one replaced. A directory file may still declare the weaker one. */
  readonly rehashOf?: string | undefined;
  /** The sealed secret of the one-time passwords; null if two-factor authentication is off. */
  readonly otpSecret: string | null;
  /** A locked user cannot log in, and the user's tokens and sessions are refused. */
  readonly locked: boolean;
  /** Set if an operator locked the user; directory files and account sources do not lift such a lock. */
  readonly lockedBy?: 'operator' | undefined;
  /**
   * The directory no longer declares this user, who is locked until the last active token ends, then deleted.
   */
  readonly deletionPending?: true | undefined;
  /**
   * The person at an OpenID Connect provider whom this user represents; absent for users of the directory.
   */
  readonly provider?: ProviderLink | undefined;
  readonly createdAt: EpochMs;
  readonly updatedAt: EpochMs;
}

/** A user's identity at a provider. Issuer and subject never change; the provider may be renamed. */
export interface ProviderLink {
  readonly name: string;
  readonly issuer: string;
  /** The `sub` claim, which the issuer never gives to anyone else. */
  readonly subject: string;
  /** May be too early by an hour, or by 1/24 of `tokens.owner_login_within` if that is less. */
  readonly loginAt: EpochMs;
}

/** A user when an identity was verified; what follows requires that the record still matches. */
export type VerifiedOwner = Pick<
  User,
  'id' | 'customerId' | 'createdAt' | 'passwordHash' | 'otpSecret' | 'locked'
>;

/** Whether a user's record still matches: neither changed, nor deleted and created again. */
export function isAsVerified(user: User | undefined, owner: VerifiedOwner): boolean {
  return (
    user !== undefined &&
    user.customerId === owner.customerId &&
    user.createdAt === owner.createdAt &&
    hasSamePassword(user, owner) &&
    user.otpSecret === owner.otpSecret &&
    user.locked === owner.locked
  );
}

/** A concurrent login of the same user may have rehashed the password. */
function hasSamePassword({ passwordHash, rehashOf }: User, owner: VerifiedOwner): boolean {
  if (passwordHash === owner.passwordHash) return true;
  return owner.passwordHash !== null && rehashOf === digestOf(owner.passwordHash);
}

export const GLOBAL_API_TOKEN = 'Global API Token';

/** Returns the one canonical form of a login name, for comparing and counting: NFKC, lower case, trimmed. */
export function loginKey(login: string): string {
  return login.normalize('NFKC').toLowerCase().normalize('NFKC').trim();
}

/** Returns the lock of a user whose source says `locked`; an operator's lock is preserved. */
export function lockOf(locked: boolean, before: User | undefined): Pick<User, 'locked' | 'lockedBy'> {
  const byOperator = before?.locked === true && before.lockedBy === 'operator';
  return byOperator ? { locked: true, lockedBy: 'operator' } : { locked };
}

/** Whether two records of a user are equal, apart from their times of creation and update. */
export function isSameUser(a: User, b: User): boolean {
  return (
    a.customerId === b.customerId &&
    a.login === b.login &&
    a.name === b.name &&
    a.role === b.role &&
    a.passwordHash === b.passwordHash &&
    a.rehashOf === b.rehashOf &&
    a.otpSecret === b.otpSecret &&
    a.locked === b.locked &&
    a.lockedBy === b.lockedBy &&
    a.deletionPending === b.deletionPending &&
    isSameLink(a.provider, b.provider)
  );
}

function isSameLink(a: ProviderLink | undefined, b: ProviderLink | undefined): boolean {
  return (
    a?.name === b?.name && a?.issuer === b?.issuer && a?.subject === b?.subject && a?.loginAt === b?.loginAt
  );
}

/** Login prefix of the user who owns a customer's legacy keys. */
export const KEY_OWNER_LOGIN = 'global-api-token+';
/** Login prefix of a user pending deletion whose own login was given to another user. */
export const PENDING_LOGIN = 'deletion-pending+';
/** Login prefixes that only Latchkey assigns. */
export const RESERVED_LOGINS = [KEY_OWNER_LOGIN, PENDING_LOGIN] as const;

/** Whether a login, in its canonical form, has a prefix that only Latchkey assigns. */
export function isReservedLogin(key: string): boolean {
  return RESERVED_LOGINS.some((beginning) => key.startsWith(beginning));
}

/** Format of the ids of customers, users and services; safe in paths, lists and header fields. */
export const ID = /^[A-Za-z0-9_-]{1,64}$/;
