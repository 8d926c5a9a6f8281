import { useEffect, useState } from 'preact/hooks';
import { createToken, type Failure, isUnconfirmed, isWrongGrant, type NewToken, rotateToken } from './api.js';
import { useApp } from './app-context.js';
import { askBeforeLeaving } from './leaving.js';
import { otpFieldName } from './otp-field.js';
import { emptyPassword, valueOf } from './parts/field.js';
import { useFormState } from './parts/form-state.js';
import type { CreatedToken } from './types.js';

const UNSTORED = 'The secret of the new token is shown only once. Leave without storing it?';

/** A new token with its secret, which is kept only while it is shown. */
function useSecret() {
  const [created, setCreated] = useState<CreatedToken | null>(null);
  const drop = () => {
    askBeforeLeaving(null);
    setCreated(null);
  };
  const show = (token: CreatedToken) => {
    askBeforeLeaving(UNSTORED);
    setCreated(token);
  };
  // A document in the back/forward cache keeps its content.
  useEffect(() => {
    addEventListener('pagehide', drop);
    return () => {
      askBeforeLeaving(null);
      removeEventListener('pagehide', drop);
    };
  }, []);
  return { created, drop, show };
}

export function useRotation() {
  const { created, drop, show } = useSecret();
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Failure>();
  const rotate = async (id: string, overlap: number): Promise<void> => {
    setBusy(true);
    setFailure(undefined);
    const result = await rotateToken(id, overlap);
    setBusy(false);
    if (result.ok) show(result.value);
    else setFailure(result.failure);
  };
  return { busy, failure, created, drop, rotate };
}

/** Creates a token from a form that contains the password. */
export function useCreation() {
  const { caller, refresh } = useApp();
  const state = useFormState(caller.one_time_password);
  const { created, drop, show } = useSecret();

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
      show(result.value);
    } else {
      state.fail(result.failure, proof.otp !== '');
      if (isWrongGrant(result.failure)) emptyPassword(form);
      // The confirmation is too old, or the session has ended.
      if (isUnconfirmed(result.failure, caller)) refresh();
    }
  };
  /** Messages for the missing parts of the proof, by input name. */
  const missing = (form: HTMLFormElement): Record<string, string> => caller.provider !== undefined ? {} : ({
    ...(valueOf(form, 'password') === '' ? { password: 'Enter your password.' } : {}),
    ...(state.otp && valueOf(form, 'otp') === '' ? { otp: 'Enter the six digits from your authenticator app.' } : {}),
  }); // prettier-ignore

  return { ...state, created, drop, create, missing };
}
