import { useState } from 'preact/hooks';
import type { Failure } from '../api.js';

/** What is wrong with a form: sentences by the name of their input, and what the server said of the whole. */
export interface FormFaults {
  readonly fields: Readonly<Record<string, string>>;
  readonly failure: Failure | undefined;
  /** Whether somebody is correcting a field, from which the focus must not be taken. */
  readonly corrected?: true;
}

/** The field that an input belongs to, where it has another name. */
const FIELDS: Readonly<Record<string, string>> = { reach: 'services', service: 'services' };

const NONE: FormFaults = { fields: {}, failure: undefined };

/** The state of a form that asks for a password: the one-time password is asked for when the server wants one. */
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
    /** Shows faults that were found before anything was sent. */
    refuse: (fields: Record<string, string>) => setFaults({ fields, failure: undefined }),
    /** Takes the fault of a field away when its value changes. */
    correct: (event: Event) => {
      const { name } = event.target as HTMLInputElement;
      const field = FIELDS[name] ?? name;
      const { [field]: corrected, ...fields } = faults.fields;
      if (corrected !== undefined) setFaults({ ...faults, fields, corrected: true });
    },
    /** Shows what the server refused. @param sentOtp whether a one-time password was sent */
    fail: (failure: Failure, sentOtp: boolean) => {
      setBusy(false);
      const wantsOtp = failure.kind === 'refused' && failure.code === '2fa.verify';
      if (!wantsOtp) setFaults({ fields: {}, failure });
      else {
        setOtp(true);
        setFaults(sentOtp ? { fields: { otp: OTP_REFUSED }, failure: undefined } : NONE);
      }
    },
    forgetOtp: () => {
      setOtp(false);
      setFaults(NONE);
    },
  };
}

const OTP_REFUSED =
  'This one-time password is wrong, expired or already used. Wait for the next one, then enter it.';
