/** The wait after the first failure, and the longest one, milliseconds. */
const FIRST_MS = 1_000;
const LONGEST_MS = 6 * 3_600_000;

/**
 * Milliseconds until the next attempt: doubled with each failure, up to six hours, of which the last quarter is random, so
 * that events that failed together come back apart. An endpoint that asks for a wait gets it, up to the longest one.
 *
 * @param failures at least 1
 * @param retryAfter milliseconds that the endpoint asked for; null: it did not
 * @param random from 0 up to 1
 */
export function backoff(failures: number, retryAfter: number | null, random = Math.random()): number {
  if (retryAfter !== null) return Math.min(LONGEST_MS, Math.max(FIRST_MS, retryAfter));
  const wait = Math.min(LONGEST_MS, FIRST_MS * 2 ** (failures - 1));
  return Math.round(wait * (0.75 + 0.25 * random));
}

/** Reads `Retry-After` (RFC 9110 10.2.3), as milliseconds from now on; null for anything else. */
export function readRetryAfter(field: string | undefined, now: number): number | null {
  if (field === undefined) return null;
  if (/^\d{1,9}$/.test(field)) return Number(field) * 1000;
  const at = /^[A-Z][a-z]{2}, /.test(field) ? Date.parse(field) : NaN;
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}
