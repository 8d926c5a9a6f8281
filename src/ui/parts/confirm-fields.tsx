import { useApp } from '../app-context.js';
import { currentView, loginLink } from '../login-links.js';
import type { Caller } from '../types.js';
import { Field, OneTimePassword } from './field.js';

interface ConfirmFieldsProps {
  readonly otp: boolean;
  readonly faults: Readonly<Record<string, string>>;
}

/**
 * Asks for the password again, because an unattended browser must not be enough to get a new
 * secret.
 */
export function ConfirmFields({ otp, faults }: ConfirmFieldsProps) {
  const { user, provider } = useApp().caller;
  return (
    <fieldset class="field confirm">
      <legend>Confirm that it is you</legend>
      {provider !== undefined && <ConfirmAtProvider provider={provider} />}
      {provider === undefined && (
        <>
          <Field label="Login name" name="login" autoComplete="username" value={user.login} readOnly />
          <Field
            label="Password"
            name="password"
            type="password"
            autoComplete="current-password"
            error={faults['password']}
          />
          {otp && <OneTimePassword error={faults['otp']} />}
        </>
      )}
    </fieldset>
  );
}

/** Lets a user without a password log in at the provider again, and return to the same place. */
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
