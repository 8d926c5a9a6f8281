import { digestOf } from './secret.js';
import type { EpochMs } from './time.js';

/** An organisation. Its users and services belong to it; nothing crosses from one customer to another. */
export interface Customer {
  readonly id: string;
  readonly name: string;
}

/** Something a token can be restricted to. A customer that lists none accepts any service id. */
export interface Service {
  readonly id: string;
  readonly customerId: string;
  readonly name: string;
}

/** Someone who owns tokens and sessions. */
export interface User {
  readonly id: string;
  readonly customerId: string;
  /** The login name, an e-mail form. Two users never share one; upper and lower case are the same. */
  readonly login: string;
  readonly name: string;
  /** A role of the policy's table; it is looked up at each request, so a change takes effect at once. */
  readonly role: string;
  /** An argon2id PHC string; null for a user who can't log in. */
  readonly passwordHash: string | null;
  /** SHA-256 of the weaker hash of the same password that it replaced: a directory file may still declare that one. */
  readonly rehashOf?: string | undefined;
  /** The sealed secret of the one-time passwords; null when two-factor authentication is off. */
  readonly otpSecret: string | null;
  /** A locked user can't log in, and the user's tokens and sessions are refused. */
  readonly locked: boolean;
  /** Set when an operator locked the user: such a lock stays, whatever the directory file or an account source says. */
  readonly lockedBy?: 'operator' | undefined;
  /**
   * The directory no longer names this user, who still has active tokens: locked until the last of them ends, then
   * deleted. Absent for everyone else.
   */
  readonly deletionPending?: true | undefined;
  /** The person at an OpenID Connect provider whom this user is; absent for users of the directory. */
  readonly provider?: ProviderLink | undefined;
  readonly createdAt: EpochMs;
  readonly updatedAt: EpochMs;
}

/** Who a user is at an OpenID Connect provider. The issuer and the subject never change; a provider may be renamed. */
export interface ProviderLink {
  /** Its name in the configuration at the last login. */
  readonly name: string;
  readonly issuer: string;
  /** The claim `sub`: nobody else at the issuer ever has it. */
  readonly subject: string;
  /** When the user logged in last, at most an hour early, and a 24th of `tokens.owner_login_within`. */
  readonly loginAt: EpochMs;
}

/**
 * A user as somebody's proof was checked against it. What is made for the user afterwards names it, and the store makes
 * it only while the user's record still says the same.
 */
export type VerifiedOwner = Pick<
  User,
  'id' | 'customerId' | 'createdAt' | 'passwordHash' | 'otpSecret' | 'locked'
>;

/** Whether a user's record is still the one that was verified: not changed, nor deleted and made anew. */
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

/** Another login of the same user may have had the password hashed anew meanwhile. */
function hasSamePassword({ passwordHash, rehashOf }: User, owner: VerifiedOwner): boolean {
  if (passwordHash === owner.passwordHash) return true;
  return owner.passwordHash !== null && rehashOf === digestOf(owner.passwordHash);
}

/** Name of the synthetic user of a customer who owns its migrated legacy keys. */
export const GLOBAL_API_TOKEN = 'Global API Token';

/**
 * The form of a login name that is compared and counted: NFKC, lower case, without space around it. The form of a form is
 * itself, so that no name has two.
 */
export function loginKey(login: string): string {
  return login.normalize('NFKC').toLowerCase().normalize('NFKC').trim();
}

/** The lock of a user whose source says `locked`: an operator's lock stays beside it. */
export function lockOf(locked: boolean, before: User | undefined): Pick<User, 'locked' | 'lockedBy'> {
  const byOperator = before?.locked === true && before.lockedBy === 'operator';
  return byOperator ? { locked: true, lockedBy: 'operator' } : { locked };
}

/** Whether two records of a user say the same, whenever they were written. */
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

/** Begins the login of the user who owns a customer's legacy keys. */
export const KEY_OWNER_LOGIN = 'global-api-token+';
/** Begins the login that a user gets whose own one is needed again, and who stays until the last token has ended. */
export const PENDING_LOGIN = 'deletion-pending+';
/** Beginnings of logins that Latchkey gives itself; nobody else has one. */
export const RESERVED_LOGINS = [KEY_OWNER_LOGIN, PENDING_LOGIN] as const;

/** Whether a login, as it is compared, is one that Latchkey gives itself. */
export function isReservedLogin(key: string): boolean {
  return RESERVED_LOGINS.some((beginning) => key.startsWith(beginning));
}

/** The form of the ids of customers, users and services: they stand in paths, lists and header fields. */
export const ID = /^[A-Za-z0-9_-]{1,64}$/;
