import type { MaybePromise } from '../domain/maybe-promise.js';
import type { EpochMs } from '../domain/time.js';
import type { AttemptLimit, Settlement } from './attempts.js';

/** Counts of login attempts, and the addresses that accounts logged in from. */
export interface LoginThrottleStore {
  /** Until when a login attempt has to wait; 0 when it need not. */
  heldUntil(limits: readonly AttemptLimit[], now: EpochMs): MaybePromise<EpochMs>;
  /**
   * Counts a login attempt under each limit, before its password is verified, and returns 0; when it has to wait, it
   * returns until when and counts nothing. The check and the write are one step.
   */
  reserve(limits: readonly AttemptLimit[], now: EpochMs): Promise<EpochMs>;
  /** Releases a reserved attempt that was not a guess, in one step. */
  settle(settlement: Settlement, now: EpochMs): Promise<void>;
  /** Addresses that an account logged in from and that are not forgotten by `now`, in no order. */
  listKnownAddresses(account: string, now: EpochMs): MaybePromise<string[]>;
}
