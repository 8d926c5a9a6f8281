import type { User } from '../domain/user.js';

/** What someone sent to prove who they are. */
export interface Proof {
  readonly login: string;
  readonly password: string;
  readonly otp: string | undefined;
}

/**
 * What became of a proof: the user; `wrong` for an unknown login as for a wrong password; `locked` and
 * `needs_otp` (missing, wrong or used before) only behind a right password.
 */
export type Checked = { readonly user: User } | 'wrong' | 'locked' | 'needs_otp';

/** Where users are known and their passwords are checked: the store, or an API that had them before. */
export interface Accounts {
  check(proof: Proof): Promise<Checked>;
}
