import { z } from 'zod';
import {
  duration,
  fieldName,
  flag,
  forwardedMethod,
  orNull,
  routeHost,
  size,
  text,
  timeLimit,
} from './units.js';

/** The built-in roles. As with the built-in scopes and routes, a configuration that sets the key replaces them. */
const ROLES = {
  superuser: { allow: ['*'] },
  engineer: {
    allow: ['*'],
    deny: [
      'billing:*',
      'user:write',
      'invitation:write',
      'service_authorization:write',
      'token:*',
      'customer_token:*',
    ],
  },
  billing: { allow: ['*:read', 'billing:*', 'token:write'] },
  user: { allow: ['*:read'], deny: ['billing:*', 'token:*', 'customer_token:*'] },
};

const SCOPES = {
  global: { allow: ['*'] },
  'global:read': { allow: ['*:read'] },
  purge_select: { allow: ['purge:select'] },
  purge_all: { allow: ['purge:all'] },
};

/** Actions that no service-limited token may perform: authorize services, invite, create or modify users. */
const SERVICE_LIMITED = { deny: ['service_authorization:write', 'invitation:write', 'user:write'] };

function resource(action: string, ...paths: string[]) {
  return paths.flatMap((path) => [
    { path, action },
    { path: `${path}/*`, action },
  ]);
}

const SERVICE = 'service_id';

export const ROUTES = [
  { path: '/service/:service_id/purge_all', methods: ['POST'], action: 'purge:all', service: SERVICE },
  { path: '/service/:service_id/purge', methods: ['POST'], action: 'purge:select', service: SERVICE },
  { path: '/service/:service_id/purge/*', methods: ['POST'], action: 'purge:select', service: SERVICE },
  { path: '/purge/*', methods: ['POST'], action: 'purge:select' },
  { path: '/*', methods: ['PURGE'], action: 'purge:select' },
  { path: '/service/:service_id', action: 'service', service: SERVICE },
  { path: '/service/:service_id/*', action: 'service', service: SERVICE },
  ...resource('billing', '/billing'),
  { path: '/user/:user_id', methods: ['DELETE'], action: 'user', refuse_if_active_tokens: 'user_id' },
  ...resource('user', '/user', '/users'),
  ...resource('invitation', '/invitation', '/invitations'),
  ...resource('service_authorization', '/service_authorization', '/service_authorizations'),
  ...resource('service_authorization', '/service-authorization', '/service-authorizations'),
];

/** A header name. Browsers read `*` as all headers, or as a header named `*`. */
const header = fieldName.refine((name) => name !== '*', 'expected a header name; list each header');

export const corsSchema = z.strictObject({
  origins: z
    .union(
      [z.literal('*'), z.array(text).min(1)],
      'expected a list of origins like [https://app.example, "null"], or "*" for every origin',
    )
    .describe('Origins as browsers send them; "*" allows every origin, without credentials')
    .meta({ example: '[https://app.example]' }),
  methods: orNull(z.array(forwardedMethod).min(1)).describe(
    'Methods that pages may use; null: the methods of the route',
  ),
  headers: z.array(header).default([]).describe('Request headers that pages may set, such as Service-Key'),
  expose: z.array(header).default([]).describe('Response headers that pages may read'),
  credentials: flag.default(false).describe('Whether pages may send cookies and read the responses'),
  max_age: duration.prefault('10m').describe('How long browsers cache the response to a preflight'),
});

const MAX_DESCRIPTION = 300;

const pattern = z
  .string('expected a pattern over actions')
  .regex(
    /^(\*|(\*|[a-z0-9_]+):(\*|[a-z0-9_]+))$/,
    'expected a pattern over actions like billing:read, billing:*, *:read or *',
  );

const rules = {
  allow: z.array(pattern).default([]).describe('Actions that are allowed'),
  deny: z.array(pattern).default([]).describe('Actions that are denied, also if allowed'),
};

const role = z.strictObject(rules).meta({ example: '{ allow: ["*:read"] }' });

const scope = z
  .strictObject({
    ...rules,
    description: text
      .max(MAX_DESCRIPTION, `expected at most ${MAX_DESCRIPTION} characters`)
      .optional()
      .describe('A description for the web page'),
  })
  .meta({ example: '{ allow: ["*:read"] }' });

const auth = z.enum(['required', 'none', 'deny'], 'expected required, none or deny');
const action = text.regex(
  /^[a-z0-9_]+(:[a-z0-9_]+)?$/,
  'expected an action of lower-case letters, digits and "_", like billing or billing:read',
);

