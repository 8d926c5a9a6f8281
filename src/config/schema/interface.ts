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
    .describe('Builds the names Service-Key, Service-OTP, service.session and Service-RateLimit-*'),
  session_cookie: text
    .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'expected a cookie name')
    .nullable()
    .default(null)
    .describe('Another name for the session cookie; with TLS, __Host-session is the safest'),
  token_endpoints: z
    .enum(['session', 'session_or_token'], 'expected session or session_or_token')
    .default('session')
    .describe('The credential for listing and deleting tokens: a session only, or also a token'),
  bearer: flag
    .default(true)
    .describe(
      'Whether `Authorization: Bearer` with an API token is the same credential as Service-Key; the upstream never receives such a token',
    ),
  account_endpoints: flag
    .default(false)
    .describe('Whether GET /current_user, GET /current_customer, GET /verify and POST /sudo are served'),
  ui: z
    .strictObject({
      enabled: flag.default(true).describe('Whether the page is served'),
      path: text
        .regex(PAGE_PATH, UI_PATH_FAULT)
        .default('/_latchkey/')
        .describe('The path; it starts and ends with "/"'),
      host: text
        .regex(HOST, 'expected a host name, with a port where it is not 80 or 443: login.example.com')
        .nullable()
        .default(null)
        .describe(
          'A separate host for the page, as in `Host` or in `X-Forwarded-Host` of a trusted proxy; that host serves the page and no upstream',
        ),
    })
    .prefault({})
    .describe('The web page where users see, create and revoke tokens')
    .meta({ example: '{ enabled: false }' }),
});
