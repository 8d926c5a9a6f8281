import { z } from 'zod';
import { METHODS } from '../../domain/methods.js';
import { ROLES, SCOPES, SERVICE_LIMITED } from '../defaults.js';
import { text } from './units.js';

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

/** One of `routes`. */
export const routeSchema = z.strictObject({
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
  strip_prefix: text
    .regex(/^\/./, 'expected a path like /api')
    .optional()
    .describe('Beginning of the path that the upstream does not get'),
});

/** The tables of roles and scopes. */
export const policySchema = z.strictObject({
  roles: z.record(text, rules).prefault(ROLES),
  scopes: z.record(text.regex(/^\S+$/, 'a scope has no spaces'), rules).prefault(SCOPES),
  service_limited: z.strictObject({ deny: z.array(pattern).default([]) }).prefault(SERVICE_LIMITED),
});

/** Where requests go that no route names. */
export const defaultRouteSchema = z.strictObject({
  action: action.default('api'),
  upstream: text.nullable().default(null),
  auth: auth.optional(),
});
