import { useEffect, useRef, useState } from 'preact/hooks';
import { askBeforeLeaving } from './address.js';
import {
  type CreatedToken,
  createToken,
  type Failure,
  isUnconfirmed,
  isWrongGrant,
  type NewToken,
  type Result,
} from './api.js';
import { useApp } from './app.js';
import { emptyPassword, missingProof, readProof, Select, useFormState } from './form.js';
import { Problem } from './parts.js';
import { type Program, PROGRAMS, usageOf } from './usage.js';
import { nameOf } from './words.js';

const UNSEEN = 'A token is being created, and its secret is shown only once. Leave before you see it?';
const UNSTORED = 'The secret of the new token is shown only once. Leave without storing it?';

/** The secret is kept only while it is shown. */
export function useSecret() {
  const { announce } = useApp();
  const [created, setCreated] = useState<CreatedToken | null>(null);
  const alive = useRef(true);
  const drop = () => {
    askBeforeLeaving(null);
    setCreated(null);
  };
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

export function useCreation() {
  const { caller, refresh } = useApp();
  const state = useFormState(caller.one_time_password);
  const { created, drop, receive } = useSecret();

  const create = async (form: HTMLFormElement, token: NewToken): Promise<void> => {
    const proof = readProof(form);
    state.begin();
    const given = caller.provider === undefined ? proof : null;
    const result = await receive(createToken(token, given));
    if (result.ok) form.reset();
    else {
      state.fail(result.failure, proof.otp !== '');
      if (isWrongGrant(result.failure)) emptyPassword(form);
      // The confirmation is too old, or the session has ended.
      if (isUnconfirmed(result.failure, caller)) refresh();
    }
  };
  const missing = (form: HTMLFormElement) =>
    caller.provider === undefined ? missingProof(readProof(form), state.otp) : {};
  return { ...state, created, drop, create, missing };
}

export function CreationProblem({ failure }: { readonly failure: Failure | undefined }) {
  const { caller } = useApp();
  if (failure === undefined) return null;
  const explanation = () => {
    if (failure.kind === 'no_answer')
      return 'The server did not respond. Check your connection and try again. If your list then has this token twice, revoke the older one: nobody has its secret.';
    if (isWrongGrant(failure)) return 'The password is wrong. Enter it again.';
    if (isUnconfirmed(failure, caller))
      return 'You confirmed that it is you more than five minutes ago. Log in once more.';
    return undefined;
  };
  return <Problem failure={failure}>{explanation()}</Problem>;
}

/** Characters that fit on one line. */
const LINE = 60;

interface SecretProps {
  readonly token: CreatedToken;
  readonly title: string;
  readonly onStored: () => void;
}

/** The secret is discarded when the button is pressed or the page is left. */
export function Secret({ token, title, onStored }: SecretProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return (
    <section class="panel secret" aria-labelledby="secret-title">
      <h2 id="secret-title" ref={heading} tabIndex={-1}>
        {title}
      </h2>
      <p>
        This is the secret of <strong>{nameOf(token)}</strong>. It is shown only once: store it where you
        keep secrets, and share it with nobody.
      </p>
      <p class="notice print-only">The secret is not printed.</p>
      <SecretLine label="Secret" value={token.access_token} what="secret" />
      <HowToUse secret={token.access_token} />
      <div class="buttons start">
        <button type="button" class="button main" onClick={onStored}>
          I have stored it
        </button>
      </div>
    </section>
  ); // prettier-ignore
}

function HowToUse({ secret }: { readonly secret: string }) {
  const { caller } = useApp();
  const [program, setProgram] = useState<Program>('curl');
  const uses = PROGRAMS.map((each) => [each, usageOf(each, secret, caller, location.origin)] as const);
  const usage = uses.find(([each]) => each === program)?.[1];
  return (
    <>
      <Select
        label="Use it with"
        class="field secret-line"
        value={program}
        options={uses.map(([each, how]) => [each, how === null ? `${each} (not accepted)` : each])}
        onChange={setProgram}
      />
      {usage ? (
        <SecretLine label={usage.where} value={usage.text} what="example" />
      ) : (
        <div class="notice">
          <p>
            This program sends a token as a password, which this server does not accept:{' '}
            <code>interface.basic</code> is off.
          </p>
        </div>
      )}
    </>
  );
}

function SecretLine({ label, value, what }: { readonly label: string; readonly value: string; readonly what: string }) {
  return (
    <div class="field secret-line">
      <label for={`shown-${what.replace(' ', '-')}`}>{label}</label>
      <div class="with-button">
        <textarea
          id={`shown-${what.replace(' ', '-')}`}
          class="code"
          readOnly
          rows={value.split('\n').reduce((rows, line) => rows + Math.ceil(line.length / LINE), 0)}
          value={value}
          spellcheck={false}
          autoComplete="off"
          onFocus={({ currentTarget }) => currentTarget.select()}
        />
        <CopyButton text={value} what={what} />
      </div>
    </div>
  );
} // prettier-ignore

/** Says by the button whether the text was copied: a message of the page would be behind a dialog. */
function CopyButton({ text, what }: { readonly text: string; readonly what: string }) {
  const [message, setMessage] = useState('');
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setMessage(`The ${what} was copied.`);
    } catch {
      setMessage(`The browser blocked copying. Select the ${what} and copy it manually.`);
    }
  };
  return (
    <>
      <button type="button" class="button" onClick={() => void copy()}>
        Copy<span class="unseen"> the {what}</span>
      </button>
      <p class="hint" role="status">
        {message}
      </p>
    </>
  );
}
