import type { WritesLeft } from '../accounts/write-limit.js';
import type { Refusal } from '../domain/refusal.js';

/** Names of the fields with the writes that a user has left. */
export interface RateLimitNames {
  readonly remaining: string;
  readonly reset: string;
}

const NONE: readonly string[] = [];

/** Fields with the writes that a user has left; none when the request was not counted. */
export function rateLimitFields(names: RateLimitNames, writes: WritesLeft | undefined): readonly string[] {
  if (writes === undefined) return NONE;
  const left = Math.max(0, writes.remaining);
  return [names.remaining, String(left), names.reset, String(Math.floor(writes.resetAt / 1000))];
}

/** The same for a refusal: none is left if that is its reason. */
export function refusedLimitFields(names: RateLimitNames, refusal: Refusal): readonly string[] {
  if (refusal.refusal !== 'rate_limited') return NONE;
  return rateLimitFields(names, { remaining: 0, resetAt: refusal.resetAt });
}
