import { useApp } from '../app-context.js';
import { Field, OneTimePassword } from './field.js';

interface ConfirmFieldsProps {
  readonly otp: boolean;
  readonly faults: Readonly<Record<string, string>>;
}

/** Asks for the password again: a browser that somebody left open must not be enough for a new secret. */
export function ConfirmFields({ otp, faults }: ConfirmFieldsProps) {
  const { user } = useApp().caller;
  return (
    <fieldset class="field confirm">
      <legend>Confirm that it is you</legend>
      <Field label="Login name" name="login" autoComplete="username" value={user.login} readOnly />
      <Field
        label="Password"
        name="password"
        type="password"
        autoComplete="current-password"
        error={faults['password']}
      />
      {otp && <OneTimePassword error={faults['otp']} />}
    </fieldset>
  );
}
