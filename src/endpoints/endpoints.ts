// src/endpoints: the built-in endpoints, one file per resource.
// May import gate and all below.
// `RESOURCES` lists them; routes and the OpenAPI document derive from it.

import { segmentAt } from '../domain/path.js';
import type { Refusal } from '../domain/refusal.js';
import { type Body, parseBody } from '../http/body.js';
import type { Reply } from '../http/replies.js';
import type { EndpointRule, RouteDefinition } from '../policy/route.js';
import { account } from './account.js';
import {
  interfaceDescription,
  protectedResource,
  protectedResourceOfPath,
  readiness,
  signingKeys,
} from './documents.js';
import type { Call, Endpoint, EndpointServices, EndpointSettings, Resource } from './endpoint.js';
import { login } from './login.js';
import { oidc } from './oidc.js';
import { page } from './page.js';
import { tokens } from './tokens.js';

/** In the order of the OpenAPI document. */
const RESOURCES = [
  readiness,
  login,
  tokens,
  account,
  signingKeys,
  protectedResource,
  protectedResourceOfPath,
  interfaceDescription,
  page,
  oidc,
] as const;

export type EndpointName = (typeof RESOURCES)[number]['endpoints'][number]['name'];

/** Plain values in and out: endpoints can be tested without a socket. */
export type Handler = (call: Call) => Promise<Reply | Refusal>;

export interface ServedEndpoint {
  readonly endpoint: Endpoint;
  readonly path: string;
  readonly credential: EndpointRule['credential'];
}

export function servedResources(settings: EndpointSettings) {
  return RESOURCES.flatMap((resource: Resource) => {
    const base = resource.base === undefined ? '' : resource.base(settings);
    if (base === null) return [];
    const endpoints = resource.endpoints.map((endpoint): ServedEndpoint => {
      const { credential, path } = endpoint;
      const accepted = credential === 'configured' ? settings.tokenEndpoints : credential;
      return { endpoint, path: base + path, credential: accepted };
    });
    const owned = resource.owns === undefined ? [] : [base + resource.owns];
    return [{ resource, endpoints, owned }];
  });
}

/** Other methods on their paths belong to the upstream. */
export function builtInRoutes(settings: EndpointSettings): RouteDefinition[] {
  return servedResources(settings).flatMap(({ endpoints, owned }) => [
    ...endpoints.flatMap(routesOf),
    ...owned.map((path): RouteDefinition => ({ path, methods: ['GET'], auth: 'deny' })),
  ]);
}

/** A path that ends in a slash also gets a redirect from the path without it. */
function routesOf({ endpoint, path, credential }: ServedEndpoint): RouteDefinition[] {
  const {
    name,
    method,
    action = null,
    id = null,
    foreignRecordAction = null,
    scopeAction = null,
    // An endpoint that ignores credentials accepts a request with a JWT.
    acceptsJwt = credential === 'none',
    writes = false,
  } = endpoint;
  const success = endpoint.success === undefined ? successOf(endpoint) : endpoint.success;
  const route = {
    path,
    methods: [method],
    action,
    endpoint: { name, credential, acceptsJwt, id, foreignRecordAction, scopeAction, success, writes },
    position: { path: name, line: null },
  };
  if (!path.endsWith('/')) return [route];
  return [route, { ...route, path: path.slice(0, -1), endpoint: { ...route.endpoint, success: null } }];
}

function successOf({ request, response }: Endpoint): EndpointRule['success'] {
  if (request !== undefined) return null;
  return response === null ? 204 : 200;
}

const ENDPOINTS = RESOURCES.flatMap((resource: Resource) => resource.endpoints);

/** Endpoints whose body has the credential. */
const TAKING_PASSWORDS: ReadonlySet<string> = new Set(
  ENDPOINTS.filter(({ codes }) => codes?.[400]?.includes('invalid_request')).map(({ name }) => name),
);

export function parseBodyOf(name: string, bytes: Buffer, contentType: string | undefined): Body | Refusal {
  const body = parseBody(bytes, contentType);
  if (!('refusal' in body) || body.refusal !== 'malformed' || !TAKING_PASSWORDS.has(name)) return body;
  return { refusal: 'grant', status: 400, code: 'invalid_request', detail: body.detail };
}

export function createHandlers(services: EndpointServices): (name: string) => Handler {
  const byName = new Map(ENDPOINTS.map((each) => [each.name, (call: Call) => each.handle(call, services)]));
  return (name) => {
    const handler = byName.get(name);
    if (handler === undefined) throw new Error(`no endpoint is named ${name}`);
    return handler;
  };
}

const WITHOUT_PAGE = builtInRoutes({
  tokenEndpoints: 'session',
  page: null,
  assertion: true,
  account: true,
  oidc: true,
  readyPath: null,
  resourcePath: '/',
});

/** The folder of the page's default path and of the OpenAPI document. */
const SHARED = '_latchkey';

/** Whether a path for the web page would collide with another built-in endpoint. */
export function collidesWithEndpoint(path: string): boolean {
  const first = segmentAt(path, 0);
  return WITHOUT_PAGE.some(
    (route) => path.startsWith(`${route.path}/`) || (first !== SHARED && segmentAt(route.path, 0) === first),
  );
}
