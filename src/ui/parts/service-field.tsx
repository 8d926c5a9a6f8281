import { useState } from 'preact/hooks';
import type { Service } from '../types.js';
import { Field, valueOf } from './field.js';

interface ServiceFieldProps {
  readonly services: readonly Service[];
  readonly error: string | undefined;
}

/**
 * Lets the user choose the services of a token. If the organisation lists none, ids can be typed.
 */
export function ServiceField({ services, error = '' }: ServiceFieldProps) {
  const [some, setSome] = useState(false);
  const choice = (value: 'all' | 'some', title: string, hint: string) => (
    <label class="option">
      <input
        type="radio"
        name="reach"
        value={value}
        checked={some === (value === 'some')}
        onChange={() => setSome(value === 'some')}
      />
      <span>
        <span class="option-title">{title}</span>
        <span class="hint">{hint}</span>
      </span>
    </label>
  );
  return (
    <fieldset class="field" aria-describedby={error === '' ? undefined : 'service-error'}>
      <legend>Which services it reaches</legend>
      <div class="options">
        {choice('all', 'All services', 'Including services that are added later.')}
        {choice('some', 'Only some services', 'The token then cannot manage users either, whatever its scope.')}
      </div>
      {some && services.length > 0 && (
        <div class="options inner">
          {services.map(({ id, name }) => (
            <label key={id} class="option">
              <input type="checkbox" name="service" value={id} aria-invalid={error !== '' || undefined} />
              <span class="option-title">
                {name || id} {name !== '' && <code>{id}</code>}
              </span>
            </label>
          ))}
        </div>
      )}
      {some && services.length === 0 && (
        <Field label="Service ids" name="services" hint="Separate several with spaces." spellcheck={false} autoComplete="off" />
      )}
      {error !== '' && (
        <p class="error" id="service-error">
          {error}
        </p>
      )}
    </fieldset>
  ); // prettier-ignore
}

/**
 * Returns the services that a form restricts a token to; empty for all, undefined when none is
 * named.
 */
export function chosenServices(form: HTMLFormElement): string[] | undefined {
  const data = new FormData(form);
  if (data.get('reach') !== 'some') return [];
  const typed = valueOf(form, 'services').split(/[\s,]+/);
  const ids = [...data.getAll('service').map(String), ...typed].filter((id) => id !== '');
  return ids.length === 0 ? undefined : ids;
}
