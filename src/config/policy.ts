import { Policy } from '../policy/decide.js';
import { endpointRoutes } from '../policy/own-endpoints.js';
import { Router } from '../policy/routes.js';
import { type Lines, placeOf } from '../policy/rules.js';
import { endpointSettings } from './derived.js';
import type { Config } from './schema/config.js';

/** What decides about requests, compiled from a configuration. */
export interface CompiledPolicy {
  readonly router: Router;
  readonly policy: Policy;
}

/** Compiles the routes (own endpoints included) and the tables of a configuration, each with its line in the file. */
export function compilePolicy(config: Config, lines: Lines): CompiledPolicy {
  const routes = config.routes.map((route, i) => ({ ...route, place: placeOf(['routes', i], lines) }));
  const fallback = { ...config.default_route, place: placeOf(['default_route'], lines) };
  return {
    router: new Router(routes, fallback, endpointRoutes(endpointSettings(config))),
    policy: new Policy(config.policy, lines),
  };
}
