import type { AuditEvent } from '../domain/audit.js';
import type { User } from '../domain/user.js';
import type { LoginQueue } from './passwords.js';

export interface Proof {
  readonly login: string;
  readonly password: string;
  readonly otp: string | undefined;
}

/** `used`: correct, but already used before. */
export type OtpVerdict = 'accepted' | 'missing' | 'wrong' | 'used';

/** `wrong`: unknown login or wrong password. `locked` and `needs_otp` come only after a correct password. */
export type Checked = {
  /** What the check changed about users; absent for nothing. */
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

/** The user with a login, and the highest cost of a password hash; undefined where others check. */
export type Found = { readonly user: User | undefined; readonly costliest: number } | undefined;

export interface Accounts {
  /** In which {@link Accounts.check} runs. */
  readonly queue: Pick<LoginQueue, 'run'>;
  /** Reads what a check of a login needs, so that nothing has to wait for it. */
  find(login: string): Promise<Found>;
  check(proof: Proof, found: Promise<Found>): Promise<Checked>;
  /** Called after a successful password login, in the same queued work. */
  loggedIn(user: User, password: string): Promise<void>;
}
