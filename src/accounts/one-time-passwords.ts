import type { EpochMs } from '../util/time.js';
import type { UsageStore } from '../store/core/usage.js';
import type { OtpVerdict } from './accounts.js';
import type { Sealer } from './sealing.js';

const STEP_SECONDS = 30;
const DIGITS = 6;
/** Accepted time steps before and after the current one (RFC 6238 5.2). */
const WINDOW = 1;

/** Checks time-based one-time passwords (RFC 6238: SHA-1, 6 digits, 30 seconds), once each. */
export class OneTimePasswords {
  readonly #usage: Pick<UsageStore, 'takeOtpStep'>;
  readonly #sealer: Sealer;

  constructor(usage: Pick<UsageStore, 'takeOtpStep'>, sealer: Sealer) {
    this.#usage = usage;
    this.#sealer = sealer;
  }

  /** Marks a correct code as used. */
  async take(
    userId: string,
    sealedSecret: string,
    code: string,
    now: EpochMs,
  ): Promise<Exclude<OtpVerdict, 'missing'>> {
    if (!/^\d{6}$/.test(code)) return 'wrong';
    const { Secret, TOTP } = await import('otpauth');
    const secret = Secret.fromBase32(this.#sealer.open(sealedSecret, userId));
    const totp = new TOTP({ algorithm: 'SHA1', digits: DIGITS, period: STEP_SECONDS, secret });
    const delta = totp.validate({ token: code, timestamp: now, window: WINDOW });
    if (delta === null) return 'wrong';
    const step = Math.floor(now / 1000 / STEP_SECONDS) + delta;
    return (await this.#usage.takeOtpStep(userId, step)) ? 'accepted' : 'used';
  }
}
