import type { InputHTMLAttributes } from 'preact';
import { useId, useState } from 'preact/hooks';
import type { Failure, Proof } from './api.js';
import { explainFailure } from './words.js';

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

/** Reads what proves that the user is the caller. */
export function readProof(form: HTMLFormElement): Proof {
  return {
    login: valueOf(form, 'login').trim(),
    password: valueOf(form, 'password'),
    otp: valueOf(form, 'otp').replaceAll(/\s/g, ''),
  };
}

/** Messages for the missing parts of a proof, by input name. */
export function missingProof({ login, password, otp }: Proof, wantsOtp: boolean): Record<string, string> {
  return {
    ...(login === '' ? { login: 'Enter your login name, an e-mail address.' } : {}),
    ...(password === '' ? { password: 'Enter your password.' } : {}),
    ...(wantsOtp && otp === '' ? { otp: 'Enter the six digits from your authenticator app.' } : {}),
  };
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

/** The errors of a form: messages by input name, and the server's refusal of the whole form. */
interface FormFaults {
  readonly fields: Readonly<Record<string, string>>;
  readonly failure: Failure | undefined;
  /** Whether the user is correcting a field, which must then keep the focus. */
  readonly corrected?: true;
}

/** The field of inputs whose names differ from it. */
const FIELDS: Readonly<Record<string, string>> = { reach: 'services', service: 'services' };

const NONE: FormFaults = { fields: {}, failure: undefined };

/**
 * The state of a form that asks for a password. A one-time password is requested when the server
 * requires one.
 */
export function useFormState(asksOtp = false) {
  const [busy, setBusy] = useState(false);
  const [otp, setOtp] = useState(asksOtp);
  const [faults, setFaults] = useState<FormFaults>(NONE);
  return {
    busy,
    otp,
    faults,
    begin: () => {
      setBusy(true);
      setFaults(NONE);
    },
    /** Shows errors that were found before sending. */
    refuse: (fields: Record<string, string>) => setFaults({ fields, failure: undefined }),
    /** Removes a field's error when its value changes. */
    correct: (event: Event) => {
      const { name } = event.target as HTMLInputElement;
      const field = FIELDS[name] ?? name;
      const { [field]: corrected, ...fields } = faults.fields;
      if (corrected !== undefined) setFaults({ ...faults, fields, corrected: true });
    },
    /**
     * Shows the server's refusal.
     *
     * @param sentOtp whether a one-time password was sent
     */
    fail: (failure: Failure, sentOtp: boolean) => {
      setBusy(false);
      const wantsOtp = failure.kind === 'refused' && failure.code === '2fa.verify';
      if (!wantsOtp) setFaults({ fields: {}, failure });
      else {
        setOtp(true);
        setFaults(sentOtp ? { fields: { otp: explainFailure(failure) }, failure: undefined } : NONE);
      }
    },
    forgetOtp: () => {
      setOtp(false);
      setFaults(NONE);
    },
  };
}
