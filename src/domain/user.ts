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
  /** The sealed secret of the one-time passwords; null when two-factor authentication is off. */
  readonly otpSecret: string | null;
  /** A locked user can't log in, and the user's tokens and sessions are refused. */
  readonly locked: boolean;
  /** Set when an operator locked the user: such a lock stays, whatever the directory file or an account source says. */
  readonly lockedBy?: 'operator' | undefined;
  readonly createdAt: EpochMs;
  readonly updatedAt: EpochMs;
}

/** Name of the synthetic user of a customer who owns its migrated legacy keys. */
export const GLOBAL_API_TOKEN = 'Global API Token';

/** The form of a login name that is compared: lower case, NFKC. */
export function loginKey(login: string): string {
  return login.normalize('NFKC').toLowerCase();
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
    a.otpSecret === b.otpSecret &&
    a.locked === b.locked &&
    a.lockedBy === b.lockedBy
  );
}
