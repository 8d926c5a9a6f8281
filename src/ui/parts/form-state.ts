import { useState } from 'preact/hooks';
import type { Failure } from '../api.js';

/** The errors of a form: messages by input name, and the server's refusal of the whole form. */
export interface FormFaults {
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
  'The one-time password is wrong, expired or already used. Wait for the next one, then enter it.';
