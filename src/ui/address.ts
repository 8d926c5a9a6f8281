import { useEffect, useRef, useState } from 'preact/hooks';

/** A view of the page. */
export type Route = 'tokens' | 'organisation' | 'sessions' | 'new';

/** URL fragments of the views. Secrets are never in them. */
export const LINKS: Readonly<Record<Route, string>> = {
  tokens: '#/tokens',
  organisation: '#/organisation',
  sessions: '#/sessions',
  new: '#/tokens/new',
};

/** Parses a URL fragment. An unknown one leads to the first view. */
export function readRoute(hash: string): Route {
  return (Object.keys(LINKS) as Route[]).find((view) => LINKS[view] === hash) ?? 'tokens';
}

/** Returns the current view, which follows the URL. */
export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  const shown = useRef(hash);
  useEffect(() => {
    const follow = () => {
      if (location.hash === shown.current) return;
      if (mayLeave()) setHash((shown.current = location.hash));
      else history.pushState(null, '', shown.current === '' ? location.pathname : shown.current);
    };
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  return readRoute(hash);
}

/** The question asked before a view is left; null when nothing would be lost. */
let question: string | null = null;

/**
 * Sets the question asked before leaving the view or the page. For the latter, the browser uses its
 * own wording.
 */
export function askBeforeLeaving(text: string | null): void {
  question = text;
  if (text === null) removeEventListener('beforeunload', refuse);
  else addEventListener('beforeunload', refuse);
}

/** Asks the user for confirmation if something would be lost. */
export function mayLeave(): boolean {
  return question === null || confirm(question);
}

function refuse(event: BeforeUnloadEvent): void {
  event.preventDefault();
}

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

const MAX_PATH = 2_048;

/**
 * Returns a return path if it can only lead to the same origin. The server applies the same rule.
 */
export function ownPath(path: string | null): string | undefined {
  if (path === null || path.length > MAX_PATH) return undefined;
  return /^\/(?!\/)[!-[\]-~]*$/.test(path) ? path : undefined;
}

/** Returns the name of the one-time password field. The server writes it into the document. */
export function otpFieldName(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="one-time-password-field"]')?.content ?? '';
}
