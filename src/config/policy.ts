import type { EndpointSettings } from '../endpoints/endpoint.js';
import { builtInRoutes } from '../endpoints/endpoints.js';
import { type Lines, Policy, positionOf } from '../policy/decide.js';
import type { RouteDefinition } from '../policy/route.js';
import { Router } from '../policy/routes.js';
import { type Site, Sites } from '../policy/sites.js';
import { endpointSettings, namedHosts } from './derived.js';
import type { Config } from './schema/config.js';

export function compilePolicy(config: Config, lines: Lines) {
  const { on_unauthenticated: byDefault } = config;
  const { cors = config.cors, on_unauthenticated = byDefault } = config.default_route;
  // Named in every route, because two routes with the same upstream may be the same rule.
  const upstream = config.default_route.upstream ?? Object.keys(config.upstreams)[0] ?? '';
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
  const { ui, hosts } = config.interface;
  const builtIn = builtInOf(config, endpoints);
  // A probe names no host, or an address.
  const everywhere = builtIn.filter(({ endpoint }) => endpoint?.name === 'show_readiness');
  const others = new Router(routesOf(routes, null), fallback, hosts === null ? builtIn : everywhere);
  const named = new Map<string, Router>();
  for (const host of namedHosts(config)) {
    const isServed = hosts === null || hosts.some((each) => each.toLowerCase() === host);
    const beneath = [...named].findLast(([other]) => isBelow(host, other))?.[1] ?? others;
    named.set(host, new Router(routesOf(routes, host), fallback, isServed ? builtIn : everywhere, beneath));
  }
  const sites = [...named].map(([host, router]) => ({ host, router }));
  const { public_url: publicUrl } = config.login;
  const ownOrigins = publicUrl === null ? [] : [publicUrl];
  ownOrigins.push(...config.listen.public_origins);
  const pagePath = ui.enabled ? ui.path : null;
  return {
    sites: new Sites(others, pageSite(config, endpoints), pagePath, sites, ownOrigins),
    policy: new Policy(config.policy, lines),
  };
}

function routesOf(routes: readonly RouteDefinition[], host: string | null): RouteDefinition[] {
  return routes.filter((route) => (route.host?.toLowerCase() ?? null) === host);
}

/** Whether every host of a name or pattern is below the name in another pattern. */
function isBelow(host: string, pattern: string): boolean {
  return pattern.startsWith('*') && host.endsWith(pattern.slice(1)) && host !== pattern;
}

function pageSite(config: Config, endpoints: EndpointSettings): Site | null {
  const { cors, interface: { ui } } = config; // prettier-ignore
  if (!ui.enabled || ui.host === null) return null;
  const builtIn = builtInOf(config, { ...endpoints, page: ui.path });
  return { host: ui.host.toLowerCase(), router: new Router([], { auth: 'deny', cors }, builtIn) };
}

function builtInOf({ cors }: Config, endpoints: EndpointSettings): RouteDefinition[] {
  return builtInRoutes(endpoints).map((route) => ({ ...route, cors }));
}
