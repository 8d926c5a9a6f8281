import { segmentAt } from '../domain/path.js';
import type { EndpointRule, TokenEndpointsTake } from './endpoint-rule.js';
import type { RouteDefinition } from './route.js';

interface Row extends EndpointRule {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly action: string | null;
}

/** What the table of own endpoints depends on. */
export interface EndpointSettings {
  readonly tokenEndpoints: TokenEndpointsTake;
  /** Where the web page is; null when it is off. */
  readonly page: string | null;
  /** Whether assertions are signed, which somebody has to be able to verify. */
  readonly assertion: boolean;
  /** Whether who asks can be asked for, and a password be confirmed (`interface.account_endpoints`). */
  readonly account: boolean;
}

const OPEN = { takes: 'nothing', id: null, othersAction: null, action: null } as const;
const SESSION = { takes: 'session', id: null, othersAction: null, action: null } as const;

function table(manage: TokenEndpointsTake): Row[] {
  const self = { takes: 'token', id: null, othersAction: null, action: null } as const;
  const own = { takes: manage, id: null, othersAction: null } as const;
  const byId = { takes: manage, id: 'token' } as const;
  const [read, write] = ['customer_token:read', 'customer_token:write'];
  return [
    { ...OPEN, name: 'login', method: 'POST', path: '/login', success: null },
    { ...SESSION, name: 'logout', method: 'POST', path: '/logout', success: 204 },
    { ...OPEN, name: 'create_token', method: 'POST', path: '/tokens', success: null },
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

/** Where the keys that verify assertions are. Other paths below `/.well-known` belong to the upstream. */
export const SIGNING_KEYS_PATH = '/.well-known/jwks.json';

/** Where the description of the interface is, wherever the page may be. */
export const INTERFACE_PATH = '/_latchkey/openapi.json';

const INTERFACE: Row = { ...OPEN, name: 'show_interface', method: 'GET', path: INTERFACE_PATH, success: 200 };

const SIGNING_KEYS: Row = {
  ...OPEN,
  name: 'show_signing_keys',
  method: 'GET',
  path: SIGNING_KEYS_PATH,
  success: 200,
};

const ANYONE = { takes: 'session_or_token', id: null, othersAction: null, action: 'account:read' } as const;

/** Who asks, and `sudo`. Paths below these belong to the upstream. */
const ACCOUNT: readonly Row[] = [
  { ...ANYONE, name: 'show_current_user', method: 'GET', path: '/current_user', success: 200 },
  { ...ANYONE, name: 'show_current_customer', method: 'GET', path: '/current_customer', success: 200 },
  { ...ANYONE, name: 'verify', method: 'GET', path: '/verify', success: 200 },
  { ...OPEN, name: 'sudo', takes: 'optional', method: 'POST', path: '/sudo', success: null },
];

/** The web page and what it needs beyond the token endpoints. The specification has none of these paths. */
function pageTable(page: string): Row[] {
  return [
    { ...SESSION, name: 'list_sessions', method: 'GET', path: `${page}sessions`, success: 200 },
    { ...SESSION, name: 'end_other_sessions', method: 'DELETE', path: `${page}sessions`, success: 204 },
    { ...SESSION, name: 'end_session', method: 'DELETE', path: `${page}sessions/:id`, success: 204 },
    { ...OPEN, name: 'show_page', method: 'GET', path: page, success: 200 },
    // Without the slash at its end it is sent there.
    { ...OPEN, name: 'show_page', method: 'GET', path: page.slice(0, -1), success: null },
    { ...OPEN, name: 'show_page_asset', method: 'GET', path: `${page}assets/:name`, success: null },
    { ...SESSION, name: 'describe_caller', method: 'GET', path: `${page}session`, success: 200 },
    {
      ...SESSION, name: 'list_people', method: 'GET', path: `${page}people`, action: 'customer_token:read',
      success: 200,
    },
  ]; // prettier-ignore
}

/** Routes of the own endpoints. Their paths belong to Latchkey: other methods on them are not there. */
export function endpointRoutes({
  tokenEndpoints,
  page,
  assertion,
  account,
}: EndpointSettings): RouteDefinition[] {
  const rows = [
    ...table(tokenEndpoints),
    INTERFACE,
    ...(page === null ? [] : pageTable(page)),
    ...(assertion ? [SIGNING_KEYS] : []),
    ...(account ? ACCOUNT : []),
  ];
  const owned = new Set(['/tokens/*', ...(page === null ? [] : [`${page}*`])]);
  const routes = rows.map(({ method, path, action, ...endpoint }): RouteDefinition => {
    owned.add(path);
    return { path, methods: [method], action, endpoint, place: { path: endpoint.name, line: null } };
  });
  return [...routes, ...[...owned].map((path): RouteDefinition => ({ path, auth: 'deny' }))];
}

/** Whether a path begins like one of the other own endpoints. */
export function startsLikeOwnPath(path: string): boolean {
  const first = segmentAt(path, 0);
  const rows = [...table('session'), ...ACCOUNT];
  return path.startsWith(`${INTERFACE_PATH}/`) || rows.some((row) => segmentAt(row.path, 0) === first);
}
