import { useEffect, useState } from 'preact/hooks';
import { currentView, LINKS, loginLink } from './address.js';
import {
  type Caller,
  createToken,
  currentTime,
  type Failure,
  isUnconfirmed,
  isWrongGrant,
  type Scope,
  type Service,
} from './api.js';
import { useApp } from './app.js';
import {
  emptyPassword,
  Field,
  focusInput,
  Form,
  missingProof,
  OneTimePassword,
  Option,
  Options,
  readProof,
  Select,
  useFormState,
  valueOf,
} from './form.js';
import { Problem } from './parts.js';
import { Secret, useSecret } from './secret.js';
import { expiryOf, expiryPresets, firstPreset, toExpiresAt } from './tokens.js';
import { DAY, formatMoment, formatUtc, inputDay, nameOf } from './words.js';

export function NewToken() {
  const { caller, refresh, announce } = useApp();
  const { busy, otp, faults, begin, refuse, correct, fail } = useFormState(caller.one_time_password);
  const { created, drop, receive } = useSecret();
  const hasPassword = caller.provider === undefined;
  useEffect(() => {
    if (otp && !caller.one_time_password) focusInput('otp');
  }, [otp, caller]);

  const submit = async (form: HTMLFormElement) => {
    const proof = readProof(form);
    const name = valueOf(form, 'name').trim();
    const scopes = new FormData(form).getAll('scope').map(String);
    const services = chosenServices(form);
    const at = expiryOf(valueOf(form, 'expires'), valueOf(form, 'day'), currentTime());
    const wrong = {
      ...(name === '' ? { name: 'Enter a name that says who uses it.' } : {}),
      ...(scopes.length === 0 ? { scope: 'Choose what the token may do.' } : {}),
      ...(services === undefined ? { service: 'Choose at least one service, or all services.' } : {}),
      ...(Number.isNaN(at) ? { day: 'Choose today or a later day.' } : {}),
      ...(hasPassword ? missingProof(proof, otp) : {}),
    };
    if (Object.keys(wrong).length > 0) {
      refuse(wrong);
      return;
    }
    begin();
    const token = { name, scopes, services: services ?? [], expiresAt: toExpiresAt(at) };
    const result = await receive(createToken(token, hasPassword ? proof : null));
    if (result.ok) {
      form.reset();
      return;
    }
    fail(result.failure, proof.otp !== '');
    if (isWrongGrant(result.failure)) emptyPassword(form);
    // The confirmation is too old, or the session has ended.
    if (isUnconfirmed(result.failure, caller)) refresh();
  };

  // Going to the provider would discard what is filled in.
  const leavesPage = caller.provider?.confirmed === false;
  const confirm = <ConfirmFields otp={otp} />;
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
      <Form busy={busy} faults={faults} class="panel" onInput={correct} onSubmit={(form) => void submit(form)}>
        {leavesPage && confirm}
        <Field label="Name" name="name" hint="Who uses it and where, like “deploy from CI”." maxLength={255} autoComplete="off" />
        <ScopeField scopes={caller.scopes} />
        <ServiceField services={caller.services} />
        <ExpiryField />
        {!leavesPage && confirm}
        <Problem failure={faults.failure}>{faults.failure && explain(faults.failure, caller)}</Problem>
        <div class="buttons start">
          <button type="submit" class="button main" disabled={busy}>
            {busy ? 'Creating…' : 'Create token'}
          </button>
          <a class="button" href={LINKS.tokens}>
            Cancel
          </a>
        </div>
      </Form>
    </div>
  ); // prettier-ignore
}

/** Undefined: the general explanation. */
function explain(failure: Failure, caller: Caller): string | undefined {
  if (failure.kind === 'no_answer')
    return 'The server did not respond. Check your connection and try again. If your list then has this token twice, revoke the older one: nobody has its secret.';
  if (isWrongGrant(failure)) return 'The password is wrong. Enter it again.';
  if (isUnconfirmed(failure, caller))
    return 'You confirmed that it is you more than five minutes ago. Log in once more.';
  return undefined;
}

