// src/endpoints/schema: bodies of requests and responses.
// May import what config/schema may.
// The page takes its types from this file.

import { z } from 'zod';
import type { GrantCode } from '../../domain/refusal.js';

/** In the OpenAPI document. Responses of one endpoint that the page does not read are named in its file. */
export const NAMED = z.registry<{ id: string }>();

export function named<Shape extends z.ZodRawShape>(id: string, shape: Shape) {
  return z.object(shape).register(NAMED, { id });
}

export const id = z.string();
export const time = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/)
  .meta({ format: 'date-time', examples: ['2030-01-31T12:00:00+00:00'] })
  .describe('UTC, ISO 8601, whole seconds');
const seconds = z.int().min(0);
const ip = z.string().describe('IP address of the client that last used it');
const userAgent = z.string().nullable().describe('User-Agent of the client that last used it; null when it sent none'); // prettier-ignore

const user = z.object({
  id,
  name: z.string(),
  login: z.string(),
  role: z.string().describe('A role of the policy (`policy.roles`)'),
  customer_id: z.string(),
});
export const customer = z.object({ id, name: z.string() });
const service = z.object({ id, name: z.string() });

export const loggedIn = named('LoggedIn', { user, customer });

const tokenFields = {
  id: id.describe('Identifies the token; not a secret'),
  user_id: z.string().describe('The owner'),
  customer_id: z.string(),
  service_id: z
    .string()
    .nullable()
    .describe(
      'The service that the token is restricted to, or the last of several; null when it is not restricted',
    ),
  services: z
    .array(z.string())
    .readonly()
    .describe('All services that the token is restricted to; empty when it is not restricted'),
  name: z.string(),
  scope: z.string().describe('Its scopes, separated by spaces'),
  scopes: z.array(z.string()).readonly(),
  created_at: time,
  updated_at: time,
  expires_at: time
    .nullable()
    .describe('The token is refused from this second on; null when it does not expire'),
  predecessor_id: z.string().optional().describe('The token that it replaced; only if a rotation made it'),
  suspended: z.literal(true).optional().describe('Present while the token is suspended'),
  rate: z.string().optional().describe('The request rate of the token; absent when it has none of its own'),
  addresses: z
    .array(z.string())
    .readonly()
    .optional()
    .describe('Addresses and ranges that it is accepted from; absent when it has none of its own'),
};

export const token = named('Token', {
  ...tokenFields,
  last_seen_at: time.nullable().describe('Its last use; null when it was never used'),
  last_used_at: time.nullable().describe('The same as `last_seen_at`'),
  ip: ip.nullable(),
  user_agent: userAgent,
});

export const createdToken = named('CreatedToken', {
  ...tokenFields,
  access_token: z.string().describe('The secret. No other response ever contains it'),
});

export const fleetReceipt = named('FleetReceipt', {
  sidecars: z.int().min(0).describe('How many sidecars were up when the token was revoked'),
  slowest_ms: z
    .int()
    .min(0)
    .nullable()
    .describe(
      'Milliseconds until the slowest confirmation that the token was dropped; null when there is none',
    ),
  missing: z
    .array(
      z.object({
        name: z.string().describe('Host and port'),
        heartbeat_age_ms: z.int().describe('Milliseconds between its latest heartbeat and the revocation'),
      }),
    )
    .optional()
    .describe('The sidecars that have not confirmed that they dropped the token'),
});

export type FleetReceiptObject = z.output<typeof fleetReceipt>;

export const session = named('Session', {
  id: id.describe('Identifies the session; not the value of the cookie'),
  created_at: time,
  last_seen_at: time.describe('Its last activity, at most a minute late'),
  ends_at: time.describe('The latest time at which it ends'),
  ip,
  user_agent: userAgent,
  current: z.boolean().describe('Whether it is the session of the request'),
  provider: z.string().optional().describe('The OpenID Connect provider of its login; absent after a login by password'),
}); // prettier-ignore

export const loginMethods = named('LoginMethods', {
  password: z.boolean().describe('Whether any user has a password'),
  providers: z
    .array(z.object({ name: z.string(), title: z.string() }))
    .describe('OpenID Connect providers; a login begins at `oidc/NAME/login`'),
});

export const caller = named('Caller', {
  user,
  customer,
  session: z.object({
    ends_in: seconds.describe('Seconds until the session ends, even if it is active'),
    idle_timeout: seconds.describe('Seconds without a request after which it ends'),
  }),
  one_time_password: z.boolean().describe('Whether the account asks for a one-time password'),
  provider: z
    .object({
      name: z.string(),
      title: z.string(),
      confirmed: z.boolean().describe('Whether the user logged in there again within the last five minutes'),
    })
    .optional()
    .describe('The OpenID Connect provider of the login; absent after a login by password'),
  may: z.object({
    list_tokens: z.boolean(),
    revoke_tokens: z.boolean(),
    list_customer_tokens: z.boolean(),
    revoke_customer_tokens: z.boolean(),
  }),
  services: z.array(service).describe('What tokens can be restricted to; empty when any service id is accepted'),
  scopes: z.array(z.object({ name: z.string(), title: z.string(), description: z.string() })),
  rotation: z.object({ overlap: seconds, max_overlap: seconds }).describe('How long a rotated token is still accepted'),
  max_lifetime: seconds.nullable().describe('Seconds that a token may last; null when there is no limit'),
  warn_before: seconds.describe('Seconds before the expiry of a token from which it is marked'),
  key_field: z.string().describe('Name of the header that carries a token'),
  public_url: z.string().nullable().describe('The origin for clients; null for that of the page'),
}); // prettier-ignore

export const person = named('Person', { id, name: z.string(), login: z.string() });

export const resourceMetadata = named('ResourceMetadata', {
  resource: z.string().describe('URL of the API'),
  authorization_servers: z.array(z.string()).readonly().optional().describe('Accepted JWT issuers'),
  scopes_supported: z.array(z.string()).readonly().optional(),
  bearer_methods_supported: z.array(z.string()).readonly(),
});
export type ResourceMetadata = z.output<typeof resourceMetadata>;

export const signingKeySet = named('SigningKeys', {
  keys: z.array(
    z.object({
      kty: z.string(),
      crv: z.string(),
      x: z.string(),
      y: z.string().optional(),
      kid: z.string(),
      alg: z.enum(['EdDSA', 'ES256']),
      use: z.literal('sig'),
    }),
  ),
});

/** The message alone is complete. */
export const unauthenticated = named('Unauthenticated', { msg: z.string() });

export const problem = named('Problem', {
  msg: z.string().describe('What kind of error it is'),
  detail: z.string().describe('What exactly is wrong, for people'),
});

/** Of a login or of token parameters. */
export function codedProblem(codes: readonly GrantCode[]) {
  return z.object({
    msg: z.enum(codes).describe('The same as `code`'),
    code: z.enum(codes).describe('What is wrong, for programs'),
    detail: z.string().describe('What exactly is wrong, for people'),
  });
}

export const openApi = z.looseObject({ openapi: z.string() }).register(NAMED, { id: 'OpenApi' });

export type TokenObject = z.output<typeof token>;
export type CreatedTokenObject = z.output<typeof createdToken>;
export type SessionObject = z.output<typeof session>;
export type LoginMethods = z.output<typeof loginMethods>;
export type Caller = z.output<typeof caller>;
export type Person = z.output<typeof person>;
