import { METHODS } from '../domain/methods.js';
import { AUTHORIZATION } from '../http/authorization.js';
import type { RequestHead } from '../http/head.js';
import { parseTarget } from '../http/target.js';
import type { Match } from '../policy/routes.js';
import type { Route } from '../policy/route.js';
import { samplePaths } from './paths.js';
import type { Side } from './side.js';

/**
 * The routes that a request matches on each side; null where its path is refused, whatever its
 * route.
 */
export interface RoutePair {
  readonly routes: readonly [Route | null, Route | null];
  /** The host of the configurations that the pair requires; null for every other host. */
  readonly host: string | null;
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
  port: '',
  prefix: '',
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
    method, target, ...parsed, fields: [], client: { ...CLIENT, host }, key: undefined, scheme: undefined, jwt: undefined, jwtPlace: AUTHORIZATION,
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
export function classify(sides: readonly [Side, Side], most?: number): RequestClasses {
  const collected = new Collected(sides);
  let complete = true;
  for (const [host, shown] of hostsOf(sides)) {
    const routes = sides.flatMap(({ sites }) => sites.routesOf(host));
    const sample = samplePaths(new Set(routes.map(({ path }) => path)), most);
    complete &&= sample.complete;
    for (const path of sample.paths) collected.add(path, host, shown);
  }
  return { classes: collected.classes, complete };
}

class Collected {
  readonly classes = new Map<string, RequestClass>();
  readonly #sides: readonly [Side, Side];
  readonly #pairs = new Map<string, RoutePair>();
  readonly #ids = new Map<Route, number>();

  constructor(sides: readonly [Side, Side]) {
    this.#sides = sides;
  }

  /** Adds a path with each method. */
  add(path: string, host: string, shownHost: string | null): void {
    const first = requestHead('GET', path, host);
    if (typeof first === 'string') return;
    for (const method of METHODS) {
      const head = { ...first, method };
      const matches = [this.#sides[0].match(head), this.#sides[1].match(head)] as const;
      const key = classKey(this.#sides, matches, method);
      const known = this.classes.get(key);
      const pair = this.#pairOf(key, matches, shownHost);
      if (!pair.examples.has(method)) pair.examples.set(method, path);
      if (known === undefined) this.classes.set(key, { head, matches, pairs: [pair] });
      else if (!known.pairs.includes(pair)) known.pairs.push(pair);
    }
  }

  #pairOf(key: string, matches: readonly [Match | string, Match | string], host: string | null): RoutePair {
    const routes = [routeOf(matches[0]), routeOf(matches[1])] as const;
    const id = `${routes.map((route) => this.#idOf(route)).join()} ${host} ${key}`;
    let pair = this.#pairs.get(id);
    if (pair === undefined) this.#pairs.set(id, (pair = { routes, host, examples: new Map() }));
    return pair;
  }

  #idOf(route: Route | null): number {
    if (route === null) return -1;
    let id = this.#ids.get(route);
    if (id === undefined) this.#ids.set(route, (id = this.#ids.size));
    return id;
  }
}

function routeOf(match: Match | string): Route | null {
  return typeof match === 'string' ? null : match.route;
}

/** Returns sample hosts for all, each with the host of the configurations that it stands for. */
export function hostsOf(sides: readonly [Side, Side]): Map<string, string | null> {
  const hosts = new Map<string, string | null>();
  const named = new Set(sides.flatMap(({ sites }) => sites.hosts));
  for (const host of [null, ...named]) {
    let sample = host === null ? 'any.invalid' : host.replace(/^\*/, 'any');
    while (named.has(sample) && sample !== host) sample = `x${sample}`;
    hosts.set(sample, host);
  }
  return hosts;
}
