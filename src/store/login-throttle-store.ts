import type { MaybePromise } from '../util/async.js';
import type { EpochMs } from '../util/time.js';

export interface LoginThrottleStore {
  blockedUntil(limits: readonly AttemptLimit[], now: EpochMs): MaybePromise<EpochMs>;
  /**
   * Counts an attempt under each limit, before its password is verified, and returns 0.
   * If it has to wait, counts nothing and returns until when.
   */
  reserve(limits: readonly AttemptLimit[], now: EpochMs): Promise<EpochMs>;
  /** Settles a reserved attempt that was not a guess. Atomic. */
  settle(settlement: Settlement, now: EpochMs): Promise<void>;
  listKnownAddresses(account: string, now: EpochMs): MaybePromise<string[]>;
}

/** The first wait after the free attempts, milliseconds. */
const FIRST_WAIT_MS = 1_000;
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

export interface AttemptCount {
  readonly count: number;
  readonly lastAt: EpochMs;
  /** Time of the previous attempt; the wait counts from it when the latest attempt is released. */
  readonly before: EpochMs;
  readonly forgetAt: EpochMs;
}

export interface Settlement {
  readonly clear: readonly string[];
  readonly release: readonly string[];
  readonly remember?: { readonly account: string; readonly address: string; readonly until: EpochMs };
}

/** Maximum number of known addresses per account; the one that expires first is evicted. */
export const MAX_KNOWN_ADDRESSES = 5;

/** Milliseconds by which clocks of a fleet may differ, even if counts are kept for less time. */
const MIN_AHEAD_MS = 300_000;

/** Returns when the next attempt is allowed; 0 or a past time if it need not wait. */
export function blockedUntil(known: AttemptCount | undefined, limit: AttemptLimit, now: EpochMs): EpochMs {
  if (known === undefined || known.forgetAt <= now) return 0;
  // A clock that ran ahead counted it: one attempt is allowed, and waits start from there.
  if (known.lastAt - now > Math.max(limit.forgetAfter, MIN_AHEAD_MS)) return 0;
  // A clock that was set back must not extend the wait.
  if (known.count >= limit.stopAt) return Math.min(known.forgetAt, now + limit.forgetAfter);
  if (known.count < limit.free) return 0;
  const doublings = Math.min(known.count - limit.free, MAX_DOUBLINGS);
  return Math.min(known.lastAt, now) + Math.min(limit.longestWait, FIRST_WAIT_MS * 2 ** doublings);
}

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

export function released(known: AttemptCount): AttemptCount | undefined {
  if (known.count <= 1) return undefined;
  return { ...known, count: known.count - 1, lastAt: known.before };
}
