import { LONGEST_RETRY_MS } from '../store/webhook-store.js';

/** Delay after the first failure, milliseconds. */
const FIRST_MS = 1_000;

/**
 * Returns the milliseconds until the next attempt.
 *
 * The delay doubles with each failure, up to six hours. Its last quarter is random, so that events
 * that failed together spread out again. A delay that the endpoint requested takes precedence, up
 * to the same limit.
 *
 * @param failures at least 1
 * @param retryAfter milliseconds that the endpoint requested, or null
 * @param random from 0 up to 1
 */
export function backoff(failures: number, retryAfter: number | null, random = Math.random()): number {
  if (retryAfter !== null) return Math.min(LONGEST_RETRY_MS, Math.max(FIRST_MS, retryAfter));
  const wait = Math.min(LONGEST_RETRY_MS, FIRST_MS * 2 ** (failures - 1));
  return Math.round(wait * (0.75 + 0.25 * random));
}

/** Parses `Retry-After` (RFC 9110 10.2.3) into milliseconds from now; null for anything else. */
export function readRetryAfter(field: string | undefined, now: number): number | null {
  if (field === undefined) return null;
  if (/^\d{1,9}$/.test(field)) return Number(field) * 1000;
  const at = /^[A-Z][a-z]{2}, /.test(field) ? Date.parse(field) : NaN;
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}
