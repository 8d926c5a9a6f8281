import { useEffect, useState } from 'preact/hooks';
import { createToken, isWrongGrant, type NewToken } from './api.js';
import { useApp } from './app-context.js';
import { askBeforeLeaving } from './leaving.js';
import { otpFieldName } from './otp-field.js';
import { emptyPassword, valueOf } from './parts/field.js';
import { useFormState } from './parts/form-state.js';
import type { CreatedToken } from './types.js';

const UNSTORED = 'The secret of the new token is shown only once. Leave without storing it?';

/** Creates a token by a form that holds the password, and keeps the secret no longer than it is shown. */
export function useCreation() {
  const { caller } = useApp();
  const state = useFormState(caller.one_time_password);
  const [created, setCreated] = useState<CreatedToken | null>(null);
  const drop = () => {
    askBeforeLeaving(null);
    setCreated(null);
  };
  // A document that the browser keeps for "back" keeps what it shows.
  useEffect(() => {
    addEventListener('pagehide', drop);
    return () => {
      askBeforeLeaving(null);
      removeEventListener('pagehide', drop);
    };
  }, []);

  const create = async (form: HTMLFormElement, token: NewToken): Promise<void> => {
    const proof = {
      login: caller.user.login,
      password: valueOf(form, 'password'),
      otp: valueOf(form, 'otp').replaceAll(/\s/g, ''),
    };
    state.begin();
    const result = await createToken(token, caller.provider === undefined ? proof : null, otpFieldName());
    if (result.ok) {
      form.reset();
      askBeforeLeaving(UNSTORED);
      setCreated(result.value);
    } else {
      state.fail(result.failure, proof.otp !== '');
      if (isWrongGrant(result.failure)) emptyPassword(form);
    }
  };
  /** What is missing of the proof, by the name of its input. */
  const missing = (form: HTMLFormElement): Record<string, string> => caller.provider !== undefined ? {} : ({
    ...(valueOf(form, 'password') === '' ? { password: 'Enter your password.' } : {}),
    ...(state.otp && valueOf(form, 'otp') === '' ? { otp: 'Enter the six digits of your authenticator app.' } : {}),
  }); // prettier-ignore

  return { ...state, created, drop, create, missing };
}
