import { type ComponentChildren, createContext, type InputHTMLAttributes } from 'preact';
import { useContext, useEffect, useId, useRef, useState } from 'preact/hooks';
import type { Failure, Proof } from './api.js';
import { explainFailure } from './words.js';

interface FormProps {
  readonly busy: boolean;
  readonly class?: string;
  readonly faults?: FormFaults;
  readonly onInput?: (event: Event) => void;
  readonly onSubmit: (form: HTMLFormElement) => void;
  readonly children: ComponentChildren;
}

/** It is not sent while busy. The first field with an error gets the focus. */
export function Form({ busy, faults = NONE, onSubmit, ...others }: FormProps) {
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (!faults.corrected) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [faults]);
  const submit = (event: Event) => {
    event.preventDefault();
    if (form.current !== null && !busy) onSubmit(form.current);
  };
  return (
    <Faults.Provider value={faults}>
      <form ref={form} method="post" noValidate onSubmit={submit} {...others} />
    </Faults.Provider>
  );
}

type Passed = 'value' | 'defaultValue' | 'inputMode' | 'autoComplete' | 'autoCapitalize' | 'spellcheck' | 'readOnly' | 'maxLength' | 'min' | 'max' | 'onInput'; // prettier-ignore

interface FieldProps extends Pick<InputHTMLAttributes, Passed> {
  readonly type?: 'text' | 'password' | 'date';
  readonly label: string;
  readonly name: string;
  readonly hint?: string | undefined;
}

export function Field({ label, hint, ...input }: FieldProps) {
  const id = useId();
  const error = useError(input.name);
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
      <FieldError id={`${id}-error`} error={error} />
    </div>
  );
}

function FieldError({ id, error }: { readonly id: string; readonly error: string }) {
  if (error === '') return null;
  return (
    <p class="error" id={id}>
      {error}
    </p>
  );
}

interface SelectProps {
  readonly label: string;
  readonly name: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, label: string])[];
  readonly onChange: (value: string) => void;
  /** Beside it, and read with it. */
  readonly children?: ComponentChildren;
}

export function Select({ label, name, value, options, onChange, children }: SelectProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <div class="with-hint">
        <select id={id} name={name} aria-describedby={children ? `${id}-hint` : undefined} value={value} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
          {options.map(([each, text]) => (
            <option key={each} value={each}>
              {text}
            </option>
          ))}
        </select>
        {children && (
          <p class="hint" id={`${id}-hint`} aria-live="polite">
            {children}
          </p>
        )}
      </div>
    </div>
  ); // prettier-ignore
}

interface OptionsProps {
  readonly legend: string;
  readonly name: string;
  readonly children: ComponentChildren;
}

export function Options({ legend, name, children }: OptionsProps) {
  const id = useId();
  const error = useError(name);
  return (
    <fieldset class="field" aria-describedby={error === '' ? undefined : id}>
      <legend>{legend}</legend>
      {children}
      <FieldError id={id} error={error} />
    </fieldset>
  );
}

interface OptionProps extends Pick<InputHTMLAttributes, 'checked' | 'onChange'> {
  readonly type: 'checkbox' | 'radio';
  readonly name: string;
  readonly value: string;
  readonly title: string;
  readonly hint?: string;
}

/** Its value is shown where its title is another one. */
export function Option({ title, hint, ...input }: OptionProps) {
  const { type, name, value } = input;
  return (
    <label class="option">
      <input {...input} aria-invalid={useError(name) !== '' || undefined} />
      <span>
        <span class="option-title">
          {title} {type === 'checkbox' && title !== value && <code>{value}</code>}
        </span>
        {hint !== undefined && <span class="hint">{hint}</span>}
      </span>
    </label>
  );
}

export function OneTimePassword() {
  return (
    <Field
      label="One-time password"
      name="otp"
      hint="The six digits that your authenticator app shows now. Each code works only once."
      inputMode="numeric"
      autoComplete="one-time-code"
      spellcheck={false}
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

export function missingProof({ login, password, otp }: Proof, wantsOtp: boolean): Record<string, string> {
  return {
    ...(login === '' ? { login: 'Enter your login name, an e-mail address.' } : {}),
    ...(password === '' ? { password: 'Enter your password.' } : {}),
    ...(wantsOtp && otp === '' ? { otp: 'Enter the six digits from your authenticator app.' } : {}),
  };
}

export function focusInput(name: string): void {
  document.querySelector<HTMLInputElement>(`[name="${name}"]`)?.focus();
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

/** Inputs of a group with another name. */
const GROUPS: Readonly<Record<string, string>> = { reach: 'service', services: 'service' };

const NONE: FormFaults = { fields: {}, failure: undefined };

const Faults = createContext(NONE);

function useError(name: string): string {
  return useContext(Faults).fields[name] ?? '';
}

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
      const field = GROUPS[name] ?? name;
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
