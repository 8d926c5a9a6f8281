import type { MaybePromise } from '../util/async.js';
import type { EpochMs } from '../util/time.js';

/** Counts of login attempts, and the addresses from which accounts logged in. */
export interface LoginThrottleStore {
  /** Returns when the next login attempt is allowed; 0 if it need not wait. */
  blockedUntil(limits: readonly AttemptLimit[], now: EpochMs): MaybePromise<EpochMs>;
  /**
   * Counts a login attempt under each limit, before its password is verified, and returns 0. If
   * the attempt has to wait, it counts nothing and returns when an attempt is allowed. The
   * check and the write are atomic.
   */
  reserve(limits: readonly AttemptLimit[], now: EpochMs): Promise<EpochMs>;
  /** Settles a reserved attempt that was not a guess. Atomic. */
  settle(settlement: Settlement, now: EpochMs): Promise<void>;
  /** Lists an account's known addresses that have not expired by `now`, in no order. */
  listKnownAddresses(account: string, now: EpochMs): MaybePromise<string[]>;
}

/** The first wait after the free attempts, milliseconds. */
const FIRST_WAIT_MS = 1_000;
/** Maximum number of doublings; more would exceed any wait. */
const MAX_DOUBLINGS = 30;

/** How a count of login attempts delays the next one. Times are in milliseconds. */
export interface AttemptLimit {
  readonly key: string;
  /** Attempts without a delay. After them, the wait doubles from one second up to `longestWait`. */
  readonly free: number;
  readonly longestWait: number;
  /** At this count, the next attempt waits until the count expires. */
  readonly stopAt: number;
  readonly forgetAfter: number;
  /** Whether `forgetAfter` starts at the latest attempt or at the first. */
  readonly forgetFrom: 'latest' | 'first';
}

/** A stored count of attempts. */
export interface AttemptCount {
  readonly count: number;
  readonly lastAt: EpochMs;
  /** Time of the previous attempt; the wait counts from it when the latest attempt is released. */
  readonly before: EpochMs;
  readonly forgetAt: EpochMs;
}

/** What to do with a reserved attempt, atomically. */
export interface Settlement {
  /** Keys whose counts are deleted. */
  readonly clear: readonly string[];
  /** Keys from whose counts the attempt is subtracted. */
  readonly release: readonly string[];
  /** An address from which an account logged in. */
  readonly remember?: { readonly account: string; readonly address: string; readonly until: EpochMs };
}

/** Maximum number of known addresses per account; the one that expires first is evicted. */
export const MAX_KNOWN_ADDRESSES = 5;

/** Milliseconds by which clocks of a fleet may differ, even if counts are kept for less time. */
const MIN_AHEAD_MS = 300_000;

/** Returns when the next attempt is allowed; 0 or a past time if it need not wait. */
export function blockedUntil(known: AttemptCount | undefined, limit: AttemptLimit, now: EpochMs): EpochMs {
  if (known === undefined || known.forgetAt <= now) return 0;
  // It was counted by a clock that ran ahead, and a wait from then on could last for years. One
  // attempt is allowed: it is counted with the present time, and waits start from there.
  if (known.lastAt - now > Math.max(limit.forgetAfter, MIN_AHEAD_MS)) return 0;
  // A clock that was set back must not extend the wait.
  if (known.count >= limit.stopAt) return Math.min(known.forgetAt, now + limit.forgetAfter);
  if (known.count < limit.free) return 0;
  const doublings = Math.min(known.count - limit.free, MAX_DOUBLINGS);
  return Math.min(known.lastAt, now) + Math.min(limit.longestWait, FIRST_WAIT_MS * 2 ** doublings);
}

/** Returns the count with one more attempt. */
export function incremented(
  known: AttemptCount | undefined,
  limit: AttemptLimit,
  now: EpochMs,
): AttemptCount {
  if (known === undefined || known.forgetAt <= now)
    return { count: 1, lastAt: now, before: 0, forgetAt: now + limit.forgetAfter };
  const latest = now + limit.forgetAfter;
  const forgetAt = limit.forgetFrom === 'latest' ? latest : Math.min(known.forgetAt, latest);
  return { count: known.count + 1, lastAt: now, before: known.lastAt, forgetAt };
}

/** Returns the count without its latest attempt; undefined if none is left. */
export function released(known: AttemptCount): AttemptCount | undefined {
  if (known.count <= 1) return undefined;
  return { ...known, count: known.count - 1, lastAt: known.before };
}
