import { useEffect, useRef, useState } from 'preact/hooks';
import { mayLeave } from './leaving.js';

/** A view of the page, as named by the URL fragment. Secrets are never in it. */
export type Route =
  | { readonly view: 'tokens' | 'organisation' | 'sessions' | 'new' }
  | { readonly view: 'rotate'; readonly id: string; readonly replacement: string | null };

/** URL fragments of the views. */
export const LINKS = {
  tokens: '#/tokens',
  organisation: '#/organisation',
  sessions: '#/sessions',
  new: '#/tokens/new',
  rotate: (id: string, replacement?: string) =>
    `#/tokens/${id}/rotate${replacement === undefined ? '' : `/${replacement}`}`,
} as const;

/** Parses a URL fragment. An unknown one leads to the first view. */
export function readRoute(hash: string): Route {
  if (hash === LINKS.organisation) return { view: 'organisation' };
  if (hash === LINKS.sessions) return { view: 'sessions' };
  if (hash === LINKS.new) return { view: 'new' };
  const [, id, replacement] = /^#\/tokens\/([A-Za-z0-9]+)\/rotate(?:\/([A-Za-z0-9]+))?$/.exec(hash) ?? [];
  return id === undefined ? { view: 'tokens' } : { view: 'rotate', id, replacement: replacement ?? null };
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
