import { useEffect, useRef, useState } from 'preact/hooks';
import {
  createToken,
  type Failure,
  isUnconfirmed,
  isWrongGrant,
  type NewToken,
  type Result,
  rotateToken,
} from './api.js';
import { useApp } from './app-context.js';
import { askBeforeLeaving } from './leaving.js';
import { otpFieldName } from './otp-field.js';
import { emptyPassword, valueOf } from './parts/field.js';
import { useFormState } from './parts/form-state.js';
import type { CreatedToken } from './types.js';
import { nameOf } from './words.js';

const UNSEEN = 'A token is being created, and its secret is shown only once. Leave before you see it?';
const UNSTORED = 'The secret of the new token is shown only once. Leave without storing it?';

/** A new token with its secret, which is kept only while it is shown. */
function useSecret() {
  const { announce } = useApp();
  const [created, setCreated] = useState<CreatedToken | null>(null);
  const alive = useRef(true);
  const drop = () => {
    askBeforeLeaving(null);
    setCreated(null);
  };
  /** Waits for the response to a creation, and shows the secret in it. */
  const receive = async (response: Promise<Result<CreatedToken>>): Promise<Result<CreatedToken>> => {
    askBeforeLeaving(UNSEEN);
    const result = await response;
    if (alive.current) {
      askBeforeLeaving(result.ok ? UNSTORED : null);
      if (result.ok) setCreated(result.value);
    } else if (result.ok) {
      announce(
        `The token ${nameOf(result.value)} was created after you left, and nobody has its secret. Revoke it.`,
      );
    }
    return result;
  };
  // A document in the back/forward cache keeps its content.
  useEffect(() => {
    alive.current = true;
    addEventListener('pagehide', drop);
    return () => {
      alive.current = false;
      askBeforeLeaving(null);
      removeEventListener('pagehide', drop);
    };
  }, []);
  return { created, drop, receive };
}

export function useRotation() {
  const { created, drop, receive } = useSecret();
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Failure>();
  const rotate = async (id: string, overlap: number): Promise<void> => {
    setBusy(true);
    setFailure(undefined);
    const result = await receive(rotateToken(id, overlap));
    setBusy(false);
    if (!result.ok) setFailure(result.failure);
  };
  return { busy, failure, created, drop, rotate };
}

/** Creates a token from a form that contains the password. */
export function useCreation() {
  const { caller, refresh } = useApp();
  const state = useFormState(caller.one_time_password);
  const { created, drop, receive } = useSecret();

  const create = async (form: HTMLFormElement, token: NewToken): Promise<void> => {
    const proof = {
      login: caller.user.login,
      password: valueOf(form, 'password'),
      otp: valueOf(form, 'otp').replaceAll(/\s/g, ''),
    };
    state.begin();
    const given = caller.provider === undefined ? proof : null;
    const result = await receive(createToken(token, given, otpFieldName()));
    if (result.ok) form.reset();
    else {
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
