import { type Cors, type CorsHeaders, corsOf, type CorsSettings } from '../domain/cors.js';
import { METHODS } from '../domain/methods.js';
import { acceptsHtml, fieldValues, firstField, isByScript, onlyValue } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';
import type { Route } from '../policy/route.js';
import type { Sites } from '../policy/sites.js';
import { ownPath } from '../domain/path.js';
import type { Refusal } from '../domain/refusal.js';

interface AnsweredPreflight {
  /** The route of the request that the preflight announces. */
  readonly route: Route;
  readonly fields: readonly string[];
  /** Outcome in log and metrics: whether the rules allow the announced request. */
  readonly outcome: 'preflight' | 'preflight_refused';
}

export class CorsRules {
  readonly #sites: Sites;
  readonly #withoutRoute: Cors | null;

  /** @param settings for requests that match no route */
  constructor(sites: Sites, settings: CorsSettings | null) {
    this.#sites = sites;
    this.#withoutRoute = settings === null ? null : corsOf(settings);
  }

  /**
   * Returns null where CORS does not apply.
   * @param head null when it was refused
   * @param fields as received, flat
   */
  headersFor(head: RequestHead | null, fields: readonly string[]): CorsHeaders | null {
    const cors = head === null ? this.#withoutRoute : this.#of(head);
    return cors === null ? null : cors.headersFor(head === null ? onlyValue(fields, 'origin') : head.origin);
  }

  /** Returns undefined for any request but a preflight, and where CORS does not apply. */
  preflight(head: RequestHead): AnsweredPreflight | undefined {
    const { origin } = head;
    if (head.method !== 'OPTIONS' || origin === undefined || head.hasBody) return undefined;
    const method = onlyValue(head.fields, 'access-control-request-method');
    if (method === undefined) return undefined;
    const route = this.#routeOf(method, head);
    if (route === null || route.cors === null) return undefined;
    const headers = fieldValues(head.fields, 'access-control-request-headers').join(',');
    const accepted = METHODS.filter((each) => this.#routeOf(each, head) === route);
    const fields = route.cors.preflightFields({ origin, method, headers }, accepted);
    const allows = firstField(fields, 'access-control-allow-origin') !== undefined;
    return { route, fields, outcome: allows ? 'preflight' : 'preflight_refused' };
  }

  #of(head: RequestHead): Cors | null {
    const route = this.#routeOf(head.method, head);
    return route === null ? this.#withoutRoute : route.cors;
  }

  #routeOf(method: string, head: RequestHead): Route | null {
    const match = this.#sites.find(head, method);
    return typeof match === 'string' ? null : match.route;
  }
}

/** Where browsers are sent instead of being refused. */
export type LoginPages = Pick<Sites, 'pageOf' | 'homeOf'>;

/**
 * Returns the redirect of a browser to the web page, for a page that needs a session or the service's own
 * address; null for any other request.
 * @param loginPath where the route sends browsers, below the web page's path; null: nowhere
 */
export function loginRedirect(
  head: RequestHead,
  refusal: Refusal,
  loginPath: string | null,
  pages: LoginPages,
): { readonly status: number; readonly headers: readonly string[] } | null {
  const page = logsOutAgain(head, refusal) ? pages.pageOf(head.client.host) : null;
  const location = page ?? loginAddress(head, refusal, loginPath, pages);
  if (location !== null) return { status: 303, headers: ['Location', location] };
  const home = opensHome(head, refusal) ? pages.homeOf(head.client.host) : null;
  return home === null ? null : { status: 302, headers: ['Location', home] };
}

/**
 * Returns where a person who opened a page without a session logs in, so that the browser returns
 * afterwards; null for any other request.
 */
export function loginAddress(
  head: RequestHead,
  { refusal }: Refusal,
  loginPath: string | null,
  pages: LoginPages,
): string | null {
  if (loginPath === null || refusal !== 'unauthenticated' || !opensPage(head)) return null;
  const page = pages.pageOf(head.client.host);
  if (page === null) return null;
  const back = ownPath(head.target);
  const query = back === undefined ? '' : `?${new URLSearchParams({ return_to: back }).toString()}`;
  return page + loginPath + query;
}

/** Whether a person submitted a logout whose session had ended. */
function logsOutAgain({ method, path, fields }: RequestHead, { refusal }: Refusal): boolean {
  return refusal === 'unauthenticated' && method === 'POST' && path === '/logout' && acceptsHtml(fields);
}

/** Whether a person opened `/` in a browser and was refused. */
function opensHome(head: RequestHead, { refusal }: Refusal): boolean {
  return head.path === '/' && (refusal === 'unauthenticated' || refusal === 'not_found') && opensPage(head);
}

/**
 * Whether this is a page navigation by a person's browser. Scripts and other programs get JSON,
 * whatever else they send.
 */
function opensPage({ method, key, webSocket, fields }: RequestHead): boolean {
  if (method !== 'GET' || webSocket) return false;
  if (key !== undefined || firstField(fields, 'authorization') !== undefined) return false;
  // Scripts say so in browsers of any age.
  if (isByScript(fields)) return false;
  // All browsers have sent these since 2023 (Fetch Metadata); older ones send neither.
  const isNavigation = (firstField(fields, 'sec-fetch-mode') ?? 'navigate') === 'navigate';
  const isPage = (firstField(fields, 'sec-fetch-dest') ?? 'document') === 'document';
  return isNavigation && isPage && acceptsHtml(fields);
} // prettier-ignore
