const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** Time before the expiry from which on it is marked, where the configuration does not set one. */
const SOON = 7 * DAY;

const LOCALE = 'en-GB';
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'always' });

/** Formats a time in the user's time zone, as briefly as is unambiguous. */
export function formatMoment(at: number, now: number): string {
  const date = new Date(at);
  const time = date.toLocaleTimeString(LOCALE, { hour: '2-digit', minute: '2-digit' });
  const days = calendarDays(at, now);
  if (days === 0) return `Today, ${time}`;
  if (days === -1) return `Yesterday, ${time}`;
  if (days === 1) return `Tomorrow, ${time}`;
  return `${formatDay(at)}, ${time}`;
}

function formatDay(at: number): string {
  return new Date(at).toLocaleDateString(LOCALE, { day: 'numeric', month: 'short', year: 'numeric' });
}

/** Formats a time in UTC, to the second. */
export function formatUtc(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/**
 * Formats how long ago or how far ahead a time is, in the largest suitable unit.
 *
 * It counts units that have passed, so it does not say "tomorrow": 30 hours ahead may be a day later.
 */
export function formatDistance(at: number, now: number): string {
  const distance = at - now;
  const size = Math.abs(distance);
  if (size < MINUTE) return distance <= 0 ? 'just now' : 'in less than a minute';
  if (size < HOUR) return RELATIVE.format(Math.trunc(distance / MINUTE), 'minute');
  if (size < DAY) return RELATIVE.format(Math.trunc(distance / HOUR), 'hour');
  if (size < 61 * DAY) return RELATIVE.format(Math.trunc(distance / DAY), 'day');
  if (size < 731 * DAY) return RELATIVE.format(Math.trunc(distance / (30.44 * DAY)), 'month');
  return RELATIVE.format(Math.trunc(distance / (365.25 * DAY)), 'year');
}

/** The state of a token's expiry. */
export type ExpiryState = 'never' | 'later' | 'soon' | 'past';

/**
 * Returns how long before its expiry a token is marked, in milliseconds.
 *
 * @param seconds the configured time; null when not configured
 */
export function warnBeforeOf(seconds: number | null): number {
  return seconds === null ? SOON : seconds * 1000;
}

/**
 * Returns the state of an expiry.
 *
 * @param expiresAt from the token, ISO 8601
 * @param warnBefore milliseconds before the expiry from which on it is soon
 */
export function expiryState(expiresAt: string | null, warnBefore: number, now: number): ExpiryState {
  if (expiresAt === null) return 'never';
  const left = Date.parse(expiresAt) - now;
  if (left <= 0) return 'past';
  return left <= warnBefore ? 'soon' : 'later';
}

/**
 * Returns the last second of a date input's day in the user's time zone; NaN for an invalid day.
 */
export function endOfDay(day: string): number {
  const at = Date.parse(`${day}T23:59:59`);
  return /^\d{4}-\d\d-\d\d$/.test(day) ? at : Number.NaN;
}

/** Formats a day for a date input. */
export function inputDay(at: number): string {
  const date = new Date(at);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** Calendar days from `now` to `at`, in the user's time zone. */
function calendarDays(at: number, now: number): number {
  const [a, b] = [new Date(at), new Date(now)];
  return Math.round((day(a) - day(b)) / DAY);
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}

/** The calendar day of a local date, as a time that is not affected by daylight saving. */
function day(date: Date): number {
  return Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
}
