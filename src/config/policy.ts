import type { EndpointSettings } from '../endpoints/endpoint.js';
import { builtInRoutes } from '../endpoints/endpoints.js';
import { Policy } from '../policy/decide.js';
import { Router } from '../policy/routes.js';
import { type Lines, positionOf } from '../policy/rules.js';
import { type PageSite, Sites } from '../policy/sites.js';
import { endpointSettings } from './derived.js';
import type { Config } from './schema/config.js';

/** What decides about requests, compiled from a configuration. */
export interface CompiledPolicy {
  /** The routes of every host that is not the page's own. */
  readonly router: Router;
  readonly sites: Sites;
  readonly policy: Policy;
}

/** Compiles the routes (of built-in endpoints too) and the tables of a configuration, each with its line in the file. */
export function compilePolicy(config: Config, lines: Lines): CompiledPolicy {
  const routes = config.routes.map((route, i) => ({ ...route, place: positionOf(['routes', i], lines) }));
  const fallback = { ...config.default_route, place: positionOf(['default_route'], lines) };
  const endpoints = endpointSettings(config);
  const { ui } = config.interface;
  const router = new Router(routes, fallback, builtInRoutes(endpoints));
  return {
    router,
    sites: new Sites(router, pageSite(config, endpoints), ui.enabled ? ui.path : null),
    policy: new Policy(config.policy, lines),
  };
}

/** The web page and what it needs, where it has a host of its own. */
function pageSite({ interface: { ui } }: Config, endpoints: EndpointSettings): PageSite | null {
  if (!ui.enabled || ui.host === null) return null;
  const builtIn = builtInRoutes({ ...endpoints, page: ui.path });
  return { host: ui.host.toLowerCase(), router: new Router([], { auth: 'deny' }, builtIn) };
}
