import type { z } from 'zod';
import type { routeSchema } from '../config/schema/policy.js';
import { type Cors, corsOf } from '../domain/cors.js';
import { decodeAscii, segmentAt } from '../domain/path.js';
import type { ConfigPosition } from './decide.js';

type ConfiguredRoute = z.output<typeof routeSchema>;

/** A route as the configuration or an endpoint declares it. */
export interface RouteDefinition extends Readonly<Partial<Omit<ConfiguredRoute, Declared>>> {
  readonly path: string;
  readonly methods?: readonly string[] | undefined;
  readonly action?: string | null | undefined;
  readonly service?: string | null | undefined;
  readonly cors?: ConfiguredRoute['cors'] | null;
  readonly endpoint?: EndpointRule | undefined;
  readonly position?: ConfigPosition | undefined;
}

type Declared = 'path' | 'methods' | 'action' | 'service' | 'cors';

type ServiceSource =
  | { readonly from: 'path'; readonly segment: number }
  | { readonly from: 'header' | 'query'; readonly name: string };

/** Limits of forwarded requests that a route sets itself. */
export interface RouteLimits {
  readonly owner: string;
  /** Milliseconds; undefined: those of the upstream. */
  readonly responseTimeout: number | undefined;
  readonly idleTimeout: number | undefined;
  readonly maxBody: number | undefined;
}

export interface Route {
  readonly host: string | null;
  readonly path: string;
  /** What log, metrics and `explain` call it: its path, after its host if it has one. */
  readonly name: string;
  readonly methods: readonly string[] | null;
  readonly readAction: string | null;
  readonly writeAction: string | null;
  readonly service: ServiceSource | null;
  readonly auth: 'required' | 'none' | 'deny';
  readonly refuseIfActiveTokens: number | null;
  readonly upstream: string | null;
  /** Number of leading path segments that are stripped before forwarding. */
  readonly strippedSegments: number;
  readonly strippedPrefix: string;
  readonly limits: RouteLimits | null;
  readonly allowsBodyOnRead: boolean;
  readonly allowsServiceWorker: boolean;
  readonly cors: Cors | null;
  /** Where browsers without a session are redirected, below the web page's path; null: nowhere. */
  readonly loginPath: string | null;
  readonly endpoint: EndpointRule | null;
  /** Whether the path ends in `*`, so that the remaining segments are data. */
  readonly wildcard: boolean;
  readonly position: ConfigPosition | null;
}

/** Compiles a route. @throws RangeError when it names a parameter that its path lacks */
export function compileRoute(definition: RouteDefinition, wildcard: boolean): Route {
  const { path, action, service, refuse_if_active_tokens: guarded } = definition;
  const prefix = definition.strip_prefix ?? '';
  const host = definition.host?.toLowerCase() ?? null;
  const verbless = action != null && !action.includes(':');
  return {
    host,
    path,
    name: host === null ? path : host + path,
    methods: definition.methods ?? null,
    readAction: verbless ? `${action}:read` : (action ?? null),
    writeAction: verbless ? `${action}:write` : (action ?? null),
    service: service == null ? null : serviceSource(path, service),
    auth: definition.auth ?? 'required',
    refuseIfActiveTokens: guarded == null ? null : parameterIndex(path, guarded),
    upstream: definition.upstream ?? null,
    strippedSegments: prefix.split('/').length - 1,
    strippedPrefix: prefix,
    limits: limitsOf(definition),
    allowsBodyOnRead: definition.body_on_read === 'allow',
    allowsServiceWorker: definition.service_worker === 'allow',
    cors: definition.cors == null || definition.cors === false ? null : corsOf(definition.cors),
    loginPath: loginPath(definition.on_unauthenticated),
    endpoint: definition.endpoint ?? null,
    wildcard,
    position: definition.position ?? null,
  };
}

function loginPath(on: RouteDefinition['on_unauthenticated']): string | null {
  if (typeof on === 'object') return `oidc/${on.login}/login`;
  return on === 'login' ? '' : null;
}

function limitsOf({
  response_timeout,
  idle_timeout,
  max_body,
  position,
}: RouteDefinition): RouteLimits | null {
  if (response_timeout === undefined && idle_timeout === undefined && max_body === undefined) return null;
  return {
    owner: position?.path ?? 'the route',
    responseTimeout: response_timeout,
    idleTimeout: idle_timeout,
    maxBody: max_body,
  };
}

