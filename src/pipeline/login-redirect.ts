import { ownPath } from '../domain/path.js';
import type { Refusal } from '../domain/refusal.js';
import { fieldValues, firstField } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';

/** Where browsers are sent instead of being refused. */
export interface LoginPages {
  /** Returns the path of the web page; null when there is none on a host. */
  readonly pageOf: (host: string) => string | null;
  /** Returns where to redirect a browser that was refused `/` of a host; null for no redirect. */
  readonly homeOf: (host: string) => string | null;
}

/**
 * Returns the redirect of a browser to the web page, for a page that needs a session or the
 * service's own address; null for any other request.
 *
 * @param sendsToLogin whether the request was refused on a route that sends browsers to the web page
 */
export function loginRedirect(
  head: RequestHead,
  refusal: Refusal,
  sendsToLogin: boolean,
  { pageOf, homeOf }: LoginPages,
): { readonly status: number; readonly headers: readonly string[] } | null {
  const page = sendsToLogin && needsLogin(head, refusal) ? pageOf(head.client.host) : null;
  if (page !== null) return { status: 303, headers: ['Location', loginAddress(page, head.target)] };
  const home = opensHome(head, refusal) ? homeOf(head.client.host) : null;
  return home === null ? null : { status: 302, headers: ['Location', home] };
}

/** Whether a person opened a page without a session, so that the browser can log in and return. */
function needsLogin(head: RequestHead, { refusal }: Refusal): boolean {
  return refusal === 'unauthenticated' && opensPage(head);
}

/** Whether a person opened `/` in a browser and was refused. */
function opensHome(head: RequestHead, { refusal }: Refusal): boolean {
  return head.path === '/' && (refusal === 'unauthenticated' || refusal === 'not_found') && opensPage(head);
}

/**
 * Whether this is a page navigation by a person's browser. Scripts and other programs get JSON,
 * whatever else they send.
 */
function opensPage({ method, key, jwt, webSocket, fields }: RequestHead): boolean {
  if (method !== 'GET' || webSocket) return false;
  if (key !== undefined || jwt !== undefined || firstField(fields, 'authorization') !== undefined) return false;
  // Scripts send it in browsers of any age. A WebView puts its application's name there.
  if (firstField(fields, 'x-requested-with')?.toLowerCase() === 'xmlhttprequest') return false;
  // All browsers have sent these since 2023 (Fetch Metadata); older ones send neither.
  const isNavigation = (firstField(fields, 'sec-fetch-mode') ?? 'navigate') === 'navigate';
  const isPage = (firstField(fields, 'sec-fetch-dest') ?? 'document') === 'document';
  return isNavigation && isPage && acceptsHtml(fieldValues(fields, 'accept').join(','));
} // prettier-ignore

/** Returns the URL of the web page, with a return path if it stays on the same origin. */
function loginAddress(page: string, target: string): string {
  const back = ownPath(target);
  return back === undefined ? page : `${page}?${new URLSearchParams({ return_to: back }).toString()}`;
}

/**
 * Whether `Accept` names HTML and does not name JSON. Programs accept anything, and no browser
 * names JSON when it opens a page.
 */
function acceptsHtml(accept: string): boolean {
  const types = accept.split(',').flatMap((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    return parameters.some((each) => /^q=0(?:\.0*)?$/.test(each)) ? [] : [type];
  });
  return types.includes('text/html') && !types.includes('application/json');
}
