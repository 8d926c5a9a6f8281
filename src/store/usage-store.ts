import type { MaybePromise } from '../domain/maybe-promise.js';
import type { Rate } from '../domain/rate.js';
import type { EpochMs } from '../domain/time.js';
import type { SessionUse, TokenUse } from '../domain/token.js';

/** Uses of tokens and sessions since the last write, by token id and by session digest. */
export interface Uses {
  readonly tokens: ReadonlyMap<string, TokenUse>;
  readonly sessions: ReadonlyMap<string, SessionUse>;
}

/** What was used: credentials, one-time passwords, and the writes that a rate limit allows. */
export interface UsageStore {
  /** Records last uses. What is gone by then is skipped, and an older use never replaces a newer one. */
  recordUses(uses: Uses): Promise<void>;

  /**
   * Takes a one-time password's time step, once: true when `step` is later than every step taken
   * before for this user, and false otherwise. The check and the write are one step.
   */
  takeOtpStep(userId: string, step: number): Promise<boolean>;
  /** The last step that was taken for a user; -1 when none was. */
  getOtpStep(userId: string): MaybePromise<number>;

  /**
   * Counts one more write of a user in an hour and returns how many there are. A new hour begins at 1; while one counts into
   * it whose clock still shows the hour before, that hour is not begun again. The check and the write are one step.
   *
   * @param hour its beginning
   */
  countWrite(userId: string, hour: EpochMs): Promise<number>;

  /**
   * Takes requests from the token bucket of a token, as many as there are up to `want`. The bucket goes by the store's own
   * clock, and is full again after `rate.per` milliseconds without a request. The check and the write are one step.
   */
  leaseRate(tokenId: string, rate: Rate, want: number): Promise<RateLease>;
}

/** Requests that a token may make. */
interface RateLease {
  /** 0: none now. */
  readonly granted: number;
  /** Milliseconds until there is one again; 0 when some were granted. */
  readonly retryAfter: number;
}
