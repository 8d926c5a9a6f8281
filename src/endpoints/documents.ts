import { noEndpoint } from '../domain/refusal.js';
import { endpoint, type EndpointSettings, type Resource } from './endpoint.js';
import { openApi, resourceMetadata, signingKeySet } from './schema/responses.js';

export const signingKeys = {
  tag: 'Keys',
  description: 'Public keys that verify the signed assertion',
  base: ({ assertion }) => (assertion ? '' : null),
  endpoints: [
    endpoint({
      name: 'show_signing_keys',
      method: 'GET',
      path: '/.well-known/jwks.json',
      credential: 'none',
      summary: 'Show the keys that verify assertions',
      description: 'A JSON Web Key Set (RFC 7517). It may be cached as long as `Cache-Control` allows.',
      response: signingKeySet,
      handle: async ({ head, now }, { signingKeys: keys }) => {
        if (keys === null) return noEndpoint(head);
        return { status: 200, json: { keys: await keys.published(now) }, maxAge: keys.maxAge };
      },
    }),
  ],
} as const satisfies Resource;

/** RFC 9728 3; the path of the resource may follow. */
export const METADATA_PATH = '/.well-known/oauth-protected-resource';

export const protectedResource = metadataAt('show_protected_resource', () => '');

/** For a resource that has a path (RFC 9728 3.1). */
export const protectedResourceOfPath = metadataAt('show_protected_resource_of_path', ({ resourcePath }) =>
  resourcePath === '/' ? null : resourcePath,
);

function metadataAt<const Name extends string>(
  name: Name,
  suffix: (settings: EndpointSettings) => string | null,
) {
  return {
    tag: 'Resource',
    description: 'OAuth metadata of the API',
    base: (settings: EndpointSettings) => {
      const behind = settings.resourcePath === null ? null : suffix(settings);
      return behind === null ? null : METADATA_PATH + behind;
    },
    endpoints: [
      endpoint({
        name,
        method: 'GET',
        path: '',
        credential: 'none',
        summary: 'Show the authorization servers of the API',
        description: 'OAuth 2.0 Protected Resource Metadata (RFC 9728), for clients on any origin.',
        response: resourceMetadata,
        handle: async ({ head }, { resource }) => {
          if (resource === null) return noEndpoint(head);
          return { status: 200, json: resource, headers: ANY_ORIGIN, maxAge: MAX_AGE };
        },
      }),
    ],
  } as const satisfies Resource;
}

const ANY_ORIGIN = ['Access-Control-Allow-Origin', '*'] as const;

/** Seconds. */
const MAX_AGE = 300;

export const interfaceDescription = {
  tag: 'Interface',
  description: 'This document',
  endpoints: [
    endpoint({
      name: 'show_interface',
      method: 'GET',
      path: '/_latchkey/openapi.json',
      credential: 'none',
      summary: 'Show this document',
      response: openApi,
      handle: async (_call, { interfaceDocument }) => ({ status: 200, content: await interfaceDocument() }),
    }),
  ],
} as const satisfies Resource;

/** Readiness at the public port, for load balancers that probe only there (`listen.ready_path`). */
export const readiness = {
  tag: 'Readiness',
  description: 'Whether this process serves requests',
  base: ({ readyPath }) => readyPath,
  endpoints: [
    endpoint({
      name: 'show_readiness',
      method: 'GET',
      path: '',
      credential: 'none',
      summary: null,
      response: null,
      success: 200,
      handle: async (_call, { isReady }) => ({ status: (await isReady()) ? 200 : 503 }),
    }),
  ],
} as const satisfies Resource;
