import type { Router } from './routes.js';

/** The web page on a host of its own, and the routes of that host. */
export interface PageSite {
  /** As browsers send it: in lower case, with a port only if it is not the scheme's default. */
  readonly host: string;
  readonly router: Router;
}

/**
 * The routes of each host.
 *
 * Everything on one host is one origin to a browser. So a page with a host of its own shares it
 * with no route of an upstream, and no other host has the page.
 */
export class Sites {
  readonly #router: Router;
  readonly #page: PageSite | null;
  readonly #pagePath: string | null;

  /**
   * @param router for every host that is not the page's
   * @param page null when the page has no host of its own, or is disabled
   * @param pagePath the path of the page; null when it is disabled
   */
  constructor(router: Router, page: PageSite | null, pagePath: string | null = null) {
    this.#router = router;
    this.#page = page;
    this.#pagePath = pagePath;
  }

  /** Returns the router for a request's host, as the client sent it. */
  routerOf(host: string): Router {
    if (this.#page === null || !isSame(host, this.#page.host)) return this.#router;
    return this.#page.router;
  }

  /**
   * Returns where to redirect a browser that requested `/` in vain: to the web page, unless a route
   * names `/`.
   */
  homeOf(host: string): string | null {
    if (this.#page !== null) return this.routerOf(host) === this.#page.router ? this.#pagePath : null;
    return this.#router.names('GET', '/') ? null : this.#pagePath;
  }
}

function isSame(host: string, lower: string): boolean {
  return host.length === lower.length && host.toLowerCase() === lower;
}
