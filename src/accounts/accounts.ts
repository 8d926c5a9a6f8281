import type { User } from '../domain/user.js';

/** A login attempt's proof of identity. */
export interface Proof {
  readonly login: string;
  readonly password: string;
  readonly otp: string | undefined;
}

/** The result of checking a one-time password. `used`: it was right, but had been used before. */
export type OtpVerdict = 'accepted' | 'missing' | 'wrong' | 'used';

/**
 * What became of a proof. `wrong` stands for an unknown login as for a wrong password; `locked` and `needs_otp` are said
 * only behind a right password.
 */
export type Checked =
  | {
      readonly verdict: 'right';
      readonly user: User;
      /** null when the account has no second factor. */
      readonly otp: 'accepted' | null;
    }
  | {
      readonly verdict: 'wrong';
      /** Whose password it is not, for the audit log; null for nobody's. */ readonly user: User | null;
    }
  | { readonly verdict: 'locked'; readonly user: User | null }
  | {
      readonly verdict: 'needs_otp';
      readonly user: User | null;
      readonly otp: Exclude<OtpVerdict, 'accepted'>;
    };

/** Where users and their passwords are checked: the store, or an API that already has them. */
export interface Accounts {
  /**
   * Runs the check of a proof when its turn comes.
   *
   * @throws Unavailable when too many wait; nothing was done then
   */
  enqueue<T>(work: () => Promise<T>): Promise<T>;
  /** Checks a proof. Run it in its turn. */
  check(proof: Proof): Promise<Checked>;
  /** Called, in the same turn, with a user who logged in with a password. */
  loggedIn(user: User, password: string): Promise<void>;
}
