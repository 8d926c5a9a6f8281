import { useState } from 'preact/hooks';
import type { Scope } from '../types.js';

interface ScopeFieldProps {
  readonly scopes: readonly Scope[];
  readonly error: string | undefined;
}

/** Lets the user choose a token's scopes, each with a description. */
export function ScopeField({ scopes, error = '' }: ScopeFieldProps) {
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const choose = (name: string, checked: boolean) =>
    setChosen((before) => (checked ? [...before, name] : before.filter((each) => each !== name)));
  return (
    <fieldset class="field" aria-describedby={error === '' ? undefined : 'scope-error'}>
      <legend>What it may do</legend>
      <div class="options">
        {scopes.map(({ name, title, description }) => (
          <label key={name} class="option">
            <input
              type="checkbox"
              name="scope"
              value={name}
              aria-invalid={error !== '' || undefined}
              onChange={({ currentTarget }) => choose(name, currentTarget.checked)}
            />
            <span>
              <span class="option-title">
                {title} {title !== name && <code>{name}</code>}
              </span>
              <span class="hint">{description}</span>
            </span>
          </label>
        ))}
      </div>
      <p class="hint" role="status">
        {chosen.length > 1 && 'Scopes add up: the token may do whatever any of them allows.'}
      </p>
      {error !== '' && (
        <p class="error" id="scope-error">
          {error}
        </p>
      )}
    </fieldset>
  );
}
