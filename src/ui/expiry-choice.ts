import { DAY, endOfDay } from './times.js';

/** A way to say when a token expires: days from now, a day of one's own, or as long as is allowed. */
export interface ExpiryPreset {
  readonly value: string;
  readonly label: string;
}

const DAYS = [7, 30, 90, 365];
const DEFAULT_DAYS = 90;

/** The presets that a limit leaves. @param maxLifetime seconds; null: tokens may last for ever */
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
 * The moment that a preset means; null: none is sent, so that the token lasts as long as is allowed. NaN when
 * the day is none or has passed.
 */
export function expiryOf(preset: string, day: string, now: number): number | null {
  if (preset === 'longest') return null;
  if (preset !== 'date') return now + Number(preset) * DAY;
  const at = endOfDay(day);
  return at > now ? at : Number.NaN;
}

/** The moment as `expires_at` takes it. */
export function toExpiresAt(at: number | null): string | null {
  return at === null ? null : `${new Date(at).toISOString().slice(0, 19)}Z`;
}
