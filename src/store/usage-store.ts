import type { MaybePromise } from '../util/async.js';
import type { Rate } from '../domain/rate.js';
import { type EpochMs, HOUR_MS } from '../util/time.js';
import type { SessionUse, TokenUse } from '../domain/token.js';

/** How long a count of writes is kept after its hour began, in milliseconds. */
export const WRITES_KEPT_MS = 3 * HOUR_MS;

/** Uses of tokens and sessions since the last write, by token id and by session digest. */
export interface Uses {
  readonly tokens: ReadonlyMap<string, TokenUse>;
  readonly sessions: ReadonlyMap<string, SessionUse>;
}

/** Usage of credentials and one-time passwords, and counts for rate limits. */
export interface UsageStore {
  /**
   * Records last uses. Credentials that no longer exist, and damaged sessions, are skipped; an older
   * use never replaces a newer one.
   */
  recordUses(uses: Uses): Promise<void>;

  /**
   * Consumes the time step of a one-time password. Returns true if `step` is later than every step
   * consumed before for this user, false otherwise. The check and the write are atomic.
   */
  takeOtpStep(userId: string, step: number): Promise<boolean>;
  /** Returns the last step consumed for a user; -1 if none was. */
  getOtpStep(userId: string): MaybePromise<number>;

  /**
   * Counts one write of a user in an hour and returns the count so far, starting at 1. A process
   * whose clock still shows the previous hour counts into the current one; it does not reset it.
   * The check and the write are atomic.
   *
   * @param hour the start of the hour
   */
  countWrite(userId: string, hour: EpochMs): Promise<number>;

  /**
   * Takes up to `want` requests from the token bucket of a token, as many as are available. The
   * bucket uses the store's clock. It is full again after `rate.per` milliseconds without a
   * request. The check and the write are atomic.
   */
  leaseRate(tokenId: string, rate: Rate, want: number): Promise<RateLease>;
}

/** Requests that a token may make now. */
interface RateLease {
  /** 0 if the bucket is empty. */
  readonly granted: number;
  /** Milliseconds until a request is available; 0 if some were granted. */
  readonly retryAfter: number;
}
