import { ownPath } from '../domain/own-path.js';
import type { Refusal } from '../domain/refusal.js';
import { fieldValues, firstField } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';

/** Whether a person opened a page without a session, so that the browser can log in and return. */
export function needsLogin(head: RequestHead, { refusal }: Refusal): boolean {
  return refusal === 'unauthenticated' && opensPage(head);
}

/** Whether a person opened `/` in a browser and was refused. */
export function opensHome(head: RequestHead, { refusal }: Refusal): boolean {
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
export function loginAddress(page: string, target: string): string {
  const back = ownPath(target);
  return back === undefined ? page : `${page}?${new URLSearchParams({ return_to: back })}`;
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
