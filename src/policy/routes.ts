import { asBestFit } from '../domain/lookalikes.js';
import { decodeAscii, type Readings, segmentAt, withoutSegments } from '../domain/path.js';
import { compileRoute, type Route, type RouteDefinition } from './route.js';

/** The route of a request, and the path that contains its parameters. */
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
 *
 * A route that takes GET also takes HEAD ({@link withImpliedHead}). Segment by segment, a fixed
 * segment has precedence over a parameter, and a parameter over `*`.
 */
export class Router {
  readonly #builtIn = newNode();
  readonly #root = newNode();
  /**
   * The same routes, as seen by readers that confuse look-alike characters (`domain/lookalikes`).
   */
  readonly #lenient = newNode();
  readonly #fallback: Route;
  readonly #routes: Route[] = [];

  /**
   * @param fallback the rules for a path that no route matches
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
    // Inserted last, so that an exact route has precedence over one that only looks like it.
    for (const route of compiled) insert(this.#lenient, route, (segment) => asBestFit(decodeAscii(segment)));
  }

  /**
   * Finds the route, or returns in a sentence why the path is refused: upstreams could read it in
   * two ways.
   *
   * @param readings the readings of the path; null when there is only one
   */
  find(method: string, path: string, readings: Readings | null): Match | string {
    if (readings === null) return this.#match(method, path);
    const match = this.#match(method, readings.literal);
    const { strippedSegments: stripped } = match.route;
    if (readings.needsWildcard && !match.route.wildcard) {
      return 'the path has an empty segment or an encoded slash where no route ends in "*"';
    }
    if (
      stripped > 0 &&
      [readings.literal, ...readings.lenient].some((reading) =>
        isHostLike(withoutSegments(reading, stripped)),
      )
    )
      return 'the path that the upstream receives would begin with an empty segment, an encoded slash or ";"';
    for (const reading of readings.lenient) {
      if (!isEquivalent(match, this.#match(method, reading, this.#lenient))) {
        return `the path can be read in two ways that lead to different rules${slashHint(readings.literal, reading)}`;
      }
    }
    return match;
  }

  /**
   * Whether a route matches a path, so that `default_route` does not apply.
   *
   * @param path as the router matches it
   */
  names(method: string, path: string): boolean {
    return this.#match(method, path).route !== this.#fallback;
  }

  /** Every route except the fallback: built-in endpoints first, in the order declared. */
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

/**
 * Inserts a route below a node, where no other one has its path and method.
 *
 * @param read converts a fixed segment to the form in which it is matched
 */
function insert(root: Node, route: Route, read: (segment: string) => string): void {
  const segments = route.path.slice(1).split('/');
  let node = root;
  for (const segment of route.wildcard ? segments.slice(0, -1) : segments)
    node = childOf(node, segment, read);
  const methods = route.wildcard ? node.below : node.here;
  if (route.methods === null) methods.any ??= route;
  else for (const method of route.methods) if (!methods.named.has(method)) methods.named.set(method, route);
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
  // Converted only now, because an escaped ":" belongs to a fixed segment.
  const fixed = read(segment);
  let child = node.statics.get(fixed);
  if (child === undefined) node.statics.set(fixed, (child = newNode()));
  return child;
}

/** Returns a suggestion when a trailing slash is the only difference. */
function slashHint(literal: string, reading: string): string {
  return literal === `${reading}/` ? `; did you mean ${reading}, without the trailing slash?` : '';
}

/**
 * Whether some reader would take the beginning of a path, as `domain/path` decodes it, for `//` and
 * so for a host.
 */
function isHostLike(path: string): boolean {
  return /^\/(?:\/|;|%2F)/.test(path);
}

/** Whether two matches lead to the same decision for everybody, and to the same request. */
export function isEquivalent(a: Match, b: Match): boolean {
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
    // An endpoint without parameters responds alike, however its path is written.
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
 * Returns routes with their effective methods.
 *
 * `GET` implies `HEAD` (RFC 9110 9.3.2), unless a route for the same path names `HEAD` itself.
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
 * Returns a key that is equal for paths that the router treats alike: it ignores escapes and
 * parameter names.
 *
 * Parameters and `*` get a second slash, because an escaped `:` or `*` is a fixed segment.
 */
export function pathKey({ path }: Pick<Declared, 'path'>): string {
  return decodeAscii(path.replace(/(?<=\/)[:*][^/]*/g, (part) => (part === '*' ? '/*' : '/:')));
}
