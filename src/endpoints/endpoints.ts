import type { EndpointRule, RouteDefinition } from '../policy/routes.js';
import type { Handler } from './call.js';
import type { TokenEndpoints } from './tokens.js';

/** Handlers that the table names. */
export interface Handlers {
  readonly login: Handler;
  readonly logout: Handler;
  readonly tokens: TokenEndpoints;
}

/** One own endpoint: where it is, what it takes, what it is in the policy, and what answers it. */
interface Endpoint {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly takes: EndpointRule['takes'];
  readonly action: string | null;
  readonly handler: (handlers: Handlers) => Handler;
}

/** `manage`: what the list and delete endpoints take (`interface.token_endpoints`). */
function table(manage: 'session' | 'session_or_token'): Endpoint[] {
  return [
    {
      name: 'login',
      method: 'POST',
      path: '/login',
      takes: 'nothing',
      action: null,
      handler: (h) => h.login,
    },
    {
      name: 'logout',
      method: 'POST',
      path: '/logout',
      takes: 'session',
      action: null,
      handler: (h) => h.logout,
    },
    {
      name: 'create_token',
      method: 'POST',
      path: '/tokens',
      takes: 'nothing',
      action: null,
      handler: (h) => h.tokens.create,
    },
    {
      name: 'list_tokens',
      method: 'GET',
      path: '/tokens',
      takes: manage,
      action: 'token:read',
      handler: (h) => h.tokens.listOwn,
    },
    {
      name: 'list_customer_tokens',
      method: 'GET',
      path: '/customer/:id/tokens',
      takes: manage,
      action: 'customer_token:read',
      handler: (h) => h.tokens.listCustomer,
    },
    {
      name: 'revoke_tokens',
      method: 'DELETE',
      path: '/tokens',
      takes: manage,
      action: 'token:write',
      handler: (h) => h.tokens.revokeBulk,
    },
    {
      name: 'show_own_token',
      method: 'GET',
      path: '/tokens/self',
      takes: 'token',
      action: null,
      handler: (h) => h.tokens.showSelf,
    },
    {
      name: 'revoke_own_token',
      method: 'DELETE',
      path: '/tokens/self',
      takes: 'token',
      action: null,
      handler: (h) => h.tokens.revokeSelf,
    },
    {
      name: 'show_token',
      method: 'GET',
      path: '/tokens/:id',
      takes: manage,
      action: 'token:read',
      handler: (h) => h.tokens.show,
    },
    {
      name: 'revoke_token',
      method: 'DELETE',
      path: '/tokens/:id',
      takes: manage,
      action: 'token:write',
      handler: (h) => h.tokens.revoke,
    },
  ];
}

/** Routes of the own endpoints. Their paths belong to Latchkey: other methods on them are not there. */
export function endpointRoutes(manage: 'session' | 'session_or_token'): RouteDefinition[] {
  const routes: RouteDefinition[] = [];
  const owned = new Set(['/tokens/*']);
  for (const { name, method, path, takes, action } of table(manage)) {
    owned.add(path);
    routes.push({
      path,
      methods: method === 'GET' ? ['GET', 'HEAD'] : [method],
      action,
      endpoint: { name, takes },
    });
  }
  return [...routes, ...[...owned].map((path): RouteDefinition => ({ path, auth: 'deny' }))];
}

/** The handler of each endpoint by its name. */
export function endpointHandlers(handlers: Handlers): ReadonlyMap<string, Handler> {
  return new Map(table('session').map((endpoint) => [endpoint.name, endpoint.handler(handlers)]));
}
