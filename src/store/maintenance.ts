import type { MaybePromise } from '../domain/maybe-promise.js';
import type { EpochMs } from '../domain/time.js';

/** A store as a whole: from its beginning to its end. */
export interface Maintenance {
  /**
   * Begins the store when there is none yet, and checks that this Latchkey can use it. Whoever starts calls it once;
   * a worker that is replaced does not, so that a store that was emptied is noticed and not begun anew.
   *
   * @param purpose of one who brings an unfinished restore to its end; everyone else is refused such a store
   * @throws StoreUnusable when it cannot be used as it is; StoreUnavailable when it cannot answer
   */
  begin(purpose?: 'restore'): Promise<void>;
  /** Whether records of another store are being written into this one, or were until that was interrupted. */
  isRestoring(): MaybePromise<boolean>;
  /** Notes that such a restore begins, or is done. */
  setRestoring(restoring: boolean): Promise<void>;
  /** Resolves when the store answers, throws StoreUnavailable otherwise. */
  probe(): Promise<void>;
  /** Resolves when the store takes a write, to a key that nothing else uses; throws StoreUnavailable otherwise. */
  probeWrite(): Promise<void>;
  /**
   * Removes what nobody can use any more: sessions past their end or idle, tokens that expired before
   * `tokensBefore`, forgotten login attempts and addresses, expired sudo grants. Removes at most `limit` records and returns how many.
   */
  removeExpired(now: EpochMs, tokensBefore: EpochMs, limit: number): Promise<number>;
  /** Waits for what is being written and closes. */
  close(): Promise<void>;
}