function ScopeField({ scopes }: { readonly scopes: readonly Scope[] }) {
  return (
    <Options legend="What it may do" name="scope">
      <div class="options">
        {scopes.map(({ name, title, description }) => (
          <Option key={name} type="checkbox" name="scope" value={name} title={title} hint={description} />
        ))}
      </div>
      <p class="hint">Several add up: the token may do whatever any of them allows.</p>
    </Options>
  );
}

/** If the organisation lists none, ids can be typed. */
function ServiceField({ services }: { readonly services: readonly Service[] }) {
  const [some, setSome] = useState(false);
  const reach = (isSome: boolean) =>
    ({ type: 'radio', name: 'reach', checked: some === isSome, onChange: () => setSome(isSome) }) as const;
  return (
    <Options legend="Which services it reaches" name="service">
      <div class="options">
        <Option {...reach(false)} value="all" title="All services" hint="Including services that are added later." />
        <Option {...reach(true)} value="some" title="Only some services" hint="The token then cannot manage users either, whatever its scope." />
      </div>
      {some && services.length > 0 && (
        <div class="options inner">
          {services.map(({ id, name }) => (
            <Option key={id} type="checkbox" name="service" value={id} title={name || id} />
          ))}
        </div>
      )}
      {some && services.length === 0 && (
        <Field label="Service ids" name="services" hint="Separate several with spaces." spellcheck={false} autoComplete="off" />
      )}
    </Options>
  ); // prettier-ignore
}

/** Empty for all, undefined when none is named. */
function chosenServices(form: HTMLFormElement): string[] | undefined {
  const data = new FormData(form);
  if (data.get('reach') !== 'some') return [];
  const typed = valueOf(form, 'services').split(/[\s,]+/);
  const ids = [...data.getAll('service').map(String), ...typed].filter((id) => id !== '');
  return ids.length === 0 ? undefined : ids;
}

function ExpiryField() {
  const { max_lifetime: maxLifetime } = useApp().caller;
  const [preset, setPreset] = useState(firstPreset(maxLifetime));
  const [day, setDay] = useState('');
  const now = currentTime();
  return (
    <>
      <Select
        label="Expires"
        name="expires"
        value={preset}
        options={expiryPresets(maxLifetime)}
        onChange={setPreset}
      >
        {describe(expiryOf(preset, day, now), preset, maxLifetime, now)}
      </Select>
      {preset === 'date' && (
        <Field
          label="Last day"
          name="day"
          type="date"
          value={day}
          min={inputDay(now)}
          max={maxLifetime === null ? undefined : inputDay(now + maxLifetime * 1000 - DAY)}
          onInput={({ currentTarget }) => setDay(currentTarget.value)}
        />
      )}
    </>
  );
}

function describe(at: number | null, preset: string, maxLifetime: number | null, now: number) {
  if (at === null && maxLifetime === null) return 'It works until it is revoked. An expiry is safer.';
  const end = at ?? now + (maxLifetime ?? 0) * 1000;
  if (Number.isNaN(end)) return preset === 'date' ? 'Choose today or a later day.' : '';
  return <span title={formatUtc(end)}>{formatMoment(end, now)}</span>;
}

/** An unattended browser must not be enough to get a new secret. */
function ConfirmFields({ otp }: { readonly otp: boolean }) {
  const { user, provider } = useApp().caller;
  return (
    <fieldset class="field confirm">
      <legend>Confirm that it is you</legend>
      {provider !== undefined ? (
        <ConfirmAtProvider provider={provider} />
      ) : (
        <>
          <Field label="Login name" name="login" autoComplete="username" value={user.login} readOnly />
          <Field label="Password" name="password" type="password" autoComplete="current-password" />
          {otp && <OneTimePassword />}
        </>
      )}
    </fieldset>
  );
}

function ConfirmAtProvider({ provider }: { readonly provider: NonNullable<Caller['provider']> }) {
  if (provider.confirmed) return <p>You confirmed it at “{provider.title}” just now.</p>;
  return (
    <>
      <p>You have no password here. Log in once more, then fill in this form within five minutes.</p>
      <a class="button" href={loginLink(provider.name, currentView(), true)}>
        {provider.title}
      </a>
    </>
  );
}
