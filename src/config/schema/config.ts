import { z } from 'zod';
import { ROUTES } from './defaults.js';
import { directorySchema } from './directory.js';
import { identitySchema } from './identity.js';
import { interfaceSchema } from './interface.js';
import { auditSchema, limitsSchema, proxySchema } from './limits.js';
import { adminSchema, decisionSchema, listenSchema } from './listen.js';
import { logSchema, tracingSchema } from './observe.js';
import { defaultRouteSchema, policySchema, routeSchema } from './policy.js';
import { storeSchema } from './store.js';
import { duration, positiveDuration, text, timeLimit, whole } from './units.js';
import { upstreamSchema } from './upstream.js';

/** The configuration file: types, checks, defaults and JSON Schema come from here. */
export const configSchema = z.strictObject({
  listen: listenSchema
    .prefault({})
    .describe('The public listener, which clients talk to')
    .meta({ example: '{ port: 8080 }' }),
  admin: adminSchema
    .prefault({})
    .describe(
      'The listener for operators: health, readiness, metrics, reload. It asks for no credential, so keep it private',
    )
    .meta({ restart: true, example: '{ port: 9901 }' }),
  decision: decisionSchema
    .nullable()
    .default(null)
    .describe('Where proxies ask for decisions; off unless present')
    .meta({ restart: true, example: '{ port: 9902 }' }),
  workers: z
    .union([whole(1, 256), z.literal('auto')], 'expected a number from 1 to 256, or auto')
    .default(1)
    .describe('Processes that serve; auto is one per core')
    .meta({ restart: true }),
  interface: interfaceSchema
    .prefault({})
    .describe('What clients see of Latchkey itself')
    .meta({ example: '{ vendor: Service }' }),
  store: storeSchema
    .prefault({ type: 'lmdb' })
    .describe('Where users, tokens and sessions are kept')
    .meta({ restart: true, example: '{ type: redis, url: redis://127.0.0.1:6379/0 }' }),
  on_store_failure: z
    .union(
      [
        z.literal('deny'),
        z.strictObject({
          serve_cached_for: timeLimit.describe('Accept tokens that this process read within this time'),
        }),
      ],
      'expected deny, or { serve_cached_for: 60s }',
    )
    .prefault('deny')
    .describe('What happens to recently used tokens while a networked store is unavailable')
    .meta({ restart: true }),
  cache: z
    .strictObject({
      size: whole(0, 100_000_000).default(100_000).describe('Tokens that each process keeps; 0 keeps none'),
      ttl: duration.prefault('30s').describe('How long a token that was found is kept'),
      negative_ttl: duration.prefault('2s').describe('How long the answer that a token is unknown is kept'),
    })
    .prefault({})
    .describe('For networked stores; the embedded store needs none')
    .meta({ restart: true }),
  directory: directorySchema
    .prefault({})
    .describe('Who may log in; without it, the users already in the store')
    .meta({ example: '{ file: ./directory.yaml }' }),
  sessions: z
    .strictObject({
      idle_timeout: positiveDuration
        .prefault('30m')
        .describe(
          'A session ends after this long without a request, and a longer setting later does not bring it back',
        ),
      absolute_timeout: positiveDuration
        .prefault('12h')
        .describe(
          'A session ends this long after the login, however active; sessions that exist already included',
        ),
      max_per_user: whole(1, 10_000)
        .default(100)
        .describe('Sessions that a user may have; one more ends the one that was used longest ago'),
    })
    .prefault({})
    .describe('Logins by cookie'),
  tokens: z
    .strictObject({
      max_per_user: whole(1, 1_000_000)
        .nullable()
        .default(null)
        .describe('Active tokens that a user may have; null is no limit of its own'),
      max_stored_per_user: whole(1, 1_000_000)
        .default(1_000)
        .describe(
          'Tokens of a user that are kept, expired ones included; the expired ones that ended first make room. Never less than max_per_user',
        ),
      max_stored_per_customer: whole(1, 100_000_000)
        .default(100_000)
        .describe('Tokens of all users of a customer, expired ones included'),
      max_lifetime: positiveDuration
        .nullable()
        .prefault(null)
        .describe('The longest expiry of a new token; one without an expiry gets this one. null is no limit'),
      last_seen_interval: timeLimit
        .prefault('1s')
        .describe('Last uses of tokens are written to the store together, this often'),
    })
    .prefault({})
    .describe('API tokens'),
  login: z
    .strictObject({
      max_failures: whole(1, 100)
        .default(5)
        .describe('Failed logins of an account before each further one doubles the wait, from 1s'),
      lockout: positiveDuration
        .prefault('15m')
        .describe('The longest such wait; `latchkey user unlock` ends it'),
      max_concurrent_hashes: whole(1, 64)
        .default(2)
        .describe(
          'Password checks at once, for each process that serves; each takes 46 MiB and, at a low priority, a core for a moment',
        )
        .meta({ restart: true }),
    })
    .prefault({})
    .describe('Limits for password guessing'),
  rate_limit: z
    .strictObject({
      writes_per_hour: whole(1, 1_000_000_000)
        .nullable()
        .default(null)
        .describe(
          'Requests of a user in a clock hour that change something; null is no limit. Reading and purging by key or URL are free',
        ),
    })
    .prefault({})
    .describe('Limits for changes by one user'),
  limits: limitsSchema.prefault({}).describe('Limits for clients').meta({ restart: true }),
  proxy: proxySchema.prefault({}).describe('Forwarding of allowed requests'),
  audit: auditSchema
    .prefault({})
    .describe('The audit log: logins, tokens, sessions, refusals, reloads and operations')
    .meta({ restart: true }),
  log: logSchema.prefault({}).describe('The log on standard output'),
  tracing: tracingSchema
    .nullable()
    .default(null)
    .describe('Spans for an OpenTelemetry collector; off unless present')
    .meta({ restart: true }),
  upstreams: z
    .record(text, upstreamSchema)
    .default({})
    .describe(
      'The APIs that requests are forwarded to, by a name of your choice. `upstream: URL` is short for one of the name api',
    ),
  identity: identitySchema.prefault({}).describe('What upstreams learn about the caller'),
  policy: policySchema
    .prefault({})
    .describe(
      'What roles and scopes may do, as patterns over actions. Setting one of its tables replaces that table',
    ),
  routes: z
    .array(routeSchema)
    .prefault(ROUTES as z.input<typeof routeSchema>[])
    .describe(
      'Which action a request asks for, by path and method; the most specific path wins. Setting it replaces the built-in routes',
    )
    .meta({ example: '[{ path: /reports/*, action: reports }]' }),
  default_route: defaultRouteSchema
    .prefault({})
    .describe('Where requests go that no route names')
    .meta({ example: '{ auth: deny }' }),
});

/** A checked configuration: names as in the file, durations in milliseconds. */
export type Config = z.output<typeof configSchema>;
