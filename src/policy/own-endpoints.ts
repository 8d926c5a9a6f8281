import type { RouteDefinition } from './route.js';

/** Which credentials the list and delete endpoints take (`interface.token_endpoints`). */
export type TokenEndpointsTake = 'session' | 'session_or_token';

/** One of Latchkey's own endpoints as the policy sees it. */
export interface EndpointRule {
  readonly name: EndpointName;
  /** The credential it takes; `nothing` when the endpoint checks its own (a password in the body). */
  readonly takes: 'nothing' | 'token' | TokenEndpointsTake;
  /** What the path's `:id` names, and so what has to belong to the caller; null when it has none. */
  readonly id: 'customer' | 'token' | null;
  /** The action that somebody else's record asks for, besides the endpoint's own. */
  readonly othersAction: string | null;
  /** Status of a success; null when the body decides it. */
  readonly success: 200 | 204 | null;
}

interface Row extends EndpointRule {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly action: string | null;
}

/** Name of an own endpoint; `endpoints/` has a handler for each. */
export type EndpointName =
  | 'login'
  | 'logout'
  | 'create_token'
  | 'list_tokens'
  | 'list_customer_tokens'
  | 'revoke_tokens'
  | 'show_own_token'
  | 'revoke_own_token'
  | 'show_token'
  | 'revoke_token';

function table(manage: TokenEndpointsTake): Row[] {
  const open = { takes: 'nothing', id: null, othersAction: null, action: null } as const;
  const self = { takes: 'token', id: null, othersAction: null, action: null } as const;
  const own = { takes: manage, id: null, othersAction: null } as const;
  const byId = { takes: manage, id: 'token' } as const;
  const [read, write] = ['customer_token:read', 'customer_token:write'];
  return [
    { ...open, name: 'login', method: 'POST', path: '/login', success: null },
    { ...own, takes: 'session', name: 'logout', method: 'POST', path: '/logout', action: null, success: 204 },
    { ...open, name: 'create_token', method: 'POST', path: '/tokens', success: null },
    { ...own, name: 'list_tokens', method: 'GET', path: '/tokens', action: 'token:read', success: 200 },
    {
      name: 'list_customer_tokens', method: 'GET', path: '/customer/:id/tokens', takes: manage, id: 'customer',
      action: read, othersAction: read, success: 200,
    },
    { ...own, name: 'revoke_tokens', method: 'DELETE', path: '/tokens', action: 'token:write', success: null },
    { ...self, name: 'show_own_token', method: 'GET', path: '/tokens/self', success: 200 },
    { ...self, name: 'revoke_own_token', method: 'DELETE', path: '/tokens/self', success: 204 },
    {
      ...byId, name: 'show_token', method: 'GET', path: '/tokens/:id', action: 'token:read', othersAction: read,
      success: 200,
    },
    {
      ...byId, name: 'revoke_token', method: 'DELETE', path: '/tokens/:id', action: 'token:write', othersAction: write,
      success: 204,
    },
  ]; // prettier-ignore
}

/** Routes of the own endpoints. Their paths belong to Latchkey: other methods on them are not there. */
export function endpointRoutes(manage: TokenEndpointsTake): RouteDefinition[] {
  const owned = new Set(['/tokens/*']);
  const routes = table(manage).map(({ method, path, action, ...endpoint }): RouteDefinition => {
    owned.add(path);
    const methods = method === 'GET' ? ['GET', 'HEAD'] : [method];
    return { path, methods, action, endpoint, place: { path: endpoint.name, line: null } };
  });
  return [...routes, ...[...owned].map((path): RouteDefinition => ({ path, auth: 'deny' }))];
}
