import { useEffect, useRef } from 'preact/hooks';
import { useApp } from '../app-context.js';
import type { CreatedToken } from '../types.js';
import { nameOf } from '../words.js';
import { CopyButton } from './copy-button.js';

/** Characters that fit on one line. */
const LINE = 60;

interface SecretProps {
  readonly token: CreatedToken;
  readonly title: string;
  readonly onStored: () => void;
}

/**
 * Shows a new token's secret once. It is discarded when the button is pressed or the page is left.
 */
export function Secret({ token, title, onStored }: SecretProps) {
  const { caller } = useApp();
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  const curl = `curl -H '${caller.key_field}: ${token.access_token}' ${location.origin}/tokens/self`;
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
      <SecretLine label="Try it" value={curl} what="curl line" />
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
      <label for={`shown-${what.replace(' ', '-')}`}>{label}</label>
      <div class="with-button">
        <textarea
          id={`shown-${what.replace(' ', '-')}`}
          class="code"
          readOnly
          rows={value.length > LINE ? 2 : 1}
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
