import { useEffect, useRef, useState } from 'preact/hooks';
import { type Arrival, currentView, hasProviders, loginLink } from './address.js';
import { getLoginMethods, isWrongGrant, logIn, type LoginMethods } from './api.js';
import {
  emptyPassword,
  Field,
  focusInput,
  Form,
  missingProof,
  OneTimePassword,
  readProof,
  useFormState,
} from './form.js';
import { Logo, Problem } from './parts.js';
import { explainLoginFailure } from './words.js';

/** Why the log-in is shown. */
export type LogInReason = 'first' | 'ended' | 'left' | 'no_cookie';

const REASONS: Record<LogInReason, string> = {
  first: '',
  ended: 'Your session has ended. Log in again to continue.',
  left: 'You are signed out.',
  no_cookie: 'The password is correct, but the browser did not store the session cookie. Allow cookies for this site.',
}; // prettier-ignore

interface LogInProps {
  readonly reason: LogInReason;
  readonly arrival: Arrival;
  readonly onDone: () => void;
}

const PASSWORD_ONLY: LoginMethods = { password: true, providers: [] };

export function LogIn({ reason, arrival, onDone }: LogInProps) {
  const { busy, otp, faults, begin, refuse, correct, fail, forgetOtp } = useFormState();
  const methods = useLoginMethods();
  useEffect(() => {
    document.title = 'Log in · Latchkey';
    focusInput('login');
  }, [methods]);
  const wasOtp = useRef(false);
  useEffect(() => {
    if (otp) focusInput('otp');
    else if (wasOtp.current) focusInput(faults.failure === undefined ? 'login' : 'password');
    wasOtp.current = otp;
  }, [otp]);

  const submit = async (form: HTMLFormElement) => {
    const proof = readProof(form);
    const missing = missingProof(proof, otp);
    if (Object.keys(missing).length > 0) {
      refuse(missing);
      return;
    }
    begin();
    const result = await logIn(proof);
    if (result.ok) {
      form.reset();
      onDone();
    } else {
      // The password was changed in between; its field is hidden by then.
      if (otp && isWrongGrant(result.failure)) forgetOtp();
      fail(result.failure, otp);
      if (isWrongGrant(result.failure)) emptyPassword(form);
    }
  };
  const back = (event: Event) => {
    (event.currentTarget as HTMLButtonElement).form?.reset();
    forgetOtp();
  };

  if (methods === undefined) return <div aria-busy="true" />;
  return (
    <main class="alone">
      <Logo />
      <h1>{otp ? 'Enter your one-time password' : 'Log in'}</h1>
      <p class="lead">{otp ? 'Your account uses two-factor authentication.' : 'To see and manage your API tokens.'}</p>
      {REASONS[reason] !== '' && !otp && (
        <p class="notice" role="status">
          {REASONS[reason]}
        </p>
      )}
      {reason === 'first' && arrival.failure !== null && !otp && <Problem>{explainLoginFailure(arrival.failure)}</Problem>}
      <Problem failure={faults.failure} />
      {!otp && <Providers methods={methods} returnTo={arrival.returnTo ?? currentView()} />}
      {methods.password && <Form busy={busy} faults={faults} onInput={correct} onSubmit={(form) => void submit(form)}>
        <div hidden={otp}>
          <Field label="Login name" name="login" inputMode="email" autoComplete="username" spellcheck={false} autoCapitalize="none" />
          <Field label="Password" name="password" type="password" autoComplete="current-password" />
        </div>
        {otp && <OneTimePassword />}
        <button type="submit" class={methods.providers.length > 0 ? 'button wide' : 'button main wide'} disabled={busy}>
          {busy ? 'Checking…' : otp ? 'Continue' : 'Log in'}
        </button>
        {otp && (
          <button type="button" class="button wide" onClick={back}>
            Log in as someone else
          </button>
        )}
      </Form>}
    </main>
  ); // prettier-ignore
}

/** Undefined while loading. If they cannot be fetched, only the password is offered. */
function useLoginMethods(): LoginMethods | undefined {
  const [methods, setMethods] = useState(hasProviders() ? undefined : PASSWORD_ONLY);
  useEffect(() => {
    if (methods === undefined)
      void getLoginMethods().then((result) => setMethods(result.ok ? result.value : PASSWORD_ONLY));
  }, [methods]);
  return methods;
}

interface ProvidersProps {
  readonly methods: LoginMethods;
  readonly returnTo: string | undefined;
}

function Providers({ methods: { providers, password }, returnTo }: ProvidersProps) {
  if (providers.length === 0) return null;
  return (
    <>
      <div class="providers">
        {providers.map(({ name, title }) => (
          <a key={name} class="button main wide" href={loginLink(name, returnTo)}>
            {title}
          </a>
        ))}
      </div>
      {password && <p class="either">or with a password</p>}
    </>
  );
}
