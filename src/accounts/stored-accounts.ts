import { digestOf } from '../domain/secret.js';
import type { User } from '../domain/user.js';
import type { DirectoryStore } from '../store/core/directory.js';
import type { Accounts, Checked, Found, Proof } from './accounts.js';
import { otpAccepted } from './login.js';
import type { OneTimePasswords } from './one-time-passwords.js';
import type { Passwords } from './passwords.js';
import { reportingUnknown } from './unconfirmed.js';

export class StoredAccounts implements Accounts {
  readonly #directory: DirectoryStore;
  readonly #passwords: Passwords;
  readonly #otps: OneTimePasswords;
  readonly queue: Accounts['queue'];

  constructor(directory: DirectoryStore, passwords: Passwords, otps: OneTimePasswords) {
    this.#directory = directory;
    this.#passwords = passwords;
    this.#otps = otps;
    this.queue = passwords.queue;
  }

  async find(login: string): Promise<Found> {
    const [user, costliest] = await Promise.all([
      this.#directory.getUserByLogin(login),
      this.#directory.getPasswordCost(),
    ]);
    return { user, costliest };
  }

  /** An unknown login takes as much work as a wrong password. */
  async check({ password, otp }: Proof, found: Promise<Found>): Promise<Checked> {
    const { user, costliest = 0 } = (await found) ?? {};
    const right = await this.#passwords.verify(user?.passwordHash ?? null, password, costliest);
    if (!right || user === undefined) return { verdict: 'wrong', user: user ?? null };
    if (user.locked) return { verdict: 'locked', user };
    if (user.otpSecret === null) return { verdict: 'right', user, otp: null };
    const { otpSecret } = user;
    const otpResult =
      otp === undefined
        ? 'missing'
        : await reportingUnknown([otpAccepted(user)], async () =>
            this.#otps.take(user.id, otpSecret, otp, Date.now()),
          );
    return otpResult === 'accepted'
      ? { verdict: 'right', user, otp: otpResult }
      : { verdict: 'needs_otp', user, otp: otpResult };
  }

  /** Rehashes a password whose hash is weak. A concurrent change to the user takes precedence. */
  async loggedIn(user: User, password: string): Promise<void> {
    if (!this.#passwords.isWeak(user.passwordHash)) return;
    const now = Date.now();
    const renewed: User = {
      ...user,
      passwordHash: await this.#passwords.hash(password),
      rehashOf: digestOf(user.passwordHash),
      updatedAt: Math.max(now, user.updatedAt + 1),
    };
    const basedOn = new Map([[user.id, user.updatedAt]]);
    await this.#directory.change({ users: [renewed], rehashed: [user.id], basedOn }, now);
  }
}
