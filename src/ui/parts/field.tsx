import type { InputHTMLAttributes } from 'preact';
import { useId } from 'preact/hooks';

type Passed = 'value' | 'defaultValue' | 'inputMode' | 'autoComplete' | 'autoCapitalize' | 'spellcheck' | 'readOnly' | 'maxLength' | 'min' | 'max' | 'onInput'; // prettier-ignore

interface FieldProps extends Pick<InputHTMLAttributes, Passed> {
  readonly type?: 'text' | 'password' | 'date';
  readonly label: string;
  readonly name: string;
  readonly hint?: string | undefined;
  /** The error in the value; empty when there is none. */
  readonly error?: string | undefined;
}

/** A labelled input, with its hint and error associated for screen readers. */
export function Field({ label, hint, error = '', ...input }: FieldProps) {
  const id = useId();
  const described = [hint === undefined ? '' : `${id}-hint`, error === '' ? '' : `${id}-error`];
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {hint !== undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      <input
        {...(input as InputHTMLAttributes)}
        id={id}
        aria-describedby={described.filter(Boolean).join(' ') || undefined}
        aria-invalid={error !== '' || undefined}
      />
      {error !== '' && (
        <p class="error" id={`${id}-error`}>
          {error}
        </p>
      )}
    </div>
  );
}

export function OneTimePassword({ error }: { readonly error?: string | undefined }) {
  return (
    <Field
      label="One-time password"
      name="otp"
      hint="The six digits that your authenticator app shows now. Each code works only once."
      inputMode="numeric"
      autoComplete="one-time-code"
      spellcheck={false}
      error={error}
    />
  );
}

/** Returns the value of a form's text input. */
export function valueOf(form: HTMLFormElement, name: string): string {
  const value = new FormData(form).get(name);
  return typeof value === 'string' ? value : '';
}

/** Moves the focus to the first input with an error. */
export function focusFirstError(form: HTMLFormElement | null): void {
  form?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
}

/** Clears the wrong password and focuses its input. */
export function emptyPassword(form: HTMLFormElement): void {
  const input = form.querySelector<HTMLInputElement>('[name="password"]');
  if (input === null) return;
  input.value = '';
  input.focus();
}
