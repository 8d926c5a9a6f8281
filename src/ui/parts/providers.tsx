import { loginLink } from '../login-links.js';
import type { LoginMethods } from '../types.js';

interface ProvidersProps {
  readonly methods: LoginMethods;
  /** Where to go after the login. */
  readonly returnTo: string | undefined;
}

/** A button for each provider, above the form for users with a password. */
export function Providers({ methods: { providers, password }, returnTo }: ProvidersProps) {
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
