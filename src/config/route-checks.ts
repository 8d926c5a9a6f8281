import { METHODS } from '../domain/methods.js';
import type { RouteDefinition } from '../policy/route.js';
import type { Add } from './cross-checks.js';
import { suggestion } from './nearest.js';
import { compilePolicy } from './policy.js';
import type { Config } from './schema/config.js';
import type { Path } from './positions.js';

/** Characters that a path segment may have as they are (RFC 3986 3.3), and escapes. `;` and `%2F` never match. */
const SEGMENT = /^(?:[A-Za-z0-9._~!$&'()+,=:@-]|%(?!2[Ff])[0-9A-Fa-f]{2})+$/;

/** Checks the routes, each for itself and then together. Returns whether they can be compiled. */
export function checkRoutes(config: Config, add: Add): boolean {
  let sound = true;
  config.routes.forEach((route, i) => {
    for (const [key, message] of faultsOf(route)) {
      sound = false;
      add(key === null ? ['routes', i] : ['routes', i, key], `routes.${i}${key === null ? '' : `.${key}`}: ${message}`);
    } // prettier-ignore
  });
  if (!sound || hasDuplicates(config, add)) return false;
  checkReachable(config, add);
  checkAmbiguous(config, add);
  return true;
}

type Key = 'path' | 'service' | 'refuse_if_active_tokens' | 'strip_prefix' | null;

function faultsOf(route: RouteDefinition): [Key, string][] {
  const faults: [Key, string][] = [];
  const segments = route.path.slice(1).split('/');
  const parameters = segments.filter((s) => s.startsWith(':')).map((s) => s.slice(1));
  const fault = segmentFault(route.path, segments) ?? parameterFault(parameters);
  if (fault !== undefined) faults.push(['path', fault]);
  if ((route.auth ?? 'required') === 'required' && route.action == null) {
    faults.push([null, 'expected an action, or auth: none or auth: deny']);
  }
  const unstrippable = prefixFault(route.path, route.strip_prefix);
  if (unstrippable !== undefined) faults.push(['strip_prefix', unstrippable]);
  for (const key of ['service', 'refuse_if_active_tokens'] as const) {
    const name = route[key];
    if (name == null || parameters.includes(name)) continue;
    if (key === 'service' && /^(header|query):./.test(name)) continue;
    const mend = suggestion(name, parameters) || `; write it into ${route.path}`;
    faults.push([key, `the path has no parameter ":${name}"${mend}`]);
  }
  return faults;
}

function segmentFault(path: string, segments: readonly string[]): string | undefined {
  if (path === '/') return undefined;
  const bad = segments.find((s) => (s.includes('*') && s !== '*') || s === ':' || s.slice(1).includes(':'));
  if (bad !== undefined) return `":name" and "*" must be whole segments, found "${bad}"`;
  if (segments.includes('')) {
    const mended = `/${segments.filter((s) => s !== '').join('/')}`;
    return `no request has this path: empty segments and a trailing "/" are never matched; write ${mended}`;
  }
  if (segments.some((s) => s === '.' || s === '..'))
    return 'no request has this path: "." and ".." segments are refused';
  const odd = segments.find((s) => s !== '*' && !s.startsWith(':') && !SEGMENT.test(s));
  if (odd === undefined) return undefined;
  return `no request has this path: "${odd}" has a character that must be percent-encoded`;
}

/** What is taken off must be fixed segments that each request of the route begins with. */
function prefixFault(path: string, prefix: string | null | undefined): string | undefined {
  if (prefix == null) return undefined;
  if (prefix.endsWith('/')) return `write it without "/" at its end: ${prefix.replace(/\/+$/, '') || '/api'}`;
  const segments = path.split('/');
  const wanted = prefix.split('/');
  if (wanted.some((segment) => segment.startsWith(':') || segment === '*'))
    return 'only fixed segments can be stripped, no ":name" and no "*"';
  if (wanted.every((segment, i) => segment === segments[i])) return undefined;
  return `is no beginning of the path ${path}`;
}

function parameterFault(parameters: readonly string[]): string | undefined {
  const twice = parameters.find((name, i) => parameters.indexOf(name) !== i);
  return twice === undefined ? undefined : `the parameter ":${twice}" is given twice; give each its own name`;
}

function hasDuplicates(config: Config, add: Add): boolean {
  const seen = new Map<string, number>();
  let some = false;
  config.routes.forEach((route, i) => {
    for (const method of route.methods ?? ['every method']) {
      const key = `${method} ${shapeOf(route.path).join('/')}`;
      const first = seen.get(key);
      if (first === undefined) seen.set(key, i);
      else {
        some = true;
        const at: Path = ['routes', i, 'path'];
        add(at, `routes.${i}.path: ${route.path} is given for ${method} in routes.${first} already`);
      }
    }
  });
  return some;
}

/** A route that loses each of its methods to another one is a mistake: its action would never be asked for. */
function checkReachable(config: Config, add: Add): void {
  const { router } = compilePolicy(config, {});
  config.routes.forEach((route, i) => {
    const sample = sampleOf(route.path);
    const takers = (route.methods ?? METHODS).map((method) => router.find(method, sample, true));
    if (takers.some((match) => typeof match !== 'string' && match.route.place?.path === `routes.${i}`))
      return;
    const taker = takers.find((match) => typeof match !== 'string')?.route;
    const why = taker?.place?.path.startsWith('routes.')
      ? `is never reached: ${taker.place.path} (${taker.path}) takes its methods; remove one of them`
      : "is an endpoint of Latchkey's own; remove the route";
    add(['routes', i, 'path'], `routes.${i}.path: ${route.path} ${why}`);
  });
}

/** Two paths that fit one request, of which neither is the more specific one, must not mean two things. */
function checkAmbiguous(config: Config, add: Add): void {
  const { routes } = config;
  const shapes = routes.map((route) => shapeOf(route.path));
  routes.forEach((route, i) => {
    for (let j = 0; j < i; j++) {
      const other = routes[j] as RouteDefinition;
      const common = crossing(shapes[i] as string[], shapes[j] as string[]);
      if (common === undefined || meansTheSame(route, other)) continue;
      const shared = (route.methods ?? METHODS).filter((m) => (other.methods ?? METHODS).includes(m));
      const open = shared.filter((method) => !isGiven(config, shapes, common, method));
      if (open.length === 0) continue;
      const path = `/${common.join('/')}`;
      add(
        ['routes', i, 'path'],
        `routes.${i}.path: ${route.path} and ${other.path} (routes.${j}) both fit ${path} and neither is more specific; add a route for ${path}`,
      );
    }
  });
}

/** A path as its segments, with all parameters alike: parameters of other names are the same path. */
function shapeOf(path: string): string[] {
  return path
    .slice(1)
    .split('/')
    .map((segment) => (segment.startsWith(':') ? ':' : segment));
}

/** The path that two shapes have in common when each is more specific somewhere; undefined when one holds the other. */
function crossing(a: readonly string[], b: readonly string[]): string[] | undefined {
  const common: string[] = [];
  let [aNarrower, bNarrower] = [false, false];
  for (let i = 0; ; i++) {
    const [x, y] = [a[i], b[i]];
    if (x === '*' || y === '*') {
      if (x !== '*') aNarrower = true;
      if (y !== '*') bNarrower = true;
      // What is left of the one without "*" has to be there: at least one segment.
      const rest = (x === '*' ? b : a).slice(i);
      if (rest.length === 0) return undefined;
      common.push(...rest);
      break;
    }
    if (x === undefined && y === undefined) break;
    if (x === undefined || y === undefined) return undefined;
    if (x !== ':' && y !== ':' && x !== y) return undefined;
    if (x !== ':' && y === ':') aNarrower = true;
    if (y !== ':' && x === ':') bNarrower = true;
    common.push(x === ':' ? y : x);
  }
  return aNarrower && bNarrower ? common.map((s) => (s === ':' ? ':name' : s)) : undefined;
}

function isGiven(config: Config, shapes: readonly string[][], common: readonly string[], method: string) {
  const wanted = shapeOf(`/${common.join('/')}`).join('/');
  return config.routes.some(
    ({ methods }, i) =>
      shapes[i]?.join('/') === wanted && (methods === undefined || methods.includes(method as never)),
  );
}

function meansTheSame(a: RouteDefinition, b: RouteDefinition): boolean {
  return (
    a.action === b.action &&
    a.auth === b.auth &&
    a.upstream === b.upstream &&
    a.strip_prefix === b.strip_prefix &&
    a.service == null &&
    b.service == null &&
    a.refuse_if_active_tokens == null &&
    b.refuse_if_active_tokens == null
  );
}

/** A path that the route's pattern fits; the words are unlikely to be another route's fixed segments. */
function sampleOf(path: string): string {
  const segments = path
    .slice(1)
    .split('/')
    .map((s) => (s === '*' || s.startsWith(':') ? '~any~' : s));
  return `/${segments.join('/')}`;
}
