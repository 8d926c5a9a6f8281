import type { Refusal } from '../domain/refusal.js';
import type { RequestHead } from '../http/head.js';
import { isRead } from '../domain/methods.js';

/**
 * Refuses what another site made a browser send with the session cookie.
 *
 * A request that changes something, or opens a WebSocket, must come from the same origin by `Sec-Fetch-Site`
 * or by an `Origin` equal to the host. With neither field the client is no browser, and it passes.
 */
export function refuseCrossOrigin(head: RequestHead): Refusal | undefined {
  if (isRead(head.method) && !head.webSocket) return undefined;
  const { fetchSite, origin } = head;
  if (fetchSite === undefined && origin === undefined) return undefined;
  if (fetchSite === 'same-origin' || fetchSite === 'none') return undefined;
  if (fetchSite === undefined && origin !== undefined && isOriginOf(origin, head.client.host))
    return undefined;
  return { refusal: 'cross_origin', detail: 'The request comes from another origin' };
}

function isOriginOf(origin: string, host: string): boolean {
  const own = host.toLowerCase();
  return own !== '' && (origin === `http://${own}` || origin === `https://${own}`);
}
