import { z } from 'zod';
import type { EndpointRule } from '../../policy/route.js';
import { NAMED, problem, unauthenticated } from '../schema/responses.js';

export type Json = Readonly<Record<string, unknown>>;

const AS_SENT = {
  io: 'input',
  override: ({ jsonSchema }: { jsonSchema: z.core.JSONSchema.BaseSchema }) => {
    // zod's readonly is a TypeScript notion, unlike `readOnly` in OpenAPI.
    delete jsonSchema.readOnly;
  },
} as const;

/** The named schemas that parts of the document refer to, as JSON Schema 2020-12. */
export function schemasOf(...parts: Json[]): Json {
  const { schemas } = z.toJSONSchema(NAMED, { ...AS_SENT, uri: refTo });
  const text = JSON.stringify(parts);
  const used = Object.keys(schemas).filter((name) => text.includes(`"${refTo(name)}"`));
  return Object.fromEntries(used.toSorted().map((name) => [name, bare(schemas[name] ?? {})]));
}

export function schemaOf(schema: z.ZodType): Json {
  return bare(z.toJSONSchema(schema, AS_SENT));
}

export function schemaRef(schema: z.ZodType): Json {
  if (schema instanceof z.ZodArray) return { type: 'array', items: schemaRef(schema.element as z.ZodType) };
  const name = NAMED.get(schema)?.id;
  if (name === undefined) throw new Error('a schema of the interface has no name');
  return { $ref: refTo(name) };
}

function refTo(name: string): string {
  return `#/components/schemas/${name}`;
}

/** What the document states once for all schemas. */
function bare(schema: z.core.JSONSchema.BaseSchema): Json {
  const { $schema: _schema, $id: _id, ...rest } = schema;
  return rest;
}

const TEXT = { type: 'string' };
const COUNT = { type: 'integer', minimum: 1 };

/** A required header is in every response that lists it. */
function header(description: string, schema: Json = TEXT, required = true) {
  return { description, required, schema };
}

export const HEADERS = {
  'X-Request-Id': header('Identifies the request in the log, in the audit log and to the upstream', {
    ...TEXT,
    minLength: 1,
  }),
  'Cache-Control': header('`no-store`, except for public keys, which may be cached', {
    ...TEXT,
    pattern: '^(no-store|public, max-age=[0-9]+)$',
  }),
  'Retry-After': header('Seconds to wait before trying again', COUNT),
  'WWW-Authenticate': header(
    'The accepted authentication schemes; with `error` if a Bearer token is invalid',
  ),
  'Set-Cookie': header('The session cookie; on logout, one that removes it'),
  Location: header('Where the browser continues', TEXT, false),
  'Latchkey-Further-Tokens': header(
    'How many tokens that came from it by rotation were revoked, suspended or resumed with it; absent for none',
    COUNT,
    false,
  ),
};

export type HeaderName = keyof typeof HEADERS;

export const ALWAYS: readonly HeaderName[] = ['X-Request-Id', 'Cache-Control'];

export function headerRefs(names: readonly HeaderName[]): Record<string, { $ref: string }> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

export interface RefusalAnswer {
  readonly status: number;
  readonly description: string;
  readonly schema: z.ZodType;
  readonly headers?: readonly HeaderName[];
}

/** Of built-in endpoints, without a code. */
export const REFUSALS = {
  Malformed: { status: 400, description: 'The request is ambiguous or malformed', schema: problem },
  Unauthenticated: {
    status: 401,
    description: 'The credential is missing or invalid',
    schema: unauthenticated,
    headers: ['WWW-Authenticate'],
  },
  Forbidden: {
    status: 403,
    description:
      'The role or the scope does not allow it, the kind of credential is wrong, or the request came from another site',
    schema: problem,
  },
  NotFound: { status: 404, description: 'No such record exists', schema: problem },
  TooSlow: { status: 408, description: 'The request took too long to arrive', schema: problem },
  TooLarge: { status: 413, description: 'The body is too large', schema: problem },
  TargetTooLong: { status: 414, description: 'The request target is too long', schema: problem },
  ExpectationFailed: { status: 417, description: '`Expect` asks for more than `100-continue`', schema: problem },
  Throttled: {
    status: 429,
    description: 'Too many failed logins, or the token has reached its request rate',
    schema: problem,
    headers: ['Retry-After'],
  },
  HeadTooLarge: { status: 431, description: 'The header fields are too large', schema: problem },
  Fault: { status: 500, description: 'Internal error; the log has the cause', schema: problem },
  Unavailable: {
    status: 503,
    description: 'The store, the account source or a required audit log is unavailable, or the server is overloaded',
    schema: problem,
    headers: ['Retry-After'],
  },
} as const satisfies Record<string, RefusalAnswer>; // prettier-ignore

export type RefusalName = keyof typeof REFUSALS;

const EVERYWHERE: readonly RefusalName[] = [
  'Malformed',
  'TooSlow',
  'TooLarge',
  'TargetTooLong',
  'ExpectationFailed',
  'HeadTooLarge',
  'Fault',
  'Unavailable',
];

export function refusalsOf(credential: EndpointRule['credential'], method: string): RefusalName[] {
  const withCredential: RefusalName[] = [...EVERYWHERE, 'Unauthenticated', 'Forbidden'];
  // A token's request rate must not prevent a revocation.
  if (credential !== 'none') return method === 'DELETE' ? withCredential : [...withCredential, 'Throttled'];
  return method === 'GET' ? [...EVERYWHERE] : [...EVERYWHERE, 'Forbidden'];
}
