import type { AuditEvent } from '../domain/audit.js';
import type { User } from '../domain/user.js';

/** A login attempt's proof of identity. */
export interface Proof {
  readonly login: string;
  readonly password: string;
  readonly otp: string | undefined;
}

/** The result of checking a one-time password. `used`: correct, but already used before. */
export type OtpVerdict = 'accepted' | 'missing' | 'wrong' | 'used';

/**
 * The result of checking a proof.
 *
 * `wrong` covers both an unknown login and a wrong password. `locked` and `needs_otp` are reported
 * only after a correct password.
 */
export type Checked = {
  /** What the check changed about users, as the account source has it; absent for nothing. */
  readonly auditEvents?: readonly AuditEvent[];
} & (
  | {
      readonly verdict: 'right';
      readonly user: User;
      /** null if the account has no second factor. */
      readonly otp: 'accepted' | null;
    }
  | {
      readonly verdict: 'wrong';
      /** The user with this login, for the audit log; null for an unknown login. */
      readonly user: User | null;
    }
  | { readonly verdict: 'locked'; readonly user: User | null }
  | {
      readonly verdict: 'needs_otp';
      readonly user: User | null;
      readonly otp: Exclude<OtpVerdict, 'accepted'>;
    }
);

/** Verifies users and their passwords, against the store or an external API. */
export interface Accounts {
  /**
   * Queues a check of a proof, and runs it in turn.
   *
   * @param network of the client
   * @throws Unavailable if it could not run in time
   */
  enqueue<T>(network: string, work: () => Promise<T>): Promise<T>;
  /** Checks a proof; call it from work passed to {@link Accounts.enqueue}. */
  check(proof: Proof): Promise<Checked>;
  /** Called after a successful password login, in the same queued work. */
  loggedIn(user: User, password: string): Promise<void>;
}
