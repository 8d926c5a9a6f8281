import { ownPath } from '../domain/own-path.js';
import type { Refusal } from '../domain/refusal.js';
import { firstField } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';

/**
 * Whether a person opened a page without a session, so that a browser can log in and come back. Scripts and programs get
 * the 401, whatever else they send.
 */
export function needsLogin(head: RequestHead, { refusal }: Refusal): boolean {
  const { method, key, jwt, webSocket, fields } = head;
  if (refusal !== 'unauthenticated' || method !== 'GET' || webSocket) return false;
  if (key !== undefined || jwt !== undefined || firstField(fields, 'authorization') !== undefined) return false;
  // Scripts say it in browsers of any age; a WebView names its application there.
  if (firstField(fields, 'x-requested-with')?.toLowerCase() === 'xmlhttprequest') return false;
  // Browsers say it since 2023 at the latest (Fetch Metadata); older ones send neither.
  const isNavigation = (firstField(fields, 'sec-fetch-mode') ?? 'navigate') === 'navigate';
  const isPage = (firstField(fields, 'sec-fetch-dest') ?? 'document') === 'document';
  return isNavigation && isPage && acceptsHtml(firstField(fields, 'accept') ?? '');
} // prettier-ignore

/** The web page, with the way back where it stays on the own origin. */
export function loginAddress(page: string, target: string): string {
  const back = ownPath(target);
  return back === undefined ? page : `${page}?${new URLSearchParams({ return_to: back })}`;
}

/** Whether HTML is asked for by its name: programs take anything. */
function acceptsHtml(accept: string): boolean {
  return accept.split(',').some((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    return type === 'text/html' && !parameters.some((each) => /^q=0(?:\.0*)?$/.test(each));
  });
}
