import type { Router } from './routes.js';

/** The web page on a host of its own, with the routes that are there. */
export interface PageSite {
  /** As browsers send it: in lower case, with a port that is not the scheme's own. */
  readonly host: string;
  readonly router: Router;
}

/**
 * The routes of each host. What hosts share is an origin to a browser, so a page with a host of its own has no route
 * of an upstream beside it, and no other host has the page.
 */
export class Sites {
  readonly #router: Router;
  readonly #page: PageSite | null;
  readonly #pagePath: string | null;

  /**
   * @param router for every host that is not the page's
   * @param page null when the page is where everything else is, or nowhere
   * @param pagePath the path of the page; null when there is none
   */
  constructor(router: Router, page: PageSite | null, pagePath: string | null = null) {
    this.#router = router;
    this.#page = page;
    this.#pagePath = pagePath;
  }

  /** The routes of a request's host, as the client asked for it. */
  routerOf(host: string): Router {
    if (this.#page === null || !isSame(host, this.#page.host)) return this.#router;
    return this.#page.router;
  }

  /** Where a browser goes that asked a host for `/` in vain: the web page, unless a route names `/` there. */
  homeOf(host: string): string | null {
    if (this.#page !== null) return this.routerOf(host) === this.#page.router ? this.#pagePath : null;
    return this.#router.names('GET', '/') ? null : this.#pagePath;
  }
}

function isSame(host: string, lower: string): boolean {
  return host.length === lower.length && host.toLowerCase() === lower;
}
