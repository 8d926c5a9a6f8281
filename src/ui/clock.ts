/** How far the server's clock is ahead of the browser's, in milliseconds. */
let ahead = 0;

/**
 * Notes the time in a response. Expiries and last uses are times of the server, and the browser's
 * clock may be wrong.
 *
 * The result is at most a second and the time of the response too early, and never too late.
 *
 * @param date `Date` of a response that just arrived; null when it has none
 */
export function noteServerTime(date: string | null): void {
  const at = Date.parse(date ?? '');
  ahead = Number.isNaN(at) ? 0 : at - Date.now();
}

/** Returns the current time by the server's clock. */
export function currentTime(): number {
  return Date.now() + ahead;
}
