import { ownPath } from '../domain/own-path.js';
import type { Refusal } from '../domain/refusal.js';
import { fieldValues, firstField } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';

/** Whether a person opened a page without a session, so that a browser can log in and come back. */
export function needsLogin(head: RequestHead, { refusal }: Refusal): boolean {
  return refusal === 'unauthenticated' && opensPage(head);
}

/** Whether a person opened `/` in a browser and gets nothing there. */
export function opensHome(head: RequestHead, { refusal }: Refusal): boolean {
  return head.path === '/' && (refusal === 'unauthenticated' || refusal === 'not_found') && opensPage(head);
}

/** Whether a browser opens a page, for a person. Scripts and programs get the JSON, whatever else they send. */
function opensPage({ method, key, jwt, webSocket, fields }: RequestHead): boolean {
  if (method !== 'GET' || webSocket) return false;
  if (key !== undefined || jwt !== undefined || firstField(fields, 'authorization') !== undefined) return false;
  // Scripts say it in browsers of any age; a WebView names its application there.
  if (firstField(fields, 'x-requested-with')?.toLowerCase() === 'xmlhttprequest') return false;
  // Browsers say it since 2023 at the latest (Fetch Metadata); older ones send neither.
  const isNavigation = (firstField(fields, 'sec-fetch-mode') ?? 'navigate') === 'navigate';
  const isPage = (firstField(fields, 'sec-fetch-dest') ?? 'document') === 'document';
  return isNavigation && isPage && acceptsHtml(fieldValues(fields, 'accept').join(','));
} // prettier-ignore

/** The web page, with the way back where it stays on the own origin. */
export function loginAddress(page: string, target: string): string {
  const back = ownPath(target);
  return back === undefined ? page : `${page}?${new URLSearchParams({ return_to: back })}`;
}

/** Whether HTML is asked for by its name, and JSON is not: programs take anything, and no browser that opens a page names JSON. */
function acceptsHtml(accept: string): boolean {
  const types = accept.split(',').flatMap((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    return parameters.some((each) => /^q=0(?:\.0*)?$/.test(each)) ? [] : [type];
  });
  return types.includes('text/html') && !types.includes('application/json');
}
