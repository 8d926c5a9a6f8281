import { ownPath } from './own-path.js';

/** The parameters with which the page was opened: why a login failed, and where to go after one. */
export interface Arrival {
  readonly failure: string | null;
  readonly returnTo: string | undefined;
}

/** Reads the parameters in the page's URL, and removes them so that they apply only once. */
export function readArrival(): Arrival {
  const query = new URLSearchParams(location.search);
  const arrival = { failure: query.get('login_error'), returnTo: ownPath(query.get('return_to')) };
  if (location.search !== '') history.replaceState(null, '', `${location.pathname}${location.hash}`);
  return arrival;
}

/**
 * Returns the URL at which a login at a provider begins.
 *
 * @param fresh whether the provider must ask for the login again
 */
export function loginLink(provider: string, returnTo: string | undefined, fresh = false): string {
  const query = new URLSearchParams({
    ...(returnTo === undefined ? {} : { return_to: returnTo }),
    ...(fresh ? { fresh: '1' } : {}),
  });
  return `oidc/${provider}/login?${query}`;
}

/** Returns the URL that leads to the provider after the session here has ended. */
export function logoutLink(provider: string): string {
  return `oidc/${provider}/logout`;
}

/** Whether there are providers. The server writes this into the document. */
export function hasProviders(): boolean {
  return document.querySelector<HTMLMetaElement>('meta[name="identity-providers"]')?.content === 'yes';
}
