// src/config/schema: the schema, one file per section, with the description of each key.
// May import domain and util.
// Types of settings come from here: `Config`.

import { z } from 'zod';
import {
  corsSchema,
  defaultRouteSchema,
  ON_UNAUTHENTICATED,
  policySchema,
  routeSchema,
  ROUTES,
} from './policy.js';
import { identitySchema } from './identity.js';
import { interfaceSchema } from './interface.js';
import { jwtIssuersSchema, loginSchema } from './issuers.js';
import { limitsSchema, adminSchema, decisionSchema, listenSchema } from './listen.js';
import { auditSchema, logSchema, tracingSchema, webhooksSchema } from './observe.js';
import { proxySchema, upstreamSchema } from './upstream.js';
import { sessionsSchema, tokensSchema } from './tokens.js';
import { storeSchema } from './store.js';
import { duration, filePath, integer, orNull, text, timeLimit, plainUrl, upstreamUrl } from './units.js';

const directorySchema = z
  .strictObject({
    file: orNull(filePath).describe(
      'A file with customers, users, services, legacy keys and tokens; applied at start and on reload',
    ),
    http: orNull(
      z.strictObject({
        url: plainUrl.describe('The URL that receives {login, password, otp} by POST at each login'),
        timeout: timeLimit.prefault('5s').describe('Timeout for the complete response'),
      }),
    ).describe('An API that checks logins and returns the user'),
  })
  .refine(({ file, http }) => file === null || http === null, 'set either file or http, not both');

