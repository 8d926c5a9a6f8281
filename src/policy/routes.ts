import { decodeAscii, readings, segmentAt } from '../domain/path.js';

/** One of Latchkey's own endpoints as the policy sees it. */
export interface EndpointRule {
  readonly name: string;
  /** The credential it takes; `nothing` when the endpoint checks its own (a password in the body). */
  readonly takes: 'nothing' | 'token' | 'session' | 'session_or_token';
}

/** A route as the configuration or the table of endpoints declares it. */
export interface RouteDefinition {
  readonly path: string;
  /** Absent: every method. */
  readonly methods?: readonly string[] | undefined;
  /** `resource:verb`, or a resource whose verb follows from the method; null or absent: no action is checked. */
  readonly action?: string | null | undefined;
  /** Where the service of a request stands: a path parameter, `header:NAME` or `query:NAME`. */
  readonly service?: string | null | undefined;
  readonly auth?: 'required' | 'none' | 'deny' | undefined;
  /** Path parameter with a user's id; the request is refused while that user has active tokens. */
  readonly refuse_if_active_tokens?: string | null | undefined;
  readonly upstream?: string | null | undefined;
  readonly endpoint?: EndpointRule | undefined;
}

/** Where the service of a request stands. */
export type ServiceSource =
  | { readonly from: 'path'; readonly segment: number }
  | { readonly from: 'header' | 'query'; readonly name: string };

/** A compiled route. */
export interface Route {
  readonly path: string;
  readonly readAction: string | null;
  readonly writeAction: string | null;
  readonly service: ServiceSource | null;
  readonly auth: 'required' | 'none' | 'deny';
  readonly refuseIfActiveTokens: number | null;
  readonly upstream: string | null;
  readonly endpoint: EndpointRule | null;
  /** The path ends in `*`, so what stands there is data. */
  readonly wildcard: boolean;
}

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

/** Methods that only read; an action without a verb becomes `:read` for these and `:write` for the rest. */
export function isRead(method: string): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
}

/**
 * Finds the route of a request: the one with the most specific path that takes the method.
 *
 * Segment by segment, a fixed one goes before a parameter and a parameter before `*`.
 */
export class Router {
  readonly #root = newNode();
  readonly #fallback: Route;

  /** @param fallback what a path that no route names is judged by */
  constructor(routes: readonly RouteDefinition[], fallback: Omit<RouteDefinition, 'path' | 'methods'>) {
    this.#fallback = compileRoute({ ...fallback, path: '/' }, false);
    for (const route of routes) this.#add(route);
  }

  /**
   * Finds the route, or says in a sentence why the path is refused: two upstreams could read it as two things.
   *
   * @param plain whether the path can be read in one way only
   */
  find(method: string, path: string, plain: boolean): Match | string {
    if (plain) return this.#match(method, path);
    const ways = readings(path);
    if (typeof ways === 'string') return ways;
    const match = this.#match(method, ways.literal);
    if (ways.needsWildcard && !match.route.wildcard) {
      return 'the path has an empty segment or an encoded slash where no route ends in "*"';
    }
    for (const reading of ways.lenient) {
      if (!meansTheSame(match, this.#match(method, reading))) {
        return 'the path can be read in two ways that lead to different rules';
      }
    }
    return match;
  }

  #match(method: string, path: string): Match {
    return { route: find(this.#root, method, path, 1) ?? this.#fallback, path };
  }

  #add(definition: RouteDefinition): void {
    const segments = decodeAscii(definition.path).slice(1).split('/');
    const wildcard = segments.at(-1) === '*';
    let node = this.#root;
    for (const segment of wildcard ? segments.slice(0, -1) : segments) node = childOf(node, segment);
    const route = compileRoute(definition, wildcard);
    const methods = wildcard ? node.below : node.here;
    if (definition.methods === undefined) methods.any ??= route;
    else
      for (const method of definition.methods)
        if (!methods.named.has(method)) methods.named.set(method, route);
  }
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

function childOf(node: Node, segment: string): Node {
  if (segment.startsWith(':')) return (node.parameter ??= newNode());
  let child = node.statics.get(segment);
  if (child === undefined) node.statics.set(segment, (child = newNode()));
  return child;
}

function compileRoute(definition: RouteDefinition, wildcard: boolean): Route {
  const { path, action, service, refuse_if_active_tokens: guarded } = definition;
  const verbless = action != null && !action.includes(':');
  return {
    path,
    readAction: verbless ? `${action}:read` : (action ?? null),
    writeAction: verbless ? `${action}:write` : (action ?? null),
    service: service == null ? null : serviceSource(path, service),
    auth: definition.auth ?? 'required',
    refuseIfActiveTokens: guarded == null ? null : parameterIndex(path, guarded),
    upstream: definition.upstream ?? null,
    endpoint: definition.endpoint ?? null,
    wildcard,
  };
}

function serviceSource(path: string, service: string): ServiceSource {
  if (service.startsWith('header:')) return { from: 'header', name: service.slice(7).toLowerCase() };
  if (service.startsWith('query:')) return { from: 'query', name: service.slice(6) };
  return { from: 'path', segment: parameterIndex(path, service) };
}

function parameterIndex(path: string, name: string): number {
  const index = path.slice(1).split('/').indexOf(`:${name}`);
  if (index < 0) throw new RangeError(`the path ${path} has no parameter :${name}`);
  return index;
}

/** Whether two matches lead to the same decision for everybody. */
function meansTheSame(a: Match, b: Match): boolean {
  const [x, y] = [a.route, b.route];
  return (
    x.readAction === y.readAction &&
    x.writeAction === y.writeAction &&
    x.auth === y.auth &&
    x.upstream === y.upstream &&
    x.endpoint?.name === y.endpoint?.name &&
    (x.endpoint === null || a.path === b.path) &&
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
