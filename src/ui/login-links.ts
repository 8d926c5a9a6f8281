import { ownPath } from './own-path.js';

/** The parameters with which the page was opened: why a login failed, and where to go after one. */
export interface Arrival {
  readonly failure: string | null;
  readonly returnTo: string | undefined;
}

/**
 * Reads the parameters in the page's URL, and removes them so that they apply only once.
 *
 * A return path that is a view of the page becomes its URL: going there after a login would not
 * load the page again.
 */
export function readArrival(): Arrival {
  const query = new URLSearchParams(location.search);
  const returnTo = ownPath(query.get('return_to'));
  const isView = returnTo?.split('#', 1)[0] === location.pathname;
  const hash = isView && returnTo !== undefined ? returnTo.slice(location.pathname.length) : location.hash;
  if (location.search !== '') history.replaceState(null, '', `${location.pathname}${hash}`);
  return { failure: query.get('login_error'), returnTo: isView ? undefined : returnTo };
}

/** Returns the return path of the current view. */
export function currentView(): string {
  return `${location.pathname}${location.hash}`;
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
