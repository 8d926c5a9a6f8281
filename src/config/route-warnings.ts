import { isRead, METHODS } from '../domain/methods.js';
import { allows, type PolicyTables, positionOf } from '../policy/decide.js';
import { isEquivalent, pathKey, type Route, type RouteDefinition } from '../policy/route.js';
import type { Sites } from '../policy/sites.js';
import type { ConfigWarning } from './fault.js';
import { type LoadedConfig, withShadow } from './load.js';
import { compilePolicy } from './policy.js';
import { samplePaths, sampleRequest } from './route-checks.js';
import { patternWarnings } from './policy-checks.js';

export function routeWarnings(loaded: Pick<LoadedConfig, 'config' | 'lines' | 'written'>): ConfigWarning[] {
  return [...headWarnings(loaded), ...openWarnings(loaded), ...baseWarnings(loaded)];
}

const CHECKED_KEYS = ['action', 'service', 'refuse_if_active_tokens'] as const;

function openWarnings({ config, lines }: Pick<LoadedConfig, 'config' | 'lines'>): ConfigWarning[] {
  return config.routes.flatMap((route, i) => {
    if (route.auth !== 'none') return [];
    return CHECKED_KEYS.filter((key) => route[key] != null).map((key) => ({
      line: lines[`routes.${i}.${key}`] ?? lines[`routes.${i}`] ?? null,
      message: `routes.${i}.${key} has no effect with auth: none, which lets everybody through; remove one of them`,
    }));
  });
}

/** Warns of routes that take HEAD only because of GET, where another rule would decide otherwise. */
function headWarnings({ config, lines }: Pick<LoadedConfig, 'config' | 'lines'>): ConfigWarning[] {
  const { sites } = compilePolicy(config, lines);
  const { sites: without } = compilePolicy({ ...config, routes: config.routes.map(withoutGet) }, lines);
  return config.routes.flatMap((route, i): ConfigWarning[] => {
    if (!impliesHead(route)) return [];
    const { path, line } = positionOf(['routes', i], lines);
    const others = samplePaths(route.path, config).flatMap((sample) => {
      const [match, other] = [headOf(sites, route, sample), headOf(without, route, sample)];
      if (match === null || other === null || match.route.position?.path !== path) return [];
      return isEquivalent(match, other) ? [] : [other];
    });
    const [other] = others;
    if (other === undefined) return [];
    const message =
      `${path} also handles HEAD, which ${other.route.position?.path} would decide differently; ` +
      'write methods: [GET, HEAD] if that is intended, or give HEAD its own route';
    return [{ line, message }];
  });
}

function impliesHead({ methods }: RouteDefinition): boolean {
  return methods?.includes('GET') === true && !methods.includes('HEAD');
}

function withoutGet<T extends RouteDefinition>(route: T): T {
  return impliesHead(route)
    ? { ...route, methods: route.methods?.filter((method) => method !== 'GET') }
    : route;
}

/** Warns of `/x/*` where `/x` has a weaker rule: Hono and Express's `app.use` serve both alike. */
function baseWarnings({ config, lines, written }: Parameters<typeof routeWarnings>[0]): ConfigWarning[] {
  const { sites } = compilePolicy(config, lines);
  return config.routes.flatMap((route, i): ConfigWarning[] => {
    const { path, line } = positionOf(['routes', i], lines);
    if (line === null || !route.path.endsWith('/*') || route.path === '/*') return [];
    const base = route.path.slice(0, -2);
    const [baseSample = '', below = ''] = [...samplePaths(base, config), samplePaths(route.path, config)[1]];
    for (const method of route.methods ?? METHODS) {
      const find = (sample: string) => sites.find(sampleRequest(route, method, sample));
      const [own, other] = [find(below), find(baseSample)];
      if (typeof own === 'string' || typeof other === 'string' || own.route.position?.path !== path) continue;
      if (pathKey(other.route) === pathKey({ ...route, path: base })) continue;
      if (!isWeaker(other.route, own.route, method, config.policy)) continue;
      const shown = (written[`routes.${i}.path`] ?? route.path).replace(/\/\*$/, '');
      const message =
        `${path} does not match ${shown} itself, for which ${other.route.position?.path} requires less with ${method}, ` +
        `and many upstreams serve both with one handler; add a route for ${shown} too`;
      return [{ line, message }];
    }
    return [];
  });
}

/** Whether some caller passes the rule of a route but not that of another one. */
function isWeaker(route: Route, than: Route, method: string, { roles, scopes }: PolicyTables): boolean {
  // The upstream gets no request for a built-in endpoint.
  if (route.endpoint !== null || than.auth === 'none') return false;
  if (route.auth !== than.auth) return route.auth === 'none' || than.auth === 'deny';
  if (route.auth === 'deny') return false;
  if (than.service !== null && route.service === null) return true;
  const actionOf = ({ readAction, writeAction }: Route) => (isRead(method) ? readAction : writeAction) ?? '';
  const [action, wanted] = [actionOf(route), actionOf(than)];
  return [...Object.values(roles), ...Object.values(scopes)].some(
    (rules) => allows(rules, action) && !allows(rules, wanted),
  );
}

function headOf(sites: Sites, route: RouteDefinition, path: string) {
  const match = sites.find(sampleRequest(route, 'HEAD', path));
  return typeof match === 'string' ? null : match;
}

export function shadowWarnings(loaded: LoadedConfig): string[] {
  const { shadow } = loaded;
  const promoted = withShadow(loaded);
  if (shadow === null || promoted === null) return [];
  const { file, lines, sections } = shadow;
  const rules = { config: promoted.config, lines, written: promoted.written };
  const routes = sections.routes === undefined ? [] : routeWarnings(rules);
  return [...routes, ...patternWarnings(rules.config, rules)].map(
    ({ line, message }) => `${file}:${line}: warning: ${message}`,
  );
}
