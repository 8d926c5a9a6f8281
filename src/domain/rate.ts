import type { EpochMs } from '../util/time.js';

export interface Rate {
  readonly count: number;
  readonly per: number;
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const RATE = /^([1-9]\d{0,6})\/([1-9]\d{0,4})([smhd])$/;
/** Maximum count and maximum period of a rate, in requests and milliseconds. */
const MAX_COUNT = 1_000_000;
const MAX_PER = 31 * 86_400_000;

export const RATE_FORM = `like 600/1m: 1 to ${MAX_COUNT} requests in 1s to 31d`;

/** Parses a rate such as `600/1m`; undefined for anything else. */
export function parseRate(text: string): Rate | undefined {
  const [, count, amount, unit] = RATE.exec(text) ?? [];
  if (unit === undefined) return undefined;
  const rate = { count: Number(count), per: Number(amount) * (UNITS[unit] ?? 0) };
  return rate.count <= MAX_COUNT && rate.per <= MAX_PER ? rate : undefined;
}

/** Whether the narrow rate never admits more than the wide one, in a burst or over time. */
export function includesRate(wide: Rate, narrow: Rate): boolean {
  return narrow.count <= wide.count && narrow.count * wide.per <= wide.count * narrow.per;
}

export interface Grant {
  readonly granted: number;
  readonly state: number;
  /** Milliseconds until the next request is allowed; 0 if some were granted. */
  readonly retryAfter: number;
}

/**
 * Takes up to `want` requests from a token bucket (generic cell rate algorithm) of `count` requests, to which
 * one is added every `per / count` milliseconds.
 * @param state when the bucket is full again; 0 for a new one. A time beyond that of an empty bucket (a clock
 *   ran ahead, or the rate changed) counts as empty; the new state is then earlier and must be kept.
 */
export function takeFrom(state: EpochMs, { count, per }: Rate, want: number, now: EpochMs): Grant {
  const step = per / count;
  const full = Math.min(Math.max(state, now), now + per);
  // The added thousandth compensates for the rounding error of the division.
  const free = Math.floor((now + per - full) / step + 0.001);
  const granted = Math.min(want, free);
  if (granted === 0) return { granted, state: full, retryAfter: full + step - (now + per) };
  return { granted, state: full + granted * step, retryAfter: 0 };
}
