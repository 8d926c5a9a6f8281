import { asBestFit } from '../domain/lookalikes.js';
import { decodeAscii, type Readings, segmentAt, withoutSegments } from '../domain/path.js';
import { compileRoute, type Route, type RouteDefinition } from './route.js';

/** The route of a request and the path in which its parameters stand. */
export interface Match {
  readonly route: Route;
  readonly path: string;
}

interface Methods {
  readonly named: Map<string, Route>;
  any: Route | undefined;
}

interface Node {
  readonly statics: Map<string, Node>;
  parameter: Node | undefined;
  readonly here: Methods;
  readonly below: Methods;
}

/**
 * Finds the route of a request: the one with the most specific path that takes the method.
 * What takes GET takes HEAD too (`implied-head`).
 *
 * Segment by segment, a fixed one goes before a parameter and a parameter before `*`.
 */
export class Router {
  readonly #builtIn = newNode();
  readonly #root = newNode();
  /** The same routes, as readers see them who take characters for others (`domain/lookalikes`). */
  readonly #lenient = newNode();
  readonly #fallback: Route;
  readonly #routes: Route[] = [];

  /**
   * @param fallback what a path that no route names is decided by
   * @param builtIn routes of the built-in endpoints; no other route can take a path from them
   */
  constructor(
    routes: readonly RouteDefinition[],
    fallback: Omit<RouteDefinition, 'path' | 'methods'>,
    builtIn: readonly RouteDefinition[] = [],
  ) {
    this.#fallback = compileRoute({ ...fallback, path: '/' }, false);
    for (const route of withImpliedHead(builtIn)) this.#add(route, [this.#builtIn]);
    const declared = withImpliedHead(routes);
    const compiled = declared.map((route) => this.#add(route, [this.#root, this.#lenient]));
    // Behind all others: a route of that very name goes before one that only looks like it.
    for (const route of compiled) insert(this.#lenient, route, (segment) => asBestFit(decodeAscii(segment)));
  }

  /**
   * Finds the route, or says in a sentence why the path is refused: two upstreams could read it as two things.
   *
   * @param ways the readings of the path; null when there is one
   */
  find(method: string, path: string, ways: Readings | null): Match | string {
    if (ways === null) return this.#match(method, path);
    const match = this.#match(method, ways.literal);
    const { strippedSegments: stripped } = match.route;
    if (ways.needsWildcard && !match.route.wildcard) {
      return 'the path has an empty segment or an encoded slash where no route ends in "*"';
    }
    if (
      stripped > 0 &&
      [ways.literal, ...ways.lenient].some((way) => isHostLike(withoutSegments(way, stripped)))
    )
      return 'the path would begin with an empty segment, an encoded slash or ";" for the upstream';
    for (const reading of ways.lenient) {
      if (!meansTheSame(match, this.#match(method, reading, this.#lenient))) {
        return `the path can be read in two ways that lead to different rules${slashHint(ways.literal, reading)}`;
      }
    }
    return match;
  }

  /** Whether a route names a path, so that `default_route` is not asked. @param path as the router matches it */
  names(method: string, path: string): boolean {
    return this.#match(method, path).route !== this.#fallback;
  }

  /** Every route, built-in endpoints first, in the order declared; the fallback is not one of them. */
  get routes(): readonly Route[] {
    return this.#routes;
  }

  #match(method: string, path: string, root = this.#root): Match {
    const route = find(this.#builtIn, method, path, 1) ?? find(root, method, path, 1) ?? this.#fallback;
    return { route, path };
  }

  #add(definition: RouteDefinition, roots: readonly Node[]): Route {
    const route = compileRoute(definition, definition.path.endsWith('/*'));
    this.#routes.push(route);
    for (const root of roots) insert(root, route, decodeAscii);
    return route;
  }
}

/** Puts a route below a node, where no other one has its path and method. @param read a fixed segment as it is matched */
function insert(root: Node, route: Route, read: (segment: string) => string): void {
  const segments = route.path.slice(1).split('/');
  let node = root;
  for (const segment of route.wildcard ? segments.slice(0, -1) : segments)
    node = childOf(node, segment, read);
  const taken = route.wildcard ? node.below : node.here;
  if (route.methods === null) taken.any ??= route;
  else for (const method of route.methods) if (!taken.named.has(method)) taken.named.set(method, route);
}

function find(node: Node, method: string, path: string, from: number): Route | undefined {
  if (from > path.length) return pick(node.here, method);
  const slash = path.indexOf('/', from);
  const end = slash < 0 ? path.length : slash;
  const segment = path.slice(from, end);
  const fixed = node.statics.get(segment);
  if (fixed !== undefined) {
    const route = find(fixed, method, path, end + 1);
    if (route !== undefined) return route;
  }
  if (node.parameter !== undefined && segment !== '') {
    const route = find(node.parameter, method, path, end + 1);
    if (route !== undefined) return route;
  }
  return pick(node.below, method);
}

function pick(methods: Methods, method: string): Route | undefined {
  return methods.named.get(method) ?? methods.any;
}

function newNode(): Node {
  return {
    statics: new Map(),
    parameter: undefined,
    here: { named: new Map(), any: undefined },
    below: { named: new Map(), any: undefined },
  };
}

function childOf(node: Node, segment: string, read: (segment: string) => string): Node {
  if (segment.startsWith(':')) return (node.parameter ??= newNode());
  // Only now: an escaped ":" is a fixed segment.
  const fixed = read(segment);
  let child = node.statics.get(fixed);
  if (child === undefined) node.statics.set(fixed, (child = newNode()));
  return child;
}

/** What to ask for instead, when the slash at the end of a path is all that makes the difference. */
function slashHint(literal: string, reading: string): string {
  return literal === `${reading}/` ? `; did you mean ${reading}, without the slash at its end?` : '';
}

/** Whether some reader would take the beginning of a path, as `domain/path` decodes it, for `//` and so for a host. */
function isHostLike(path: string): boolean {
  return /^\/(?:\/|;|%2F)/.test(path);
}

/** Whether two matches lead to the same decision for everybody, and to the same request. */
export function meansTheSame(a: Match, b: Match): boolean {
  const [x, y] = [a.route, b.route];
  return (
    x.readAction === y.readAction &&
    x.writeAction === y.writeAction &&
    x.auth === y.auth &&
    x.upstream === y.upstream &&
    x.strippedSegments === y.strippedSegments &&
    x.allowsBodyOnRead === y.allowsBodyOnRead &&
    x.allowsServiceWorker === y.allowsServiceWorker &&
    x.cors?.id === y.cors?.id &&
    x.endpoint?.name === y.endpoint?.name &&
    // An endpoint without parameters answers the same however its path was written.
    (x.endpoint === null || a.path === b.path || !x.path.includes(':')) &&
    guardedUser(a) === guardedUser(b) &&
    serviceKey(a) === serviceKey(b)
  );
}

/** The user whose active tokens forbid the request; undefined when the route guards none. */
export function guardedUser(match: Match): string | undefined {
  const segment = match.route.refuseIfActiveTokens;
  return segment === null ? undefined : segmentAt(match.path, segment);
}

function serviceKey({ route, path }: Match): string | undefined {
  if (route.service === null) return undefined;
  return route.service.from === 'path' ? segmentAt(path, route.service.segment) : route.service.name;
}

interface Declared {
  readonly path: string;
  readonly methods?: readonly string[] | undefined;
}

/**
 * Routes with the methods that they take: `GET` brings `HEAD` along (RFC 9110 9.3.2), unless a route for that very path
 * names `HEAD` itself.
 */
export function withImpliedHead<T extends Declared>(routes: readonly T[]): T[] {
  const named = new Set(routes.filter(({ methods }) => methods?.includes('HEAD')).map(pathKey));
  return routes.map((route) => {
    const { methods } = route;
    if (methods === undefined || !methods.includes('GET') || named.has(pathKey(route))) return route;
    return {
      ...route,
      methods: methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])),
    };
  });
}

/**
 * The same for paths that the router takes for one: however escaped, and whatever their parameters are called. What is
 * no fixed segment begins with a second slash, because an escaped `:` or `*` is one.
 */
export function pathKey({ path }: Pick<Declared, 'path'>): string {
  return decodeAscii(path.replace(/(?<=\/)[:*][^/]*/g, (part) => (part === '*' ? '/*' : '/:')));
}
