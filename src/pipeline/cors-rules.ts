import { type Cors, type CorsHeaders, corsOf, type CorsSettings } from '../domain/cors.js';
import { METHODS } from '../domain/methods.js';
import { fieldValues, firstField, onlyValue } from '../http/fields.js';
import { hasBody, type RequestHead } from '../http/head.js';
import type { Route } from '../policy/route.js';
import type { Sites } from '../policy/sites.js';

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
    if (head.method !== 'OPTIONS' || origin === undefined || hasBody(head)) return undefined;
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
