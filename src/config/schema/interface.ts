import { z } from 'zod';
import { flag, text } from './units.js';

/** The fault of a page path with a wrong form, or one that another endpoint uses. */
export const UI_PATH_FAULT = 'expected a path of its own like /_latchkey/ that starts and ends with "/"';
/** Segments of letters, digits and `-._~` without a leading dot, which all parsers read alike. */
const PAGE_PATH = /^\/(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*\/)+$/;

/** A host as browsers send it: without the default port of the scheme. */
const HOST = /^(?!.*:(?:80|443)$)(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::\d{1,5})?$/;

/** Names, built-in endpoints and the web page that clients see. */
export const interfaceSchema = z.strictObject({
  vendor: text
    .regex(/^[A-Za-z][A-Za-z0-9-]{0,31}$/, 'expected a name of letters, digits and "-"')
    .default('Service')
    .describe('The prefix of the names Service-Key, Service-OTP, service.session and Service-RateLimit-*'),
  session_cookie: text
    .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'expected a cookie name')
    .nullable()
    .default(null)
    .describe('Another name for the session cookie; with TLS, __Host-session is the safest choice'),
  token_endpoints: z
    .enum(['session', 'session_or_token'], 'expected session or session_or_token')
    .default('session')
    .describe('The credential for listing, rotating and revoking tokens: only a session, or also a token'),
  bearer: flag
    .default(true)
    .describe(
      'Whether an API token in `Authorization: Bearer` is accepted like one in Service-Key. With false, it is not forwarded either',
    ),
  account_endpoints: flag
    .default(false)
    .describe('Whether to serve GET /current_user, GET /current_customer, GET /verify and POST /sudo'),
  ui: z
    .strictObject({
      enabled: flag.default(true).describe('Whether to serve the page'),
      path: text
        .regex(PAGE_PATH, UI_PATH_FAULT)
        .default('/_latchkey/')
        .describe('The path of the page; it starts and ends with "/"'),
      host: text
        .regex(HOST, 'expected a host name, with a port where it is not 80 or 443: login.example.com')
        .nullable()
        .default(null)
        .describe('A separate host for the page, which serves the page and no upstream'),
    })
    .prefault({})
    .describe('The web page where users see, create and revoke tokens')
    .meta({ example: '{ enabled: false }' }),
});
