import type { MaybePromise } from '../domain/maybe-promise.js';
import type { EpochMs } from '../domain/time.js';

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

/** The first wait behind the free attempts, milliseconds. */
export const FIRST_WAIT_MS = 1_000;
/** Doublings beyond this are longer than any wait. */
export const MAX_DOUBLINGS = 30;

/** A count of login attempts, and how it delays the next one. Times in milliseconds. */
export interface AttemptLimit {
  readonly key: string;
  /** This many are not delayed; after them the wait doubles from one second up to `longestWait`. */
  readonly free: number;
  readonly longestWait: number;
  /** From this count on, the next one waits until the count is forgotten. */
  readonly stopAt: number;
  readonly forgetAfter: number;
  /** Whether it is forgotten this long after the latest attempt, or after the first. */
  readonly forgetFrom: 'latest' | 'first';
}

/** Attempts as they are stored. */
export interface AttemptCount {
  readonly count: number;
  readonly lastAt: EpochMs;
  /** When the attempt before the latest one was; the wait counts from there once the latest is taken back. */
  readonly before?: EpochMs;
  readonly forgetAt: EpochMs;
}

/** What becomes of a reserved attempt, in one step. */
export interface Settlement {
  /** Keys whose counts are forgotten. */
  readonly clear: readonly string[];
  /** Keys that the attempt is taken out of. */
  readonly release: readonly string[];
  /** An address that an account logged in from. */
  readonly remember?: { readonly account: string; readonly address: string; readonly until: EpochMs };
}

/** Most addresses that are remembered for an account; the one that expires first is replaced. */
export const MAX_KNOWN_ADDRESSES = 5;

/** Until when the next attempt has to wait; 0 or a time that has passed when it need not. */
export function heldUntil(known: AttemptCount | undefined, limit: AttemptLimit, now: EpochMs): EpochMs {
  if (known === undefined || known.forgetAt <= now) return 0;
  // A clock that was set back must not extend the wait.
  if (known.count >= limit.stopAt) return Math.min(known.forgetAt, now + limit.forgetAfter);
  if (known.count < limit.free) return 0;
  const doublings = Math.min(known.count - limit.free, MAX_DOUBLINGS);
  return Math.min(known.lastAt, now) + Math.min(limit.longestWait, FIRST_WAIT_MS * 2 ** doublings);
}

/** The count with one more attempt. */
export function counted(known: AttemptCount | undefined, limit: AttemptLimit, now: EpochMs): AttemptCount {
  if (known === undefined || known.forgetAt <= now)
    return { count: 1, lastAt: now, before: 0, forgetAt: now + limit.forgetAfter };
  const forgetAt = limit.forgetFrom === 'latest' ? now + limit.forgetAfter : known.forgetAt;
  return { count: known.count + 1, lastAt: now, before: known.lastAt, forgetAt };
}

/** The count without its latest attempt; undefined when none is left. */
export function takenBack(known: AttemptCount): AttemptCount | undefined {
  if (known.count <= 1) return undefined;
  return { ...known, count: known.count - 1, lastAt: known.before ?? known.lastAt };
}
