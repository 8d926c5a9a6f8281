import { useEffect, useRef, useState } from 'preact/hooks';

export type Route = 'tokens' | 'organisation' | 'sessions' | 'new';

/** URL fragments of the views. Secrets are never in them. */
export const LINKS: Readonly<Record<Route, string>> = {
  tokens: '#/tokens',
  organisation: '#/organisation',
  sessions: '#/sessions',
  new: '#/tokens/new',
};

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

/** For leaving the page, the browser uses its own wording. */
export function askBeforeLeaving(text: string | null): void {
  question = text;
  if (text === null) removeEventListener('beforeunload', refuse);
  else addEventListener('beforeunload', refuse);
}

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
  /** Whether somebody who is logged in already goes there too. */
  readonly goesOn: boolean;
}

/**
 * A return path that is a view of the page becomes its URL: going there after a login would not
 * load the page again. Any other stays, so that a reload keeps it.
 */
export function readArrival(): Arrival {
  const query = new URLSearchParams(location.search);
  const failure = query.get('login_error');
  const returnTo = withFragment(ownPath(query.get('return_to'), location.origin));
  const isView = returnTo?.split('#', 1)[0] === location.pathname;
  if (isView) history.replaceState(null, '', returnTo);
  else if (location.search !== '') {
    query.delete('login_error');
    const kept = returnTo === undefined ? '' : `?${query}`;
    history.replaceState(null, '', `${location.pathname}${kept}${location.hash}`);
  }
  return { failure, returnTo: isView ? undefined : returnTo, goesOn: failure === null && !wasRedirected() };
}

/** Browsers keep the fragment of a page when they are redirected to the login. */
function withFragment(path: string | undefined): string | undefined {
  if (path === undefined || path.includes('#')) return path;
  return ownPath(path + location.hash, location.origin) ?? path;
}

/** Whether the server has just sent the browser here: going back with the same session would loop. */
function wasRedirected(): boolean {
  const [entry] = performance.getEntriesByType('navigation');
  return entry instanceof PerformanceNavigationTiming && entry.redirectCount > 0;
}

export function currentView(): string {
  return `${location.pathname}${location.hash}`;
}

/** @param fresh whether the provider must ask for the login again */
export function loginLink(provider: string, returnTo: string | undefined, fresh = false): string {
  const query = new URLSearchParams({
    ...(returnTo === undefined ? {} : { return_to: returnTo }),
    ...(fresh ? { fresh: '1' } : {}),
  });
  return `oidc/${provider}/login?${query}`;
}

export function logoutLink(provider: string): string {
  return `oidc/${provider}/logout`;
}

/** Whether there are providers. The server writes this into the document. */
export function hasProviders(): boolean {
  return document.querySelector<HTMLMetaElement>('meta[name="identity-providers"]')?.content === 'yes';
}

const MAX_PATH = 2_048;

/** Undefined if it could lead to another origin. The server applies the same rule. */
export function ownPath(address: string | null, origin: string): string | undefined {
  if (address === null || address.length > MAX_PATH) return undefined;
  const path = address.startsWith(`${origin}/`) ? address.slice(origin.length) : address;
  return /^\/(?!\/)[!-[\]-~]*$/.test(path) ? path : undefined;
}

/** Returns the name of the one-time password field. The server writes it into the document. */
export function otpFieldName(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="one-time-password-field"]')?.content ?? '';
}
