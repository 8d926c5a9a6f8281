import { isRead, METHODS } from '../domain/methods.js';
import { allows, type PolicyTables, positionOf } from '../policy/decide.js';
import { pathKey, type Route } from '../policy/route.js';
import type { ConfigWarning } from './fault.js';
import { type LoadedConfig, type Rules, withShadow } from './load.js';
import { compilePolicy } from './policy.js';
import { samplePaths, sampleRequest } from './route-checks.js';
import { patternWarnings } from './policy-checks.js';

/** Warns of `/x/*` where `/x` has a weaker rule: Hono and Express's `app.use` serve both alike. */
export function routeWarnings({ config, lines, written }: Rules): ConfigWarning[] {
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

export function shadowWarnings(loaded: LoadedConfig): string[] {
  const { shadow } = loaded;
  const promoted = withShadow(loaded);
  if (shadow === null || promoted === null) return [];
  const { file, lines, sections } = shadow;
  const rules = { config: promoted.config, lines, written: promoted.written };
  const routes = sections.routes === undefined ? [] : routeWarnings(rules);
  return [...routes, ...patternWarnings(rules.config, lines)].map(
    ({ line, message }) => `${file}:${line}: warning: ${message}`,
  );
}
