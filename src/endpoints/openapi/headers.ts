/** A required header is in every response that lists it. */
export const HEADERS = {
  'X-Request-Id': {
    description: 'Identifies the request in the log, in the audit log and to the upstream',
    required: true,
    schema: { type: 'string', minLength: 1 },
  },
  'Cache-Control': {
    description: '`no-store`, except for public keys, which may be cached',
    required: true,
    schema: { type: 'string', pattern: '^(no-store|public, max-age=[0-9]+)$' },
  },
  'Retry-After': {
    description: 'Seconds to wait before trying again',
    required: true,
    schema: { type: 'integer', minimum: 1 },
  },
  'WWW-Authenticate': {
    description: 'The accepted authentication schemes; with `error` if a Bearer token is invalid',
    required: true,
    schema: { type: 'string' },
  },
  'Set-Cookie': {
    description: 'The session cookie; on logout, one that removes it',
    required: true,
    schema: { type: 'string' },
  },
  Location: {
    description: 'Where the browser continues',
    required: false,
    schema: { type: 'string' },
  },
  'Latchkey-Further-Tokens': {
    description:
      'How many tokens that came from it by rotation were revoked, suspended or resumed with it; absent for none',
    required: false,
    schema: { type: 'integer', minimum: 1 },
  },
} as const;

export type HeaderName = keyof typeof HEADERS;

export const ALWAYS: readonly HeaderName[] = ['X-Request-Id', 'Cache-Control'];

export function headerRefs(names: readonly HeaderName[]): Record<string, { $ref: string }> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
