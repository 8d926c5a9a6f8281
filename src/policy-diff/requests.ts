import { METHODS } from '../domain/methods.js';
import type { RequestHead } from '../http/head.js';
import { parseTarget } from '../http/target.js';
import type { Match } from '../policy/routes.js';
import type { Route } from '../policy/route.js';
import { ambiguousForms, samplePaths } from './paths.js';
import { type Side, withoutMembers } from './side.js';

/**
 * The routes that a request matches on each side; null where its path is refused, whatever its
 * route.
 */
export interface RoutePair {
  readonly routes: readonly [Route | null, Route | null];
  /** The host that the pair requires; null for every other host. */
  readonly host: string | null;
  /** What makes its paths ambiguous; null when all readers agree on them. */
  readonly form: string | null;
  /** The methods that match, each with a path as it is sent. */
  readonly examples: Map<string, string>;
}

/** Requests that both gates decide alike, whichever of these routes they match. */
export interface RequestClass {
  readonly head: RequestHead;
  readonly matches: readonly [Match | string, Match | string];
  readonly pairs: RoutePair[];
}

/** The classes of all requests, by the signatures of their routes. */
export interface RequestClasses {
  readonly classes: ReadonlyMap<string, RequestClass>;
  readonly complete: boolean;
}

const CLIENT = {
  address: '127.0.0.1',
  secure: true,
  proxied: false,
  behindTrustedProxy: false,
  forwardedFor: '127.0.0.1',
};

/**
 * Returns a well-formed request without a credential, or in a sentence why its path is always
 * refused.
 */
export function requestHead(method: string, target: string, host: string): RequestHead | string {
  const parsed = parseTarget(target);
  if (typeof parsed === 'string') return parsed;
  return {
    method, target, ...parsed, fields: [], client: { ...CLIENT, host }, key: undefined, bearer: false, jwt: undefined,
    otp: undefined, session: undefined, contentType: undefined, contentLength: undefined, chunked: false, connection: undefined,
    webSocket: false, expectsContinue: false, serviceWorker: false, origin: undefined, fetchSite: undefined,
    userAgent: undefined, trace: undefined,
  };
} // prettier-ignore

/** Returns the key of requests that are decided alike: what each gate considers of their routes. */
export function classKey(
  sides: readonly [Side, Side],
  matches: readonly [Match | string, Match | string],
  method: string,
): string {
  const [a, b] = matches.map((match, i) =>
    typeof match === 'string' ? 'refused' : (sides[i] as Side).signature(match.route, method),
  );
  return `${a}\n${b}`;
}

/**
 * Sorts all requests into classes, by one request for each pair of routes.
 *
 * @param most limit of {@link samplePaths}
 */
export function classify(
  sides: readonly [Side, Side],
  pageHosts: readonly string[],
  most?: number,
): RequestClasses {
  const collected = new Collected(sides);
  let complete = true;
  for (const host of hostsOf(pageHosts)) {
    const shown = pageHosts.includes(host) ? host : null;
    const routes = sides.flatMap(({ sites }) => sites.routerOf(host).routes);
    const sample = samplePaths(new Set(routes.map(({ path }) => path)), most);
    complete &&= sample.complete;
    for (const path of sample.paths) collected.add(path, host, shown, null);
    // If all plain paths mean the same on both sides, so do all readings of the others.
    if (!collected.differs && !routes.some(({ path }) => path.includes('%'))) continue;
    for (const path of sample.paths)
      for (const odd of ambiguousForms(path)) collected.add(odd.path, host, shown, odd.form);
  }
  return { classes: collected.classes, complete };
}

class Collected {
  readonly classes = new Map<string, RequestClass>();
  /** Whether some path leads to routes that differ in more than their names. */
  differs = false;
  readonly #sides: readonly [Side, Side];
  readonly #pairs = new Map<string, RoutePair>();
  readonly #ids = new Map<Route, number>();

  constructor(sides: readonly [Side, Side]) {
    this.#sides = sides;
  }

  /** Adds a path with each method. @param form null for a path that all readers read alike */
  add(path: string, host: string, shownHost: string | null, form: string | null): void {
    const first = requestHead('GET', path, host);
    if (typeof first === 'string') return;
    for (const method of METHODS) {
      const head = { ...first, method };
      const matches = [this.#sides[0].match(head), this.#sides[1].match(head)] as const;
      const key = classKey(this.#sides, matches, method);
      const known = this.classes.get(key);
      if (form !== null && (known?.pairs[0]?.form === null || isRefusedTwice(matches))) continue;
      this.differs ||= !isSameForReaders(matches);
      const pair = this.#pairOf(key, matches, shownHost, form);
      if (!pair.examples.has(method)) pair.examples.set(method, path);
      if (known === undefined) this.classes.set(key, { head, matches, pairs: [pair] });
      else if (!known.pairs.includes(pair)) known.pairs.push(pair);
    }
  }

  #pairOf(
    key: string,
    matches: readonly [Match | string, Match | string],
    host: string | null,
    form: string | null,
  ): RoutePair {
    const routes = [routeOf(matches[0]), routeOf(matches[1])] as const;
    const id = `${routes.map((route) => this.#idOf(route)).join()} ${host} ${form} ${key}`;
    let pair = this.#pairs.get(id);
    if (pair === undefined) this.#pairs.set(id, (pair = { routes, host, form, examples: new Map() }));
    return pair;
  }

  #idOf(route: Route | null): number {
    if (route === null) return -1;
    let id = this.#ids.get(route);
    if (id === undefined) this.#ids.set(route, (id = this.#ids.size));
    return id;
  }
}

function isRefusedTwice([a, b]: readonly [Match | string, Match | string]): boolean {
  return typeof a === 'string' && typeof b === 'string';
}

function routeOf(match: Match | string): Route | null {
  return typeof match === 'string' ? null : match.route;
}

/** Whether two routes are equal to the rule about ambiguous paths (`policy/routes`). */
function isSameForReaders([a, b]: readonly [Match | string, Match | string]): boolean {
  if (typeof a === 'string' || typeof b === 'string') return typeof a === typeof b;
  return readersKey(a.route) === readersKey(b.route);
}

const NOT_READ: ReadonlySet<keyof Route> = new Set(['path', 'methods', 'position', 'cors']);

function readersKey(route: Route): string {
  return JSON.stringify([withoutMembers(route, NOT_READ), route.cors?.id]);
}

/** Returns sample hosts for all: one that is none of the given hosts, and each of these. */
export function hostsOf(pageHosts: readonly string[]): string[] {
  let other = 'any.invalid';
  while (pageHosts.includes(other)) other = `x${other}`;
  return [other, ...new Set(pageHosts)];
}
