import { useEffect, useRef, useState } from 'preact/hooks';
import { useApp } from '../app-context.js';
import { currentTime } from '../clock.js';
import { useCreation } from '../creation.js';
import { expiryOf, firstPreset, toExpiresAt } from '../expiry-choice.js';
import { useNow } from '../loading.js';
import { ConfirmFields } from '../parts/confirm-fields.js';
import { CreationProblem } from '../parts/creation-problem.js';
import { ExpiryField, type ExpiryValue } from '../parts/expiry-field.js';
import { Field, focusFirstError, valueOf } from '../parts/field.js';
import { ScopeField } from '../parts/scope-field.js';
import { Secret } from '../parts/secret.js';
import { chosenServices, ServiceField } from '../parts/service-field.js';
import { LINKS } from '../routes.js';
import { nameOf } from '../words.js';

export function NewToken() {
  const { caller, announce } = useApp();
  const form = useRef<HTMLFormElement>(null);
  const now = useNow();
  const [expiry, setExpiry] = useState<ExpiryValue>({ preset: firstPreset(caller.max_lifetime), day: '' });
  const { busy, otp, faults, created, drop, create, missing, refuse, correct } = useCreation();
  useEffect(() => {
    if (!faults.corrected) focusFirstError(form.current);
  }, [faults]);
  useEffect(() => {
    if (otp && !caller.one_time_password) form.current?.querySelector<HTMLInputElement>('[name="otp"]')?.focus();
  }, [otp, caller]); // prettier-ignore

  const submit = async (event: Event) => {
    event.preventDefault();
    const { current } = form;
    if (current === null || busy) return;
    const name = valueOf(current, 'name').trim();
    const scopes = new FormData(current).getAll('scope').map(String);
    const services = chosenServices(current);
    const at = expiryOf(expiry.preset, expiry.day, currentTime());
    const wrong = {
      ...(name === '' ? { name: 'Enter a name that says who uses it.' } : {}),
      ...(scopes.length === 0 ? { scope: 'Choose what the token may do.' } : {}),
      ...(services === undefined ? { services: 'Choose at least one service, or all services.' } : {}),
      ...(Number.isNaN(at) ? { day: 'Choose today or a later day.' } : {}),
      ...missing(current),
    };
    if (Object.keys(wrong).length > 0) refuse(wrong);
    else await create(current, { name, scopes, services: services ?? [], expiresAt: toExpiresAt(at) });
  };

  // Going to the provider would discard what is filled in.
  const leavesPage = caller.provider?.confirmed === false;
  const confirm = <ConfirmFields otp={otp} faults={faults.fields} />;
  if (created !== null) {
    return (
      <div class="narrow">
        <h1 tabIndex={-1}>Create a token</h1>
        <Secret
          token={created}
          title="The token is ready"
          onStored={() => {
            drop();
            const where = caller.may.list_tokens ? 'is in your list' : 'is created';
            announce(`${nameOf(created)} ${where}. This page no longer has its secret.`);
            location.hash = LINKS.tokens;
          }}
        />
      </div>
    );
  }
  return (
    <div class="narrow">
      <a class="back" href={LINKS.tokens}>
        <span aria-hidden="true">← </span>My tokens
      </a>
      <h1 tabIndex={-1}>Create a token</h1>
      <p class="lead">It acts on your behalf, within the limits that you set here. Create a separate one for each script or service.</p>
      {!caller.may.list_tokens && (
        <p class="notice">Your role cannot list tokens, or revoke them here later. Choose a short expiry.</p>
      )}
      <form ref={form} method="post" noValidate class="panel" onInput={correct} onSubmit={(event) => void submit(event)}>
        {leavesPage && confirm}
        <Field label="Name" name="name" hint="Who uses it and where, like “deploy from CI”." maxLength={255} autoComplete="off" error={faults.fields['name']} />
        <ScopeField scopes={caller.scopes} error={faults.fields['scope']} />
        <ServiceField services={caller.services} error={faults.fields['services']} />
        <ExpiryField value={expiry} maxLifetime={caller.max_lifetime} now={now} error={faults.fields['day']} onChange={setExpiry} />
        {!leavesPage && confirm}
        <CreationProblem failure={faults.failure} />
        <div class="buttons start">
          <button type="submit" class="button main" disabled={busy}>
            {busy ? 'Creating…' : 'Create token'}
          </button>
          <a class="button" href={LINKS.tokens}>
            Cancel
          </a>
        </div>
      </form>
    </div>
  ); // prettier-ignore
}
