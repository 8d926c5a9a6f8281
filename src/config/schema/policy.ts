import { z } from 'zod';
import { METHODS } from '../../domain/methods.js';
import { ROLES, SCOPES, SERVICE_LIMITED } from './defaults.js';
import { text } from './units.js';

/** Room for a sentence or two below a check box. */
const MAX_DESCRIPTION = 300;

const pattern = z
  .string('expected a pattern over actions')
  .regex(
    /^(\*|(\*|[a-z0-9_]+):(\*|[a-z0-9_]+))$/,
    'expected a pattern over actions like billing:read, billing:*, *:read or *',
  );

const rules = {
  allow: z.array(pattern).default([]).describe('Actions that are allowed').meta({ example: '["*:read"]' }),
  deny: z
    .array(pattern)
    .default([])
    .describe('Actions that are not, whatever allow says')
    .meta({ example: '["billing:*"]' }),
};

const role = z.strictObject(rules).meta({ example: '{ allow: ["*:read"] }' });

const scope = z
  .strictObject({
    ...rules,
    description: text
      .max(MAX_DESCRIPTION, `expected at most ${MAX_DESCRIPTION} characters`)
      .optional()
      .describe('What the web page says about it; without one, the page lists its patterns'),
  })
  .meta({ example: '{ allow: ["*:read"] }' });

const auth = z.enum(['required', 'none', 'deny'], 'expected required, none or deny');
const action = text.regex(/^[a-z0-9_]+(:[a-z0-9_]+)?$/, 'expected an action like billing or billing:read');

const bodyOnRead = z
  .enum(['refuse', 'allow'], 'expected refuse or allow')
  .default('refuse')
  .describe(
    'Whether GET, HEAD and OPTIONS may have a body: refuse answers 400. A connection to the upstream that carried one is not used again',
  );

export const routeSchema = z.strictObject({
  path: text
    .regex(/^\/(?!.*\*.)/, 'expected a path like /a/:id/* that starts with "/" and has "*" only at its end')
    .describe('Segments, `:parameters`, and at the end perhaps `*`'),
  methods: z
    .array(z.enum(METHODS, `expected one of ${METHODS.join(', ')}`))
    .min(1)
    .optional()
    .describe(
      'The methods it is for; all when absent. GET brings HEAD along, unless a route for the same path names HEAD',
    ),
  action: action
    .optional()
    .describe(
      'What is asked: `billing:read`, or `billing`, to which the method adds the verb. Needed unless auth says otherwise',
    ),
  service: text
    .optional()
    .describe(
      'Where the service of a request stands: a path parameter, header:NAME or query:NAME. A request that names it there in two ways is refused',
    ),
  auth: auth
    .optional()
    .describe('required when not set; none lets everybody through and sends no identity; deny answers 404'),
  refuse_if_active_tokens: text
    .optional()
    .describe(
      'The path parameter with the id of a user; the request is refused while that user has active tokens',
    ),
  upstream: text.optional().describe('The upstream it goes to, when not that of default_route'),
  strip_prefix: text
    .regex(/^\/./, 'expected a path like /api')
    .optional()
    .describe('Beginning of the path that the upstream does not get'),
  body_on_read: bodyOnRead,
  service_worker: z
    .enum(['allow', 'refuse'], 'expected allow or refuse')
    .optional()
    .describe(
      'refuse when not set: scripts of service workers are not served, because one could read what people enter on the web page',
    ),
});

/** The tables of roles and scopes. */
export const policySchema = z.strictObject({
  roles: z.record(text, role).prefault(ROLES).describe('What each role of users may do'),
  scopes: z
    .record(text.regex(/^\S+$/, 'a scope has no spaces'), scope)
    .prefault(SCOPES)
    .describe('What each scope of tokens may do'),
  service_limited: z
    .strictObject({ deny: z.array(pattern).default([]).describe('Actions that are not allowed to it') })
    .prefault(SERVICE_LIMITED)
    .describe('What a token that is limited to services may not do'),
});

/** Where requests go that no route names. */
export const defaultRouteSchema = z.strictObject({
  action: action.default('api').describe('The action of such a request'),
  upstream: text.nullable().default(null).describe('Where it goes; needed when there are several upstreams'),
  auth: auth
    .optional()
    .describe('required when not set; deny answers 404 to every such path; none lets everybody through'),
  body_on_read: bodyOnRead,
});
