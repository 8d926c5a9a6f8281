import type { Store } from '../store/store.js';
import type { Accounts, Checked, Proof } from './accounts.js';
import type { OneTimePasswords } from './one-time-passwords.js';
import type { Passwords } from './passwords.js';

/** Users whose passwords and one-time-password secrets are in the store. */
export class StoredAccounts implements Accounts {
  readonly #store: Store;
  readonly #passwords: Passwords;
  readonly #otps: OneTimePasswords;

  constructor(store: Store, passwords: Passwords, otps: OneTimePasswords) {
    this.#store = store;
    this.#passwords = passwords;
    this.#otps = otps;
  }

  /** An unknown login takes the same work as a wrong password. @throws PasswordsBusy when too many checks wait */
  async check({ login, password, otp }: Proof): Promise<Checked> {
    const user = await this.#store.getUserByLogin(login);
    const right = await this.#passwords.verify(user?.passwordHash ?? null, password);
    if (!right || user === undefined) return { verdict: 'wrong', user: user ?? null };
    if (user.locked) return { verdict: 'locked', user };
    if (user.otpSecret === null) return { verdict: 'right', user, otp: null };
    const taken =
      otp === undefined ? 'missing' : await this.#otps.take(user.id, user.otpSecret, otp, Date.now());
    return taken === 'accepted'
      ? { verdict: 'right', user, otp: taken }
      : { verdict: 'needs_otp', user, otp: taken };
  }
}
