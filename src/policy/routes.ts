import { asBestFit, foldCase } from '../util/lookalikes.js';
import { decodeAscii, type Readings, withoutSegments } from '../domain/path.js';
import {
  compileRoute,
  isEquivalent,
  type Match,
  type Route,
  type RouteDefinition,
  withImpliedHead,
} from './route.js';

interface Methods {
  readonly named: Map<string, Route>;
  any: Route | undefined;
}

/** A picky reader has parameters without a brace (aiohttp), and no `*` that begins with a slash (Flask). */
type Matching = 'exact' | 'any_case' | 'picky';

interface Node {
  readonly statics: Map<string, Node>;
  /** The same nodes by their segments without case, for readers that ignore it. */
  readonly spellings: Map<string, Node[]>;
  parameter: Node | undefined;
  readonly here: Methods;
  readonly below: Methods;
}

const OTHER_CASE =
  'the path leads to another rule if the upstream ignores case; write it in the case of that route';

/**
 * Finds the route of a request: the one with the most specific path that takes the method. Segment by
 * segment, a fixed one has precedence over a parameter, and a parameter over `*`.
 */
export class Router {
  readonly #builtIn = newNode();
  readonly #root = newNode();
  /** The same routes, as seen by readers that confuse look-alike characters (`util/lookalikes`). */
  readonly #lenient = newNode();
  readonly #fallback: Route;
  readonly #routes: Route[] = [];
  readonly #words: Words;
  readonly #beneath: Router | null;

