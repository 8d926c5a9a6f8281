import type { EpochMs } from './time.js';

/** So many requests in so many milliseconds. */
export interface Rate {
  readonly count: number;
  readonly per: number;
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const RATE = /^([1-9]\d{0,6})\/([1-9]\d{0,4})([smhd])$/;
/** Most requests and longest time of a rate. */
const MAX_COUNT = 1_000_000;
const MAX_PER = 31 * 86_400_000;

/** What a rate looks like, for errors. */
export const RATE_FORM = `like 600/1m: 1 to ${MAX_COUNT} requests in 1s to 31d`;

/** Reads a rate like `600/1m`; undefined for anything else. */
export function parseRate(text: string): Rate | undefined {
  const [, count, amount, unit] = RATE.exec(text) ?? [];
  if (unit === undefined) return undefined;
  const rate = { count: Number(count), per: Number(amount) * (UNITS[unit] ?? 0) };
  return rate.count <= MAX_COUNT && rate.per <= MAX_PER ? rate : undefined;
}

/** Whether no client gets more requests through at the narrow rate than at the wide one: neither at once nor in the long run. */
export function includesRate(wide: Rate, narrow: Rate): boolean {
  return narrow.count <= wide.count && narrow.count * wide.per <= wide.count * narrow.per;
}

export interface Grant {
  /** So many requests may be made; 0: none now. */
  readonly granted: number;
  /** The state of the bucket from now on. */
  readonly state: number;
  /** Milliseconds until there is one again; 0 when some were granted. */
  readonly retryAfter: number;
}

/**
 * Takes requests from a token bucket, as many as there are up to `want` (the generic cell rate algorithm). A full bucket
 * holds `count`; one comes back every `per / count`.
 *
 * @param state when the bucket will be full again, as the last grant left it; 0 for a new one. One that lies further ahead
 *   than an empty bucket's is of a clock that was ahead, and is taken for an empty one.
 */
export function takeFrom(state: EpochMs, { count, per }: Rate, want: number, now: EpochMs): Grant {
  const step = per / count;
  const full = Math.min(Math.max(state, now), now + per);
  // A thousandth makes up for what the division of milliseconds leaves over.
  const free = Math.floor((now + per - full) / step + 0.001);
  const granted = Math.min(want, free);
  if (granted === 0) return { granted, state: full, retryAfter: full + step - (now + per) };
  return { granted, state: full + granted * step, retryAfter: 0 };
}
