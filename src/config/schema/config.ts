import { z } from 'zod';
import { ROUTES } from '../defaults.js';
import { directorySchema } from './directory.js';
import { identitySchema } from './identity.js';
import { interfaceSchema } from './interface.js';
import { auditSchema, limitsSchema, proxySchema } from './limits.js';
import { adminSchema, decisionSchema, listenSchema } from './listen.js';
import { logSchema, tracingSchema } from './observe.js';
import { defaultRouteSchema, policySchema, routeSchema } from './policy.js';
import { storeSchema } from './store.js';
import { duration, positiveDuration, text, whole } from './units.js';
import { upstreamSchema } from './upstream.js';

/** The configuration file: types, checks, defaults and JSON Schema come from here. */
export const configSchema = z.strictObject({
  listen: listenSchema.prefault({}),
  admin: adminSchema.prefault({}),
  decision: decisionSchema.nullable().default(null),
  workers: z
    .union([whole(1, 256), z.literal('auto')], 'expected a number from 1 to 256, or auto')
    .default(1)
    .describe('Processes that serve; auto is one per core'),
  interface: interfaceSchema.prefault({}),
  store: storeSchema.prefault({ type: 'lmdb' }),
  on_store_failure: z
    .union(
      [z.literal('deny'), z.strictObject({ serve_cached_for: positiveDuration })],
      'expected deny, or { serve_cached_for: 60s }',
    )
    .default('deny')
    .describe('What happens to tokens that were seen lately while a networked store can not be asked'),
  cache: z
    .strictObject({
      size: whole(0, 100_000_000).default(100_000),
      ttl: duration.prefault('30s'),
      negative_ttl: duration.prefault('2s'),
    })
    .prefault({})
    .describe('For networked stores; the embedded store reads its own memory map and needs none'),
  directory: directorySchema.prefault({}),
  sessions: z
    .strictObject({
      idle_timeout: positiveDuration.prefault('30m'),
      absolute_timeout: positiveDuration.prefault('12h'),
    })
    .prefault({}),
  tokens: z
    .strictObject({
      max_per_user: whole(1, 1_000_000).nullable().default(null),
      max_lifetime: positiveDuration.nullable().default(null),
      last_seen_interval: positiveDuration.prefault('1s'),
    })
    .prefault({}),
  login: z
    .strictObject({
      max_failures: whole(1, 100).default(5),
      lockout: positiveDuration.prefault('15m'),
      max_concurrent_hashes: whole(1, 64).default(2),
    })
    .prefault({}),
  rate_limit: z
    .strictObject({ writes_per_hour: whole(1, 1_000_000_000).nullable().default(null) })
    .prefault({}),
  limits: limitsSchema.prefault({}),
  proxy: proxySchema.prefault({}),
  audit: auditSchema.prefault({}),
  log: logSchema.prefault({}),
  tracing: tracingSchema.nullable().default(null).describe('Off unless present'),
  upstreams: z.record(text, upstreamSchema).default({}),
  identity: identitySchema.prefault({}),
  policy: policySchema.prefault({}),
  routes: z.array(routeSchema).prefault(ROUTES as z.input<typeof routeSchema>[]),
  default_route: defaultRouteSchema.prefault({}),
});

/** A checked configuration: names as in the file, durations in milliseconds. */
export type Config = z.output<typeof configSchema>;
