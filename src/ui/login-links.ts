import { ownPath } from './own-path.js';

/** What somebody came to the page with: why a login failed, and where to go once it succeeds. */
export interface Arrival {
  readonly failure: string | null;
  readonly returnTo: string | undefined;
}

/** Reads what the address of the page says, and takes it out, so that it is not said twice. */
export function readArrival(): Arrival {
  const query = new URLSearchParams(location.search);
  const arrival = { failure: query.get('login_error'), returnTo: ownPath(query.get('return_to')) };
  if (location.search !== '') history.replaceState(null, '', `${location.pathname}${location.hash}`);
  return arrival;
}

/** The address at which a login at a provider begins. @param fresh the provider has to ask anew */
export function loginLink(provider: string, returnTo: string | undefined, fresh = false): string {
  const query = new URLSearchParams({
    ...(returnTo === undefined ? {} : { return_to: returnTo }),
    ...(fresh ? { fresh: '1' } : {}),
  });
  return `oidc/${provider}/login?${query}`;
}

/** The address that leads on to the provider once the session here has ended. */
export function logoutLink(provider: string): string {
  return `oidc/${provider}/logout`;
}

/** Whether there are providers, which the server writes into the document. */
export function hasProviders(): boolean {
  return document.querySelector<HTMLMetaElement>('meta[name="identity-providers"]')?.content === 'yes';
}
