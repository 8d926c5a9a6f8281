import { expectsNoBody, METHODS } from '../domain/methods.js';
import { inNormalForm, lookalikes } from '../util/lookalikes.js';
import { decodeAscii } from '../domain/path.js';
import { isEquivalent, pathKey, type Route, type RouteDefinition } from '../policy/route.js';
import type { Addressed } from '../policy/sites.js';
import { type Add, suggestion } from './fault.js';
import { compilePolicy } from './policy.js';
import type { Config } from './schema/config.js';
import { fieldName } from './schema/units.js';
import { isNotForwarded } from './header-checks.js';
import type { Source } from './source.js';

/** Characters allowed in a path segment (RFC 3986 3.3), and escapes; `;` and `%2F` never match. */
const SEGMENT = /^(?:[A-Za-z0-9._~!$&'()+,=:@-]|%(?!2[Ff])[0-9A-Fa-f]{2})+$/;

/** A parameter name that all parsers read alike: without escapes, and no array to PHP. */
const PARAMETER = /^[._~-]*[A-Za-z0-9][A-Za-z0-9._~-]*$/;

const PLACEHOLDER = '~any~';

/** Checks each route, then the routes together. Returns whether they can be compiled. */
export function checkRoutes(config: Config, { written }: Pick<Source, 'written'>, add: Add): boolean {
  let sound = true;
  const shown = config.routes.map(({ path }, i) => written[`routes.${i}.path`] ?? path);
  config.routes.forEach((route, i) => {
    for (const { key, message, hint = '' } of faultsOf(route, config)) {
      sound = false;
      // A hint shows parts of the path.
      const text = shown[i] === route.path ? message + hint : message;
      add(key === null ? ['routes', i] : ['routes', i, key], text);
    }
  });
  if (!sound || hasDuplicates(config, shown, add)) return false;
  checkReachable(config, shown, add);
  checkAmbiguous(config, shown, add);
  return true;
}

interface RouteFault {
  readonly key: keyof RouteDefinition | null;
  readonly message: string;
  readonly hint?: string;
}

type PartFault = Omit<RouteFault, 'key'>;

function faultsOf(route: RouteDefinition, config: Config): RouteFault[] {
  const faults: RouteFault[] = [];
  const add = (key: RouteFault['key'], fault: PartFault | string | undefined) => {
    if (fault !== undefined)
      faults.push({ key, ...(typeof fault === 'string' ? { message: fault } : fault) });
  };
  const segments = route.path.slice(1).split('/');
  const parameters = segments.filter((s) => s.startsWith(':')).map((s) => s.slice(1));
  add('path', segmentFault(route.path, segments) ?? parameterFault(parameters));
  if ((route.auth ?? 'required') === 'required' && route.action == null)
    add(null, 'expected an action, or auth: none or auth: deny');
  for (const key of ['action', 'service', 'refuse_if_active_tokens'] as const)
    if (route.auth === 'none' && route[key] != null)
      add(key, 'has no effect with auth: none, which lets everybody through; remove one of them');
  if (route.body_on_read === 'allow' && route.methods?.some(expectsNoBody) === false)
    add('body_on_read', 'the route has neither GET nor HEAD; remove body_on_read');
  add('strip_prefix', prefixFault(route.path, route.strip_prefix));
  for (const key of ['service', 'refuse_if_active_tokens'] as const) {
    const name = route[key];
    if (name == null || parameters.includes(name)) continue;
    if (key === 'service' && /^(?:header|query):/.test(name)) add(key, serviceFault(name, config));
    else {
      const message = 'the path has no parameter of this name';
      add(key, { message, hint: suggestion(name, parameters) || '; add it to the path' });
    }
  }
  return faults;
}

function serviceFault(source: string, config: Config): string | undefined {
  const name = source.slice(source.indexOf(':') + 1);
  if (source.startsWith('query:'))
    return PARAMETER.test(name)
      ? undefined
      : 'programs may read this name differently; use letters, digits and "-._~", like query:service_id';
  if (!fieldName.safeParse(name).success || !/[A-Za-z0-9]/.test(name))
    return 'this is not a valid header name; write header:Service-Id, for example';
  return isNotForwarded(name, config)
    ? 'this header is not forwarded unchanged; use a header of your own, like header:Service-Id'
    : undefined;
}

function segmentFault(path: string, segments: readonly string[]): PartFault | string | undefined {
  if (path === '/') return undefined;
  if (segments.some((s) => (s.includes('*') && s !== '*') || s === ':' || s.slice(1).includes(':')))
    return '":name" and "*" must be whole segments';
  if (segments.includes(''))
    return {
      message: 'no request can have this path: empty segments and a trailing "/" are never matched',
      hint: `; write /${segments.filter((s) => s !== '').join('/')}`,
    };
  if (segments.some((s) => s === '.' || s === '..'))
    return 'no request can have this path: "." and ".." segments are refused';
  const odd = segments.find((s) => s !== '*' && !s.startsWith(':') && !SEGMENT.test(s));
  if (odd !== undefined) {
    const [, name] = /^[{<$](\w+)[}>]?$/.exec(odd) ?? [];
    return {
      message: 'no request can have this path: it has a character that must be percent-encoded',
      ...(name === undefined ? {} : { hint: `; write the parameter as ":${name}", not "${odd}"` }),
    };
  }
  const literal = decodeAscii(path);
  const others = lookalikes(literal);
  if (typeof others === 'string') return `no request can have this path: ${others}`;
  const normal = inNormalForm(literal);
  if (normal === literal) return undefined;
  return { message: 'is not in Unicode normalization form KC', hint: `; write ${normal}` };
}

/** A stripped prefix must consist of fixed segments that every path of the route begins with. */
function prefixFault(path: string, prefix: string | null | undefined): string | undefined {
  const segments = path.split('/');
  const isFixed = (segment: string, i: number) =>
    segment === segments[i] && segment !== '*' && !segment.startsWith(':');
  if (prefix == null || prefix.split('/').every(isFixed)) return undefined;
  return 'expected whole fixed segments that the path of the route begins with, without a trailing "/"';
}

function parameterFault(parameters: readonly string[]): string | undefined {
  // Other routers read more from it: `:id?`, `:id(\d+)`, `:id.json`.
  if (!parameters.every((name) => /^[\w-]+$/.test(name)))
    return 'a parameter is ":" and a name of letters, digits, "_" and "-", and stands for one whole segment of any value; for an optional one, write a second route without it';
  const twice = parameters.find((name, i) => parameters.indexOf(name) !== i);
  return twice === undefined ? undefined : 'two parameters have the same name; give each its own name';
}

function hasDuplicates(config: Config, shown: readonly string[], add: Add): boolean {
  const seen = new Map<string, number>();
  let some = false;
  config.routes.forEach((route, i) => {
    for (const method of route.methods ?? ['every method']) {
      const key = `${method} ${pathKey(route)}`;
      const first = seen.get(key);
      if (first === undefined) seen.set(key, i);
      else {
        some = true;
        const path = `${shown[first]}${shown[first] === shown[i] ? '' : ', which is the same path,'}`;
        add(['routes', i, 'path'], `routes.${first} already has ${path} for ${method}; remove one of them`);
      }
    }
  });
  return some;
}

/** A route that loses every request to others is a mistake: its action would never be required. */
function checkReachable(config: Config, shown: readonly string[], add: Add): void {
  const { sites } = compilePolicy(config, {});
  config.routes.forEach((route, i) => {
    const takers = samplePaths(route.path, config).flatMap((sample) =>
      (route.methods ?? METHODS).map((method) => sites.find(sampleRequest(route, method, sample))),
    );
    if (takers.some((match) => typeof match !== 'string' && match.route.position?.path === `routes.${i}`))
      return;
    const taker = takers.find((match) => typeof match !== 'string')?.route;
    const why = taker?.position?.path.startsWith('routes.')
      ? `is never reached: ${taker.position.path} (${shown[Number(taker.position.path.split('.')[1])]}) handles its methods; remove one of them`
      : 'is a built-in endpoint; remove the route';
    add(['routes', i, 'path'], `${shown[i]} ${why}`);
  });
}

/** Paths that match one request, neither more specific, must not lead to different decisions. */
function checkAmbiguous(config: Config, shown: readonly string[], add: Add): void {
  const routes = config.routes.map((route, i) => ({ route, shape: shapeOf(route.path), i }));
  const compiled = new Map(compilePolicy(config, {}).sites.routes.map((each) => [each.position?.path, each]));
  for (const { shape, i } of routes) {
    for (const other of routes.slice(0, i)) {
      const common = crossing(shape, other.shape);
      const [a, b] = [compiled.get(`routes.${i}`), compiled.get(`routes.${other.i}`)];
      if (common === undefined || a === undefined || b === undefined || a.host !== b.host) continue;
      const path = `/${common.join('/')}`;
      if (isEquivalent({ route: a, path }, { route: b, path }) && hasSameLimits(a, b)) continue;
      const shared = (a.methods ?? METHODS).filter((method) => (b.methods ?? METHODS).includes(method));
      if (shared.every((method) => isGiven(compiled.values(), a.host, path, method))) continue;
      const hidden = [i, other.i].some((each) => shown[each] !== config.routes[each]?.path);
      const message = `${shown[i]} and ${shown[other.i]} (routes.${other.i}) both match ${hidden ? 'one path' : path} and neither is more specific; add a route for ${hidden ? 'it' : path}`;
      add(['routes', i, 'path'], message);
    }
  }
}

function hasSameLimits({ limits: a }: Route, { limits: b }: Route): boolean {
  return (
    a?.responseTimeout === b?.responseTimeout &&
    a?.idleTimeout === b?.idleTimeout &&
    a?.maxBody === b?.maxBody
  );
}

function isGiven(routes: Iterable<Route>, host: string | null, path: string, method: string): boolean {
  const wanted = pathKey({ path, host });
  return [...routes].some((route) => pathKey(route) === wanted && (route.methods?.includes(method) ?? true));
}

function shapeOf(path: string): string[] {
  return path
    .slice(1)
    .split('/')
    .map((segment) => (segment.startsWith(':') ? ':' : segment));
}

/** Returns the path that two shapes share when each is more specific somewhere. */
function crossing(a: readonly string[], b: readonly string[]): string[] | undefined {
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  if (short.length < long.length && short.at(-1) !== '*') return undefined;
  const pairs = long.map((segment, i) => [segment, short[i] ?? '*'] as const);
  if (pairs.some(([x, y]) => x !== y && rank(x) === rank(y))) return undefined;
  const isCrossing = [1, -1].every((sign) => pairs.some(([x, y]) => Math.sign(rank(x) - rank(y)) === sign));
  if (!isCrossing) return undefined;
  return pairs
    .map(([x, y]) => (rank(x) < rank(y) ? y : x))
    .map((segment) => (segment === ':' ? ':name' : segment));
}

/** How specific a segment is: `*`, a parameter, or a fixed one. */
function rank(segment: string): number {
  return segment === '*' ? 0 : segment === ':' ? 1 : 2;
}

export function sampleRequest(
  { host = PLACEHOLDER }: RouteDefinition,
  method: string,
  path: string,
): Addressed {
  return { client: { host: host.replace('*', PLACEHOLDER) }, method, path, readings: null };
}

/** Returns decoded paths that match a route, some of which other routes may match. */
export function samplePaths(path: string, { routes }: Pick<Config, 'routes'>): string[] {
  const isOpen = path.endsWith('/*');
  const fixed = isOpen ? path.slice(0, -1) : path;
  const named = decodeAscii(fixed.replace(/(?<=\/):[^/]*/g, PLACEHOLDER));
  if (!isOpen) return [named];
  const longest = Math.max(...routes.map((route) => route.path.split('/').length));
  return Array.from({ length: longest + 1 }, (_, i) => named + Array(i).fill(PLACEHOLDER).join('/'));
}
