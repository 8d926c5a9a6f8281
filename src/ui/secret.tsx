import { useEffect, useRef, useState } from 'preact/hooks';
import { askBeforeLeaving } from './address.js';
import type { CreatedToken, Result } from './api.js';
import { useApp } from './app.js';
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

/** Characters that fit on one line. */
const LINE = 60;

interface SecretProps {
  readonly token: CreatedToken;
  readonly title: string;
  readonly onStored: () => void;
}

/** The secret is discarded when the button is pressed or the page is left. */
export function Secret({ token, title, onStored }: SecretProps) {
  const { key_field: field, public_url: publicUrl } = useApp().caller;
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
      <SecretLine label="Secret" value={token.access_token} what="secret" />
      <SecretLine
        label="Use it in a shell"
        value={`curl -H '${field}: ${token.access_token}' ${publicUrl ?? location.origin}/tokens/self`}
        what="example"
      />
      <div class="buttons start">
        <button type="button" class="button main" onClick={onStored}>
          I have stored it
        </button>
      </div>
    </section>
  ); // prettier-ignore
}

function SecretLine({ label, value, what }: { readonly label: string; readonly value: string; readonly what: string }) {
  return (
    <div class="field secret-line">
      <label for={`shown-${what}`}>{label}</label>
      <div class="with-button">
        <textarea
          id={`shown-${what}`}
          class="code"
          readOnly
          rows={Math.ceil(value.length / LINE)}
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
