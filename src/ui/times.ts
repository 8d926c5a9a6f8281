const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** An expiry that is nearer than this is marked, where the configuration does not say. */
const SOON = 7 * DAY;

const LOCALE = 'en-GB';
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });

/** A moment in the reader's zone, as short as it can be without being mistaken. */
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

/** The same moment in UTC, to the second. */
export function formatUtc(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** How long ago, or how long from now, in the largest unit that fits. */
export function formatDistance(at: number, now: number): string {
  const distance = at - now;
  const size = Math.abs(distance);
  if (size < MINUTE) return distance <= 0 ? 'just now' : 'in less than a minute';
  if (size < HOUR) return RELATIVE.format(Math.trunc(distance / MINUTE), 'minute');
  if (size < DAY) return RELATIVE.format(Math.trunc(distance / HOUR), 'hour');
  if (size < 60 * DAY) return RELATIVE.format(Math.trunc(distance / DAY), 'day');
  if (size < 730 * DAY) return RELATIVE.format(Math.trunc(distance / (30.44 * DAY)), 'month');
  return RELATIVE.format(Math.trunc(distance / (365.25 * DAY)), 'year');
}

/** How a token's expiry stands. */
export type ExpiryState = 'never' | 'later' | 'soon' | 'past';

/** How long before its expiry a token is marked, in milliseconds. @param seconds as the configuration says; null: it does not */
export function warnBeforeOf(seconds: number | null): number {
  return seconds === null ? SOON : seconds * 1000;
}

/**
 * Says how an expiry stands.
 *
 * @param expiresAt as the token has it
 * @param warnBefore milliseconds before it from which on it is soon
 */
export function expiryState(expiresAt: string | null, warnBefore: number, now: number): ExpiryState {
  if (expiresAt === null) return 'never';
  const left = Date.parse(expiresAt) - now;
  if (left <= 0) return 'past';
  return left <= warnBefore ? 'soon' : 'later';
}

/** The last second of a day as a date input gives it, in the reader's zone; NaN when it is no day. */
export function endOfDay(day: string): number {
  const at = Date.parse(`${day}T23:59:59`);
  return /^\d{4}-\d\d-\d\d$/.test(day) ? at : Number.NaN;
}

/** A day as a date input takes it. */
export function inputDay(at: number): string {
  const date = new Date(at);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** Days from one moment's day to another's in the reader's zone. */
function calendarDays(at: number, now: number): number {
  const [a, b] = [new Date(at), new Date(now)];
  return Math.round((day(a) - day(b)) / DAY);
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}

/** The calendar day of a local date, as a time that daylight saving does not shift. */
function day(date: Date): number {
  return Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
}