const bodyOnRead = z
  .enum(['refuse', 'allow'], 'expected refuse or allow')
  .default('refuse')
  .describe('Whether GET and HEAD may have a body; refuse: 400');

export const ON_UNAUTHENTICATED = z.union(
  [
    z.enum(['json', 'login']),
    z.strictObject({
      login: text.describe('The name of a provider in login.oidc; browsers go there at once'),
    }),
  ],
  'expected json, login, or { login: NAME } with the name of a provider',
);

const onUnauthenticated = ON_UNAUTHENTICATED.optional().describe(
  'What browsers get without a session; replaces the top-level on_unauthenticated',
);

const cors = z
  .union(
    [z.literal(false), corsSchema],
    'expected a mapping like { origins: [https://app.example] }, or false',
  )
  .optional()
  .describe('Replaces the top-level cors, with the same keys; false leaves CORS to the upstream');

export const routeSchema = z
  .strictObject({
    host: routeHost
      .optional()
      .describe('The host of the request, like git.example.com or "*.example.com"; every host if not set'),
    path: text
      .regex(/^\/(?!.*\*.)/, 'expected a path like /a/:id/* that starts with "/" and has "*" only at its end')
      .describe('The path of the route: segments and `:parameters`; may end with `*`'),
    methods: z
      .array(forwardedMethod)
      .min(1)
      .optional()
      .describe('The methods of the route; all if not set. GET includes HEAD')
      .meta({ example: '[GET, HEAD]' }),
    action: action
      .optional()
      .describe('The action, like `billing:read`, or its resource, to which the method adds the verb'),
    service: text
      .optional()
      .describe('Where the request names its service: a path parameter, header:NAME or query:NAME'),
    auth: auth
      .optional()
      .describe('required (if not set): a credential; none: everybody, without identity; deny: 404'),
    refuse_if_active_tokens: text
      .optional()
      .describe('The path parameter with a user id; requests are refused while that user has active tokens'),
    upstream: text
      .optional()
      .describe('The upstream of the route; if not set, the upstream of default_route'),
    strip_prefix: text
      .regex(/^\/./, 'expected a path like /api')
      .optional()
      .describe('A prefix to remove from the path before forwarding'),
    response_timeout: timeLimit.optional().describe('Replaces that of the upstream'),
    idle_timeout: timeLimit.optional().describe('Replaces that of the upstream'),
    max_body: size(1, 1_099_511_627_776)
      .optional()
      .describe('Maximum size of a request body; no limit if not set'),
    body_on_read: bodyOnRead,
    service_worker: z
      .enum(['allow', 'refuse'], 'expected allow or refuse')
      .optional()
      .describe('refuse (if not set): requests for service worker scripts get 400'),
    on_unauthenticated: onUnauthenticated,
    cors,
  })
  .meta({ example: '{ path: /reports/*, action: reports }' });

export const policySchema = z.strictObject({
  roles: z
    .record(text, role)
    .prefault(ROLES)
    .describe('What each role of users may do')
    .meta({ example: '{ admin: { allow: ["*"] } }' }),
  scopes: z
    .record(text.regex(/^\S+$/, 'a scope has no spaces'), scope)
    .prefault(SCOPES)
    .describe('What each scope of tokens may do')
    .meta({ example: '{ global: { allow: ["*"] } }' }),
  service_limited: z
    .strictObject({
      deny: z.array(pattern).default([]).describe('Actions that service-limited tokens may not use'),
    })
    .prefault(SERVICE_LIMITED)
    .describe('What a token that is limited to services may not do'),
});

export const defaultRouteSchema = z.strictObject({
  action: action.default('api').describe('The action of such a request'),
  upstream: orNull(text).describe(
    'The upstream of such a request; required with several upstreams, unless auth is deny',
  ),
  auth: auth
    .optional()
    .describe('required (if not set): a credential; none: everybody, without identity; deny: 404'),
  body_on_read: bodyOnRead,
  on_unauthenticated: onUnauthenticated,
  cors,
});

export const shadowSchema = z
  .strictObject({
    policy: policySchema.optional().describe('What roles and scopes may do'),
    routes: z.array(routeSchema).optional().describe('The action of each request, by path and method'),
    default_route: defaultRouteSchema.optional().describe('What happens to requests that match no route'),
  })
  .refine(
    (sections) => Object.keys(sections).length > 0,
    'expected policy, routes or default_route; the file has none of them',
  );