function serviceSource(path: string, service: string): ServiceSource {
  if (service.startsWith('header:')) return { from: 'header', name: service.slice(7).toLowerCase() };
  if (service.startsWith('query:')) return { from: 'query', name: service.slice(6) };
  return { from: 'path', segment: parameterIndex(path, service) };
}

function parameterIndex(path: string, name: string): number {
  const index = path.slice(1).split('/').indexOf(`:${name}`);
  if (index < 0) throw new RangeError(`the path ${path} has no parameter :${name}`);
  return index;
}

/** A built-in endpoint, as far as it concerns the policy. */
export interface EndpointRule {
  readonly name: string;
  /** `none` and `optional`: the body has a password; an optional credential must be valid if sent. */
  readonly credential: 'none' | 'optional' | 'token' | 'session' | 'session_or_token';
  /** Whether it accepts a JWT of another issuer; with `none`, whether it ignores one. */
  readonly acceptsJwt: boolean;
  /** What the path's `:id` names, whose owner is checked; null: only the user's own records. */
  readonly id: 'customer' | 'token' | null;
  /** The action that records of others require, in addition to the endpoint's own. */
  readonly foreignRecordAction: string | null;
  /** An action that a token's scopes must allow and every role may perform; null: only the route's own. */
  readonly scopeAction: string | null;
  readonly success: 200 | 204 | null;
  /** Whether it changes something even with a read method; the audit log must then be writable. */
  readonly writes: boolean;
}

export interface Match {
  readonly route: Route;
  readonly path: string;
}

/** Whether two matches lead to the same decision for everybody, and to the same request. */
export function isEquivalent(a: Match, b: Match): boolean {
  const [x, y] = [a.route, b.route];
  return (
    x.readAction === y.readAction &&
    x.writeAction === y.writeAction &&
    x.auth === y.auth &&
    x.upstream === y.upstream &&
    x.strippedSegments === y.strippedSegments &&
    x.allowsBodyOnRead === y.allowsBodyOnRead &&
    x.allowsServiceWorker === y.allowsServiceWorker &&
    x.cors?.id === y.cors?.id &&
    x.endpoint?.name === y.endpoint?.name &&
    // An endpoint without parameters responds alike, however its path is written.
    (x.endpoint === null || a.path === b.path || !x.path.includes(':')) &&
    guardedUser(a) === guardedUser(b) &&
    serviceKey(a) === serviceKey(b)
  );
}

/** The user whose active tokens forbid the request; undefined when the route guards none. */
export function guardedUser(match: Match): string | undefined {
  const segment = match.route.refuseIfActiveTokens;
  return segment === null ? undefined : segmentAt(match.path, segment);
}

function serviceKey({ route, path }: Match): string | undefined {
  if (route.service === null) return undefined;
  const { service } = route;
  // The kind as well: a path may name a service like a header, and a header like a parameter.
  return service.from === 'path'
    ? `path:${segmentAt(path, service.segment)}`
    : `${service.from}:${service.name}`;
}

interface Addressed {
  readonly path: string;
  readonly host?: string | undefined;
  readonly methods?: readonly string[] | undefined;
}

/** `GET` implies `HEAD` (RFC 9110 9.3.2), unless a route of the same path names it. */
export function withImpliedHead<T extends Addressed>(routes: readonly T[]): T[] {
  const named = new Set(routes.filter(({ methods }) => methods?.includes('HEAD')).map(pathKey));
  return routes.map((route) => {
    const { methods } = route;
    if (methods === undefined || !methods.includes('GET') || named.has(pathKey(route))) return route;
    return {
      ...route,
      methods: methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])),
    };
  });
}

/**
 * Returns a key that is equal for paths of one host that the router treats alike: it ignores escapes and
 * parameter names. Parameters and `*` get a second slash, because an escaped `:` or `*` is a fixed segment.
 */
export function pathKey({
  path,
  host,
}: Pick<Addressed, 'path'> & { readonly host?: string | null | undefined }): string {
  return (
    (host?.toLowerCase() ?? '') +
    decodeAscii(path.replace(/(?<=\/)[:*][^/]*/g, (part) => (part === '*' ? '/*' : '/:')))
  );
}