  /**
   * @param fallback the rules for a path that no route matches
   * @param builtIn no other route can take a path and method from these
   * @param beneath the router of a less specific host, whose routes match where none of these does
   */
  constructor(
    routes: readonly RouteDefinition[],
    fallback: Omit<RouteDefinition, 'path' | 'methods'>,
    builtIn: readonly RouteDefinition[] = [],
    beneath: Router | null = null,
  ) {
    this.#beneath = beneath;
    this.#fallback = beneath === null ? compileRoute({ ...fallback, path: '/' }, true) : beneath.#fallback;
    for (const route of withImpliedHead(builtIn)) this.#add(route, [this.#builtIn]);
    const declared = withImpliedHead(routes);
    const compiled = declared.map((route) => this.#add(route, [this.#root, this.#lenient]));
    // Inserted last, so that an exact route has precedence over one that only looks like it.
    for (const route of compiled) insert(this.#lenient, route, (segment) => asBestFit(decodeAscii(segment)));
    this.#words = new Words([this.#builtIn, ...this.#roots].flatMap(wordsOf));
  }

  /** Finds the route, or returns in a sentence why upstreams could read the path in two ways. */
  find(method: string, path: string, readings: Readings | null): Match | string {
    if (readings === null) {
      const match = { route: this.#routeOf(method, path), path };
      return this.#isOtherInAnyCase(method, path, match, false) ? OTHER_CASE : match;
    }
    const match = { route: this.#routeOf(method, readings.literal), path: readings.literal };
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
    const { literal, lenient } = readings;
    const isOther = (reading: string, isLenient: boolean, matching: Matching) => {
      const route = this.#routeOf(method, reading, isLenient, matching);
      // Routers that match before they decode decode the parameters afterwards.
      return !isEquivalent(match, { route, path: decodeAscii(reading) });
    };
    const other = lenient.find((reading) => isOther(reading, true, 'exact'));
    if (other !== undefined)
      return `the path can be read in two ways that lead to different rules${hint(literal, other)}`;
    const hasBrace = /[{}]/.test(path);
    const isOtherIfPicky = (reading: string, isLenient: boolean) =>
      (hasBrace || reading.includes('//')) && isOther(reading, isLenient, 'picky');
    if (isOtherIfPicky(literal, false) || lenient.some((reading) => isOtherIfPicky(reading, true)))
      return 'the path has an empty segment or a brace, with which some routers match another rule';
    const isOtherInAnyCase =
      this.#isOtherInAnyCase(method, literal, match, false) ||
      lenient.some((reading) => this.#isOtherInAnyCase(method, reading, match, true));
    return isOtherInAnyCase ? OTHER_CASE : match;
  }

  /** Whether a reader that ignores case (Express, ASP.NET) finds another rule than the exact one. */
  #isOtherInAnyCase(method: string, path: string, match: Match, isLenient: boolean): boolean {
    if (!this.#words.mayHaveOtherCase(path)) return false;
    // The upstream gets nothing from below the built-in endpoints, which distinguish case.
    if (find(this.#builtIn, method, path, 1) === match.route) return false;
    const route = this.#declared(method, path, isLenient, 'any_case') ?? this.#fallback;
    if (!isEquivalent(match, { route, path: decodeAscii(path) })) return true;
    return !isNamed(route, this.#fallback) && find(this.#builtIn, method, path, 1, 'any_case') !== undefined;
  }

  /** Whether a route matches a path as the router does, so that `default_route` does not apply. */
  names(method: string, path: string): boolean {
    return this.#routeOf(method, path) !== this.#fallback;
  }

  serves(method: string, path: string): boolean {
    return find(this.#builtIn, method, path, 1) !== undefined;
  }

  /** Every route except the fallback: built-in endpoints first, in the order declared. */
  get routes(): readonly Route[] {
    return this.#beneath === null ? this.#routes : [...this.#routes, ...this.#beneath.#declaredRoutes];
  }

  get #declaredRoutes(): readonly Route[] {
    return this.routes.filter(({ endpoint, position }) => endpoint === null && position !== null);
  }

  get #roots(): Node[] {
    return [this.#root, this.#lenient, ...(this.#beneath === null ? [] : this.#beneath.#roots)];
  }

  #routeOf(method: string, path: string, isLenient = false, matching: Matching = 'exact'): Route {
    return (
      find(this.#builtIn, method, path, 1) ??
      this.#declared(method, path, isLenient, matching) ??
      this.#fallback
    );
  }

  #declared(method: string, path: string, isLenient: boolean, matching: Matching): Route | undefined {
    const route = find(isLenient ? this.#lenient : this.#root, method, path, 1, matching);
    return this.#beneath === null
      ? route
      : (route ?? this.#beneath.#declared(method, path, isLenient, matching));
  }

  #add(definition: RouteDefinition, roots: readonly Node[]): Route {
    const route = compileRoute(definition, definition.path.endsWith('/*'));
    this.#routes.push(route);
    for (const root of roots) insert(root, route, decodeAscii);
    return route;
  }
}

/** @param read converts a fixed segment to the form in which it is matched */
function insert(root: Node, route: Route, read: (segment: string) => string): void {
  const segments = route.path.slice(1).split('/');
  let node = root;
  for (const segment of route.wildcard ? segments.slice(0, -1) : segments)
    node = childOf(node, segment, read);
  const methods = route.wildcard ? node.below : node.here;
  if (route.methods === null) methods.any ??= route;
  else for (const method of route.methods) if (!methods.named.has(method)) methods.named.set(method, route);
}

/** @param matching in any case, fixed segments that are spelled exactly like the path have precedence */
function find(
  node: Node,
  method: string,
  path: string,
  from: number,
  matching: Matching = 'exact',
): Route | undefined {
  if (from > path.length) return pick(node.here, method);
  const slash = path.indexOf('/', from);
  const end = slash < 0 ? path.length : slash;
  const segment = path.slice(from, end);
  const fixed = node.statics.get(segment);
  if (fixed !== undefined) {
    const route = find(fixed, method, path, end + 1, matching);
    if (route !== undefined) return route;
  }
  if (matching === 'any_case') {
    for (const other of node.spellings.get(foldCase(segment)) ?? []) {
      const route = other === fixed ? undefined : find(other, method, path, end + 1, matching);
      if (route !== undefined) return route;
    }
  }
  const isPicky = matching === 'picky';
  if (node.parameter !== undefined && segment !== '' && !(isPicky && /[{}]/.test(segment))) {
    const route = find(node.parameter, method, path, end + 1, matching);
    if (route !== undefined) return route;
  }
  return isPicky && segment === '' && slash >= 0 ? undefined : pick(node.below, method);
}

function pick(methods: Methods, method: string): Route | undefined {
  return methods.named.get(method) ?? methods.any;
}

function newNode(): Node {
  return {
    statics: new Map(),
    spellings: new Map(),
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
  if (child === undefined) {
    node.statics.set(fixed, (child = newNode()));
    const folded = foldCase(fixed);
    node.spellings.set(folded, [...(node.spellings.get(folded) ?? []), child]);
  }
  return child;
}

function wordsOf({ statics, parameter }: Node): string[] {
  const below = parameter === undefined ? [] : wordsOf(parameter);
  return [...statics].flatMap(([word, child]) => [word, ...wordsOf(child)]).concat(below);
}

/** Whether a route has a path without parameters: the path of its requests is meant for it. */
function isNamed(route: Route, fallback: Route): boolean {
  return route !== fallback && !route.wildcard && !route.path.includes('/:');
}

/** Returns a suggestion when a trailing slash or the spelling of escapes is the only difference. */
function hint(literal: string, reading: string): string {
  if (literal === `${reading}/`) return `; did you mean ${reading}, without the trailing slash?`;
  return decodeAscii(reading) === literal ? '; escape only characters that need it, in upper case' : '';
}

/** Whether some reader would take the beginning of a decoded path for `//`, and so for a host. */
function isHostLike(path: string): boolean {
  return /^\/(?:\/|;|%2F)/.test(path);
}

const SLASH = 0x2f;
const [A, Z] = [0x41, 0x5a];

/** The fixed segments of all routes, to rule out at little cost that case matters to a path. */
class Words {
  readonly #folded: ReadonlySet<string>;
  readonly #lengths: ReadonlySet<number>;
  readonly #hasCapitals: boolean;
  /** Escaped letters may be shorter in the other case. */
  readonly #hasEscapes: boolean;

  constructor(words: readonly string[]) {
    this.#folded = new Set(words.map(foldCase));
    this.#lengths = new Set(words.map(({ length }) => length));
    this.#hasCapitals = words.some((word) => word !== word.toLowerCase());
    this.#hasEscapes = words.some((word) => word.includes('%'));
  }

  /** Whether a segment may be one of these words in another case. */
  mayHaveOtherCase(path: string): boolean {
    let mayDiffer = this.#hasCapitals;
    let from = 1;
    for (let i = 1; i <= path.length; i++) {
      const code = i === path.length ? SLASH : path.charCodeAt(i);
      if (code >= A && code <= Z) mayDiffer = true;
      if (code !== SLASH) continue;
      if (mayDiffer && this.#has(path, from, i)) return true;
      mayDiffer = this.#hasCapitals;
      from = i + 1;
    }
    return false;
  }

  #has(path: string, from: number, end: number): boolean {
    if (!this.#hasEscapes && !this.#lengths.has(end - from)) return false;
    return this.#folded.has(foldCase(path.slice(from, end)));
  }
}
