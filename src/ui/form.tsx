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
  readonly error?: string | undefined;
}

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

export function valueOf(form: HTMLFormElement, name: string): string {
  const value = new FormData(form).get(name);
  return typeof value === 'string' ? value : '';
}

export function readProof(form: HTMLFormElement): Proof {
  return {
    login: valueOf(form, 'login').trim(),
    password: valueOf(form, 'password'),
    otp: valueOf(form, 'otp').replaceAll(/\s/g, ''),
  };
}

/** By input name. */
export function missingProof({ login, password, otp }: Proof, wantsOtp: boolean): Record<string, string> {
  return {
    ...(login === '' ? { login: 'Enter your login name, an e-mail address.' } : {}),
    ...(password === '' ? { password: 'Enter your password.' } : {}),
    ...(wantsOtp && otp === '' ? { otp: 'Enter the six digits from your authenticator app.' } : {}),
  };
}

export function focusFirstError(form: HTMLFormElement | null): void {
  form?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
}

export function emptyPassword(form: HTMLFormElement): void {
  const input = form.querySelector<HTMLInputElement>('[name="password"]');
  if (input === null) return;
  input.value = '';
  input.focus();
}

/** Messages by input name, and the server's refusal of the whole form. */
interface FormFaults {
  readonly fields: Readonly<Record<string, string>>;
  readonly failure: Failure | undefined;
  /** Whether the user is correcting a field, which must then keep the focus. */
  readonly corrected?: true;
}

/** Where the input has another name. */
const FIELDS: Readonly<Record<string, string>> = { reach: 'services', service: 'services' };

const NONE: FormFaults = { fields: {}, failure: undefined };

/** A one-time password is requested when the server requires one. */
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
    refuse: (fields: Record<string, string>) => setFaults({ fields, failure: undefined }),
    correct: (event: Event) => {
      const { name } = event.target as HTMLInputElement;
      const field = FIELDS[name] ?? name;
      const { [field]: corrected, ...fields } = faults.fields;
      if (corrected !== undefined) setFaults({ ...faults, fields, corrected: true });
    },
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
