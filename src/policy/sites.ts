import type { Readings } from '../domain/path.js';
import type { Match, Route } from './route.js';
import type { Router } from './routes.js';

export interface Site {
  /** A name, or `*.` and a name, in lower case. That of the page has its port, as browsers send it. */
  readonly host: string;
  readonly router: Router;
}

export interface Addressed {
  readonly client: { readonly host: string };
  readonly method: string;
  readonly path: string;
  readonly readings: Readings | null;
}

const NO_HOST = 'the request names no host, and the routes depend on it';

/** The routes of each host. A page with a host of its own shares this origin with no upstream. */
export class Sites {
  readonly #others: Router;
  readonly #named = new Map<string, Router>();
  readonly #below: readonly (readonly [suffix: string, router: Router])[];
  readonly #page: Site | null;
  readonly #pagePath: string | null;
  /** Origins that count as this server's own, besides those of the requested host. */
  readonly ownOrigins: ReadonlySet<string>;

  /** @param pagePath null when the page is disabled */
  constructor(
    others: Router,
    page: Site | null,
    pagePath: string | null = null,
    named: readonly Site[] = [],
    ownOrigins: readonly string[] = [],
  ) {
    this.#others = others;
    this.#page = page;
    this.#pagePath = pagePath;
    this.ownOrigins = new Set(ownOrigins);
    const below: (readonly [string, Router])[] = [];
    for (const { host, router } of named) {
      if (host.startsWith('*')) below.push([host.slice(1), router]);
      else this.#named.set(host, router);
    }
    this.#below = below.toSorted(([a], [b]) => b.length - a.length);
  }

  /** Finds the route of a request, or returns in a sentence why it is unclear. */
  find({ client, method, path, readings }: Addressed, asMethod = method): Match | string {
    const router = this.#routerOf(client.host);
    return router === null ? NO_HOST : router.find(asMethod, path, readings);
  }

  routesOf(host: string): readonly Route[] {
    return this.#routerOf(host)?.routes ?? [];
  }

  get routes(): readonly Route[] {
    const routers = [this.#others, ...this.#named.values(), ...this.#below.map(([, router]) => router)];
    return [...new Set(routers.flatMap((router) => router.routes))];
  }

  /** The hosts that the configuration names, and hosts below a name as `*.` and that name. */
  get hosts(): readonly string[] {
    const page = this.#page === null ? [] : [this.#page.host];
    return [...page, ...this.#named.keys(), ...this.#below.map(([suffix]) => `*${suffix}`)];
  }

  /** Returns the path of the web page; null if it is not on this host. */
  pageOf(host: string): string | null {
    const path = this.#pagePath;
    return path !== null && this.#routerOf(host)?.serves('GET', path) === true ? path : null;
  }

  /** Where to redirect a browser that requested `/` in vain: to the page, unless a route names `/`. */
  homeOf(host: string): string | null {
    const isNamed = this.#page === null && this.#routerOf(host)?.names('GET', '/') === true;
    return isNamed ? null : this.pageOf(host);
  }

  #routerOf(host: string): Router | null {
    if (this.#page !== null && isSame(host, this.#page.host)) return this.#page.router;
    if (this.#named.size === 0 && this.#below.length === 0) return this.#others;
    const name = hostName(host);
    return name === '' ? null : this.#routerOfName(name);
  }

  #routerOfName(name: string): Router {
    const router = this.#named.get(name);
    if (router !== undefined) return router;
    for (const [suffix, below] of this.#below)
      if (name.length > suffix.length && name.endsWith(suffix)) return below;
    return this.#others;
  }
}

/** Returns the name in a host: in lower case, without its port and the dot at its end. */
function hostName(host: string): string {
  const colon = host.lastIndexOf(':');
  const name = colon > host.lastIndexOf(']') ? host.slice(0, colon) : host;
  return (name.endsWith('.') ? name.slice(0, -1) : name).toLowerCase();
}

function isSame(host: string, lower: string): boolean {
  return host.length === lower.length && host.toLowerCase() === lower;
}