export const configSchema = z.strictObject({
  listen: listenSchema
    .prefault({})
    .describe('The public listener for clients')
    .meta({ example: '{ port: 8080 }' }),
  admin: adminSchema
    .prefault({})
    .describe(
      'The listener for operators: health, readiness, metrics, reload. It requires no credential, so keep it private',
    )
    .meta({ restart: true, example: '{ port: 9901 }' }),
  decision: orNull(decisionSchema)
    .describe('Listeners for proxies that ask Latchkey for decisions; off unless set')
    .meta({ restart: true, example: '{ port: 9902 }' }),
  workers: z
    .union([integer(1, 256), z.literal('auto')], 'expected a number from 1 to 256, or auto')
    .default(1)
    .describe('The number of serving processes; auto starts one per core')
    .meta({ restart: true }),
  interface: interfaceSchema
    .prefault({})
    .describe('The names, built-in endpoints and web page that clients see')
    .meta({ example: '{ vendor: Service }' }),
  store: storeSchema
    .prefault({ type: 'lmdb' })
    .describe('Where users, tokens and sessions are stored')
    .meta({ restart: true, example: '{ type: redis, url: redis://127.0.0.1:6379/0 }' }),
  on_store_failure: z
    .union(
      [
        z.literal('deny'),
        z.strictObject({
          serve_cached_for: timeLimit.describe('Accept tokens that were looked up within this time'),
        }),
      ],
      'expected deny, or { serve_cached_for: 60s }',
    )
    .prefault('deny')
    .describe('What happens to recently used tokens while a networked store is unavailable')
    .meta({ restart: true }),
  cache: z
    .strictObject({
      size: integer(0, 100_000_000)
        .default(100_000)
        .describe('The number of tokens that each process caches; 0 disables the cache'),
      ttl: duration.prefault('30s').describe('How long a token is cached'),
      negative_ttl: duration.prefault('2s').describe('How long the result "unknown token" is cached'),
    })
    .prefault({})
    .describe('The cache of tokens for a networked store; the embedded store needs none')
    .meta({ restart: true, example: '{ ttl: 10s }' }),
  directory: directorySchema
    .prefault({})
    .describe('Who may log in; if not set, the users that are already in the store')
    .meta({ example: '{ file: ./directory.yaml }' }),
  sessions: sessionsSchema
    .prefault({})
    .describe('Sessions, which start with a login and use a cookie')
    .meta({ example: '{ idle_timeout: 30m }' }),
  tokens: tokensSchema.prefault({}).describe('API tokens').meta({ example: '{ max_lifetime: 90d }' }),
  login: loginSchema
    .prefault({})
    .describe('Limits for password guessing, and OpenID Connect providers')
    .meta({ example: '{ max_failures: 5 }' }),
  jwt_issuers: jwtIssuersSchema
    .default([])
    .describe('Other issuers whose JWTs are accepted as `Authorization: Bearer`; none unless set')
    .meta({ example: '[{ name: ci, issuer: https://issuer.example, audience: latchkey, subjects: [...] }]' }),
  webhooks: webhooksSchema
    .default([])
    .describe('Endpoints that are notified of changes to tokens and logins; none unless set')
    .meta({ example: '[{ url: https://hooks.example/latchkey, secret: "${file:/run/secrets/webhook}" }]' }),
  rate_limit: z
    .strictObject({
      writes_per_hour: orNull(integer(1, 1_000_000_000)).describe(
        'Writes of a user per clock hour, except purges by key or URL; null: no limit',
      ),
    })
    .prefault({})
    .describe('Limit for the writes of one user')
    .meta({ example: '{ writes_per_hour: 1000 }' }),
  limits: limitsSchema
    .prefault({})
    .describe('Limits for clients')
    .meta({ restart: true, example: '{ connections: 10000 }' }),
  cors: orNull(corsSchema)
    .describe('Pages of other origins that may read responses (CORS); off unless set')
    .meta({ example: '{ origins: [https://app.example], headers: [Service-Key] }' }),
  proxy: proxySchema
    .prefault({})
    .describe('Forwarding of allowed requests')
    .meta({ example: '{ stream_recheck: 30s }' }),
  audit: auditSchema
    .prefault({})
    .describe('The audit log: logins, tokens, sessions, refusals, reloads and admin commands')
    .meta({ restart: true, example: '{ to: ./audit.jsonl }' }),
  log: logSchema.prefault({}).describe('The log on standard output').meta({ example: '{ level: info }' }),
  tracing: orNull(tracingSchema)
    .describe('Spans for an OpenTelemetry collector; off unless set')
    .meta({ restart: true, example: '{ otlp: http://127.0.0.1:4318 }' }),
  upstream: upstreamUrl
    .optional()
    .describe('Short for upstreams: { api: { url: ... } }; http://, https:// or unix:///PATH'),
  upstreams: z
    .record(text, upstreamSchema)
    .default({})
    .describe(
      'Your APIs, each under a name of your choice. `upstream: URL` is short for one upstream named api',
    )
    .meta({ example: '{ api: { url: http://127.0.0.1:3000 } }' }),
  identity: identitySchema
    .prefault({})
    .describe('What upstreams learn about the user')
    .meta({ example: '{ preset: latchkey }' }),
  policy: policySchema
    .prefault({})
    .describe('What roles and scopes may do; a table that you set replaces the built-in one')
    .meta({ example: '{ roles: { admin: { allow: ["*"] } } }' }),
  routes: z
    .array(routeSchema)
    .prefault(ROUTES as z.input<typeof routeSchema>[])
    .describe('The action of each request, by path and method; your routes replace the built-in ones')
    .meta({ example: '[{ path: /reports/*, action: reports }]' }),
  on_unauthenticated: ON_UNAUTHENTICATED.default('json').describe(
    'What browsers without a session get: json (401), or a redirect to the web page (login) or to a provider ({ login: NAME })',
  ),
  default_route: defaultRouteSchema
    .prefault({})
    .describe('What happens to requests that match no route')
    .meta({ example: '{ auth: deny }' }),
  policy_shadow: orNull(filePath)
    .describe(
      'A file with the rules that you intend to use next, which are evaluated without effect; off unless set',
    )
    .meta({ example: './next-policy.yaml' }),
});

/** A checked configuration: keys as in the file, durations in milliseconds; `upstream` is in `upstreams`. */
export type Config = Omit<z.output<typeof configSchema>, 'upstream'>;
