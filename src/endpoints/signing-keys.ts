import { endpoint, type Resource } from './endpoint.js';
import { signingKeySet } from './schema/responses.js';

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
        if (keys === null)
          return { refusal: 'not_found', detail: `No endpoint for ${head.method} ${head.path}` };
        return { status: 200, json: { keys: await keys.published(now) }, maxAge: keys.maxAge };
      },
    }),
  ],
} as const satisfies Resource;
