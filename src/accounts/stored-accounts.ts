import type { AuditEvent } from '../domain/audit.js';
import { otpAccepted, reportingUnknown } from './audit-events.js';
import type { User } from '../domain/user.js';
import type { LoginQueue, Passwords } from './passwords.js';
import { digestOf } from '../domain/secret.js';
import type { Store } from '../store/core/store.js';
import type { Sealer } from './sealing.js';

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
  /** With the user of this login, for the audit log; null for an unknown login. */
  | { readonly verdict: 'wrong' | 'locked'; readonly user: User | null }
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

const STEP_SECONDS = 30;
const DIGITS = 6;
/** Accepted time steps before and after the current one (RFC 6238 5.2). */
const WINDOW = 1;

export class StoredAccounts implements Accounts {
  readonly #store: Pick<Store, 'directory' | 'usage'>;
  readonly #passwords: Passwords;
  readonly #sealer: Sealer;
  readonly queue: Accounts['queue'];

  constructor(store: Pick<Store, 'directory' | 'usage'>, passwords: Passwords, sealer: Sealer) {
    this.#store = store;
    this.#passwords = passwords;
    this.#sealer = sealer;
    this.queue = passwords.queue;
  }

  async find(login: string): Promise<Found> {
    const [user, costliest] = await Promise.all([
      this.#store.directory.getUserByLogin(login),
      this.#store.directory.getPasswordCost(),
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
    const otpVerdict = await this.#takeOtp(user, user.otpSecret, otp);
    return otpVerdict === 'accepted'
      ? { verdict: 'right', user, otp: otpVerdict }
      : { verdict: 'needs_otp', user, otp: otpVerdict };
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
    await this.#store.directory.change({ users: [renewed], rehashed: [user.id], basedOn }, now);
  }

  /** Checks a time-based one-time password (RFC 6238: SHA-1, 6 digits, 30 seconds), and marks it as used. */
  async #takeOtp(user: User, sealedSecret: string, code: string | undefined): Promise<OtpVerdict> {
    if (code === undefined) return 'missing';
    if (!/^\d{6}$/.test(code)) return 'wrong';
    const { Secret, TOTP } = await import('otpauth');
    const secret = Secret.fromBase32(this.#sealer.open(sealedSecret, user.id));
    const totp = new TOTP({ algorithm: 'SHA1', digits: DIGITS, period: STEP_SECONDS, secret });
    const now = Date.now();
    const delta = totp.validate({ token: code, timestamp: now, window: WINDOW });
    if (delta === null) return 'wrong';
    const step = Math.floor(now / 1000 / STEP_SECONDS) + delta;
    const isFirst = await reportingUnknown([otpAccepted(user)], async () =>
      this.#store.usage.takeOtpStep(user.id, step),
    );
    return isFirst ? 'accepted' : 'used';
  }
}
