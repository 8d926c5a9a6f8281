import { endpoint, type EndpointSettings, type Resource } from './endpoint.js';
import { resourceMetadata } from './schema/responses.js';

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
          if (resource === null)
            return { refusal: 'not_found', detail: `No endpoint for ${head.method} ${head.path}` };
          return { status: 200, json: resource, headers: ANY_ORIGIN, maxAge: MAX_AGE };
        },
      }),
    ],
  } as const satisfies Resource;
}

const ANY_ORIGIN = ['Access-Control-Allow-Origin', '*'] as const;

/** Seconds. */
const MAX_AGE = 300;
