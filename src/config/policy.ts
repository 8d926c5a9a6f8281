import type { EndpointSettings } from '../endpoints/endpoint.js';
import { builtInRoutes } from '../endpoints/endpoints.js';
import { Policy } from '../policy/decide.js';
import type { RouteDefinition } from '../policy/route.js';
import { Router } from '../policy/routes.js';
import { type Lines, positionOf } from '../policy/rules.js';
import { type PageSite, Sites } from '../policy/sites.js';
import { defaultUpstream, endpointSettings } from './derived.js';
import type { Config } from './schema/config.js';

/** The parts of a configuration that decide requests, compiled. */
export interface CompiledPolicy {
  /** The routes of every host except one of the web page's own. */
  readonly router: Router;
  readonly sites: Sites;
  readonly policy: Policy;
}

/**
 * Compiles the routes, including those of built-in endpoints, and the policy tables, each with its
 * line in the file.
 */
export function compilePolicy(config: Config, lines: Lines): CompiledPolicy {
  const { on_unauthenticated: byDefault } = config;
  const { cors = config.cors, on_unauthenticated = byDefault } = config.default_route;
  // Named in every route, because two routes with the same upstream may be the same rule.
  const upstream = defaultUpstream(config);
  const routes = config.routes.map((route, i) => ({
    ...route,
    upstream: route.upstream ?? upstream,
    cors: route.cors ?? config.cors,
    on_unauthenticated: route.on_unauthenticated ?? byDefault,
    position: positionOf(['routes', i], lines),
  }));
  const fallback = {
    ...config.default_route,
    upstream,
    cors,
    on_unauthenticated,
    position: positionOf(['default_route'], lines),
  };
  const endpoints = endpointSettings(config);
  const { ui } = config.interface;
  const router = new Router(routes, fallback, builtInOf(config, endpoints));
  return {
    router,
    sites: new Sites(router, pageSite(config, endpoints), ui.enabled ? ui.path : null),
    policy: new Policy(config.policy, lines),
  };
}

/** Returns the web page and the endpoints that it needs, if it has a host of its own. */
function pageSite(config: Config, endpoints: EndpointSettings): PageSite | null {
  const { cors, interface: { ui } } = config; // prettier-ignore
  if (!ui.enabled || ui.host === null) return null;
  const builtIn = builtInOf(config, { ...endpoints, page: ui.path });
  return { host: ui.host.toLowerCase(), router: new Router([], { auth: 'deny', cors }, builtIn) };
}

function builtInOf({ cors }: Config, endpoints: EndpointSettings): RouteDefinition[] {
  return builtInRoutes(endpoints).map((route) => ({ ...route, cors }));
}
