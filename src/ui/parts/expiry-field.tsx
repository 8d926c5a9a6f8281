import { useId } from 'preact/hooks';
import { expiryOf, expiryPresets } from '../expiry-choice.js';
import { DAY, formatMoment, formatUtc, inputDay } from '../times.js';
import { Field } from './field.js';

export interface ExpiryValue {
  readonly preset: string;
  /** In the format of a date input; used when the preset is `date`. */
  readonly day: string;
}

interface ExpiryFieldProps {
  readonly value: ExpiryValue;
  /** Seconds; null when unlimited. */
  readonly maxLifetime: number | null;
  readonly now: number;
  readonly error: string | undefined;
  readonly onChange: (value: ExpiryValue) => void;
}

/** Lets the user choose when a token expires, and shows the resulting time. */
export function ExpiryField({ value, maxLifetime, now, error, onChange }: ExpiryFieldProps) {
  const id = useId();
  const at = expiryOf(value.preset, value.day, now);
  return (
    <div class="field">
      <label for={id}>Expires</label>
      <div class="expiry">
        <select
          id={id}
          aria-describedby={`${id}-moment`}
          value={value.preset}
          onChange={({ currentTarget }) => onChange({ ...value, preset: currentTarget.value })}
        >
          {expiryPresets(maxLifetime).map(({ value: preset, label }) => (
            <option key={preset} value={preset}>
              {label}
            </option>
          ))}
        </select>
        <p class="hint" id={`${id}-moment`} aria-live="polite">
          {describe(at, value.preset, maxLifetime, now)}
        </p>
      </div>
      {value.preset === 'date' && (
        <Field
          label="Last day"
          name="day"
          type="date"
          value={value.day}
          min={inputDay(now)}
          max={maxLifetime === null ? undefined : inputDay(now + maxLifetime * 1000 - DAY)}
          error={error}
          onInput={({ currentTarget }) => onChange({ ...value, day: currentTarget.value })}
        />
      )}
    </div>
  );
}

function describe(at: number | null, preset: string, maxLifetime: number | null, now: number) {
  if (at === null && maxLifetime === null) return 'It works until it is revoked. An expiry is safer.';
  const end = at ?? now + (maxLifetime ?? 0) * 1000;
  if (Number.isNaN(end)) return preset === 'date' ? 'Choose today or a later day.' : '';
  return <span title={formatUtc(end)}>{formatMoment(end, now)}</span>;
}
