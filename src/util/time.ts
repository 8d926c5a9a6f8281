/** Milliseconds since the Unix epoch, UTC. The unit of every time in the store and between modules. */
export type EpochMs = number;

/** A clock hour, the period of `rate_limit.writes_per_hour`. */
export const HOUR_MS = 3_600_000;

/** Longest delay of a Node.js timer, in milliseconds; a longer one would fire at once. */
export const MAX_TIMER_MS = 2_147_483_647;

/** The last time with a four-digit year; no stored time is later. */
export const LAST_TIME: EpochMs = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

export function wholeSecond(at: EpochMs): EpochMs {
  return Math.floor(at / 1000) * 1000;
}

/** Writes a number of milliseconds like the configuration does: `60s`, `10m`. */
export function formatDuration(ms: number): string {
  for (const [unit, length] of [['h', HOUR_MS], ['m', 60_000]] as const)
    if (ms >= 2 * length && ms % length === 0) return `${ms / length}${unit}`;
  return ms % 1_000 === 0 ? `${ms / 1_000}s` : `${ms}ms`;
} // prettier-ignore

/** Formats a time as in all responses: ISO 8601 in UTC with `+00:00` and whole seconds. */
export function formatTime(at: EpochMs): string {
  return `${new Date(at).toISOString().slice(0, 19)}+00:00`;
}

const FIRST_TIME: EpochMs = Date.parse('0000-01-01T00:00:00Z');

const DATE_TIME =
  /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?(?:[Zz]|([+-])(\d{2})(?::?(\d{2}))?)$/;

/** Parses an ISO 8601 date-time with `Z` or an offset. A space counts as `+`: a form did not encode it. */
export function parseTime(text: string): EpochMs | undefined {
  const match = DATE_TIME.exec(text.replace(/ (?=\d{2}(?::?\d{2})?$)/, '+'));
  if (!match) return undefined;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map((part) => Number(part ?? 0));
  if (year === undefined || month === undefined || day === undefined) return undefined;
  if (hour === undefined || minute === undefined || second === undefined) return undefined;
  if (hour > 23 || minute > 59 || second > 59) return undefined;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  const millisecond = Number((match[7] ?? '').padEnd(3, '0').slice(0, 3));
  const [offsetHour, offsetMinute] = [Number(match[9] ?? 0), Number(match[10] ?? 0)];
  if (offsetHour > 23 || offsetMinute > 59) return undefined;
  const offset = (match[8] === '-' ? -1 : 1) * (offsetHour * 60 + offsetMinute) * 60_000;
  const at = date.setUTCHours(hour, minute, second, millisecond) - offset;
  return at < FIRST_TIME || at > LAST_TIME ? undefined : at;
}

/** Maximum number of keys that a log throttle remembers: others choose parts of some keys. */
const MAX_THROTTLED = 1_000;

/** The function returns how many messages of a key were suppressed, or undefined within the interval. */
export function createLogThrottle(intervalMs = 10_000): (key?: string) => number | undefined {
  const logged = new Map<string, { at: number; suppressed: number }>();
  return (key = '') => {
    const last = logged.get(key);
    const now = performance.now();
    if (last !== undefined && now - last.at < intervalMs) {
      last.suppressed += 1;
      return undefined;
    }
    if (last === undefined && logged.size === MAX_THROTTLED) logged.delete(logged.keys().next().value ?? '');
    logged.set(key, { at: now, suppressed: 0 });
    return last?.suppressed ?? 0;
  };
}
