import { isIP } from 'node:net';
import { z } from 'zod';
import { METHODS } from '../domain/methods.js';
import { startsLikeOwnPath } from '../policy/own-endpoints.js';
import { ROLES, ROUTES, SCOPES, SERVICE_LIMITED } from './defaults.js';
import { auditSchema, limitsSchema, proxySchema } from './limits-schema.js';
import { storeSchema } from './store-schema.js';
import { duration, fieldName, positiveDuration, text, whole } from './units.js';

const flag = z.boolean('expected true or false');
const host = text.describe('An address to listen on');
const port = whole(0, 65_535).describe('A port; 0 picks a free one');

const listener = (defaultHost: string, defaultPort: number) => ({
  host: host.default(defaultHost),
  port: port.default(defaultPort),
});

const tls = z.strictObject({
  cert: text.describe('File with the certificate chain (PEM)'),
  key: text.describe('File with the private key (PEM)'),
  client_ca: text.nullable().default(null).describe('File with the authorities of client certificates (PEM)'),
});

const proxyAddress = text.refine(isAddressRange, 'expected an address or a range like 10.0.0.0/8');

function isAddressRange(value: string): boolean {
  const [address = '', bits, ...rest] = value.split('/');
  const family = isIP(address);
  if (family === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

const baseUrl = text.refine(
  isUpstreamUrl,
  'expected an http:// or https:// URL without user, query or fragment',
);

const sourceUrl = text.refine(
  (value) => URL.canParse(value) && isPlainUrl(new URL(value)),
  'expected an http:// or https:// URL without user or fragment',
);

function isUpstreamUrl(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const url = new URL(value);
  return isPlainUrl(url) && url.search === '';
}

function isPlainUrl(url: URL): boolean {
  return /^https?:$/.test(url.protocol) && `${url.username}${url.password}${url.hash}` === '';
}

/** Keys of the interface that this version does not serve; `unavailable.ts` refuses them by name. */
const notYet = z.unknown().optional();

const upstream = z.strictObject({
  health_check: notYet,
  url: baseUrl.describe('http or https; a path is put in front of each target'),
  connect_timeout: positiveDuration.prefault('2s'),
  response_timeout: positiveDuration.prefault('30s').describe('To the first byte of the answer'),
  idle_timeout: positiveDuration.prefault('60s').describe('Between bytes, in either direction'),
  retries: whole(0, 10)
    .default(1)
    .describe('Only for requests without side effects, before a byte was answered'),
  max_connections: whole(1, 65_535).default(256),
  max_waiting: whole(0, 1_000_000).default(1_024).describe('Requests that wait for a free connection'),
  wait_timeout: positiveDuration.prefault('10s').describe('For a free connection'),
});

const pattern = z
  .string('expected a pattern over actions')
  .regex(
    /^(\*|(\*|[a-z0-9_]+):(\*|[a-z0-9_]+))$/,
    'expected a pattern over actions like billing:read, billing:*, *:read or *',
  );

const rules = z.strictObject({
  allow: z.array(pattern).default([]),
  deny: z.array(pattern).default([]),
});

const auth = z.enum(['required', 'none', 'deny'], 'expected required, none or deny');
const action = text.regex(/^[a-z0-9_]+(:[a-z0-9_]+)?$/, 'expected an action like billing or billing:read');

const route = z.strictObject({
  path: text.regex(
    /^\/(?!.*\*.)/,
    'expected a path like /a/:id/* that starts with "/" and has "*" only at its end',
  ),
  methods: z
    .array(z.enum(METHODS, `expected one of ${METHODS.join(', ')}`))
    .min(1)
    .optional(),
  action: action.optional(),
  service: text.optional().describe('A path parameter, header:NAME or query:NAME'),
  auth: auth.optional(),
  refuse_if_active_tokens: text.optional().describe('The path parameter with the id of the user'),
  upstream: text.optional(),
});

/** Segments of letters, digits and `-._~` that do not begin with a dot: such a path is read alike by everybody. */
const PAGE_PATH = /^\/(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*\/)+$/;

const identityHeader = (name: string) => fieldName.nullable().default(name);

/** The configuration file: types, checks, defaults and JSON Schema come from here. */
export const configSchema = z.strictObject({
  listen: z
    .strictObject({
      ...listener('0.0.0.0', 8080),
      tls: tls.nullable().default(null),
      trusted_proxies: z
        .array(proxyAddress)
        .default([])
        .describe('Proxies whose X-Forwarded-* fields are believed'),
    })
    .prefault({}),
  admin: z.strictObject(listener('127.0.0.1', 9901)).prefault({}),
  decision: z.strictObject(listener('127.0.0.1', 9902)).nullable().default(null),
  workers: z
    .union([whole(1, 256), z.literal('auto')], 'expected a number from 1 to 256, or auto')
    .default(1)
    .describe('Processes that serve; auto is one per core'),
  interface: z
    .strictObject({
      vendor: text
        .regex(/^[A-Za-z][A-Za-z0-9-]{0,31}$/, 'expected a name of letters, digits and "-"')
        .default('Service'),
      session_cookie: text
        .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'expected a cookie name')
        .nullable()
        .default(null),
      token_endpoints: z
        .enum(['session', 'session_or_token'], 'expected session or session_or_token')
        .default('session'),
      account_endpoints: flag.default(false),
      ui: z
        .strictObject({
          enabled: flag.default(true),
          path: text
            .refine(
              (path) => PAGE_PATH.test(path) && !startsLikeOwnPath(path),
              'expected a path of its own like /_latchkey/ that starts and ends with "/"',
            )
            .default('/_latchkey/'),
        })
        .prefault({})
        .describe('The web page, on which people see, create and revoke tokens'),
    })
    .prefault({}),
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
  directory: z
    .strictObject({
      file: text
        .nullable()
        .default(null)
        .describe('Customers, users, services and legacy keys, applied at start'),
      http: z
        .strictObject({
          url: sourceUrl.describe('Asked by POST with {login, password, otp} at each login'),
          timeout: positiveDuration.prefault('5s').describe('To the end of its answer'),
        })
        .nullable()
        .default(null)
        .describe('An API that knows the users already'),
    })
    .refine(({ file, http }) => file === null || http === null, 'give either file or http, not both')
    .prefault({}),
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
  upstreams: z.record(text, upstream).default({}),
  identity: z
    .strictObject({
      headers: z
        .strictObject({
          user_id: identityHeader('X-Auth-User-Id'),
          customer_id: identityHeader('X-Auth-Customer-Id'),
          login: identityHeader('X-Auth-Login'),
          role: identityHeader('X-Auth-Role'),
          scope: identityHeader('X-Auth-Scope'),
          services: identityHeader('X-Auth-Services'),
          credential: identityHeader('X-Auth-Credential'),
          token_id: identityHeader('X-Auth-Token-Id'),
        })
        .prefault({}),
      forward_credentials: flag.default(false),
      assertion: z.looseObject({ enabled: flag.default(false) }).prefault({}),
    })
    .prefault({}),
  policy: z
    .strictObject({
      roles: z.record(text, rules).prefault(ROLES),
      scopes: z.record(text.regex(/^\S+$/, 'a scope has no spaces'), rules).prefault(SCOPES),
      service_limited: z.strictObject({ deny: z.array(pattern).default([]) }).prefault(SERVICE_LIMITED),
    })
    .prefault({}),
  routes: z.array(route).prefault(ROUTES as z.input<typeof route>[]),
  default_route: z
    .strictObject({
      action: action.default('api'),
      upstream: text.nullable().default(null),
      auth: auth.optional(),
    })
    .prefault({}),
});

/** A checked configuration: names as in the file, durations in milliseconds. */
export type Config = z.output<typeof configSchema>;
