import type { MaybePromise } from '../util/async.js';
import type { Rate, SessionUse, TokenUse } from '../domain/token.js';
import { type EpochMs, HOUR_MS } from '../util/time.js';

/** How long a count of writes is kept after its hour began, in milliseconds. */
export const WRITES_KEPT_MS = 3 * HOUR_MS;

/** Uses of tokens and sessions since the last write, by token id and by session digest. */
export interface Uses {
  readonly tokens: ReadonlyMap<string, TokenUse>;
  readonly sessions: ReadonlyMap<string, SessionUse>;
}

export interface UsageStore {
  /** Credentials that no longer exist are skipped; an older use never replaces a newer one. */
  recordUses(uses: Uses): Promise<void>;

  /** Returns whether `step` is later than every step consumed before for this user. */
  takeOtpStep(userId: string, step: number): Promise<boolean>;
  /** Returns the last step consumed for a user; -1 if none was. */
  getOtpStep(userId: string): MaybePromise<number>;

  /** Returns the count of the hour. A clock that still shows the previous hour counts into the current. */
  countWrite(userId: string, hour: EpochMs): Promise<number>;

  /** Takes up to `want` requests from the bucket of a token, by the store's clock. */
  leaseRate(tokenId: string, rate: Rate, want: number): Promise<RateLease>;
}

interface RateLease {
  readonly granted: number;
  /** Milliseconds until a request is available; 0 if some were granted. */
  readonly retryAfter: number;
}
