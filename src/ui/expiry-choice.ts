import { DAY, endOfDay } from './times.js';

/** A choice of expiry: a number of days, a chosen date, or the longest time allowed. */
export interface ExpiryPreset {
  readonly value: string;
  readonly label: string;
}

const DAYS = [7, 30, 90, 365];
const DEFAULT_DAYS = 90;

/**
 * Returns the presets within a limit.
 *
 * @param maxLifetime seconds; null when the lifetime is unlimited
 */
export function expiryPresets(maxLifetime: number | null): ExpiryPreset[] {
  const fit = DAYS.filter((days) => maxLifetime === null || days * DAY <= maxLifetime * 1000);
  return [
    ...fit.map((days) => ({ value: String(days), label: days === 365 ? '1 year' : `${days} days` })),
    { value: 'date', label: 'On a date…' },
    { value: 'longest', label: maxLifetime === null ? 'Never' : 'Longest allowed' },
  ];
}

export function firstPreset(maxLifetime: number | null): string {
  const values = expiryPresets(maxLifetime).map(({ value }) => value);
  return values.includes(String(DEFAULT_DAYS)) ? String(DEFAULT_DAYS) : 'longest';
}

/**
 * Returns the time that a preset stands for, milliseconds since 1970.
 *
 * Null means that none is sent, so that the token lasts as long as allowed. NaN means that the day
 * is invalid or has passed.
 */
export function expiryOf(preset: string, day: string, now: number): number | null {
  if (preset === 'longest') return null;
  if (preset !== 'date') return now + Number(preset) * DAY;
  const at = endOfDay(day);
  return at > now ? at : Number.NaN;
}

/** Formats a time for `expires_at`. */
export function toExpiresAt(at: number | null): string | null {
  return at === null ? null : `${new Date(at).toISOString().slice(0, 19)}Z`;
}
