import { z } from 'zod';
import { cookieName, fieldName, flag, hostName, orNull, text, resourceUrl } from './units.js';

/** The fault of a page path with a wrong form, or one that another endpoint uses. */
export const UI_PATH_FAULT = 'expected a path of its own like /_latchkey/ that starts and ends with "/"';
/** Segments of letters, digits and `-._~` without a leading dot, which all parsers read alike. */
const PAGE_PATH = /^\/(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*\/)+$/;

/** A host as browsers send it: without the default port of the scheme. */
const HOST = /^(?!.*:(?:80|443)$)(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::\d{1,5})?$/;

export const interfaceSchema = z.strictObject({
  vendor: text
    .regex(/^[A-Za-z][A-Za-z0-9-]{0,31}$/, 'expected a name of letters, digits and "-"')
    .default('Service')
    .describe('The prefix of names such as Service-Key, Service-OTP and service.session'),
  session_cookie: orNull(cookieName).describe(
    'Another name for the session cookie; with TLS, __Host-session is safest',
  ),
  token_endpoints: z
    .enum(['session', 'session_or_token'], 'expected session or session_or_token')
    .default('session')
    .describe('The credential for listing, rotating and revoking tokens'),
  bearer: flag
    .default(true)
    .describe('Whether to accept an API token in `Authorization: Bearer`, `Token` or `ApiKey`'),
  basic: flag.default(true).describe('Whether to accept an API token in `Authorization: Basic`'),
  key_headers: z.array(fieldName).default([]).describe('More headers that carry a token, like Service-Key'),
  realm: text
    .regex(/^[ !#-[\]-~]{1,100}$/, 'expected up to 100 ASCII characters without quotes and backslashes')
    .default('api')
    .describe('The realm in `WWW-Authenticate` of a 401'),
  protected_resource: orNull(
    z.strictObject({
      resource: resourceUrl.describe('The URL of the API, as clients write it'),
      scopes: z.array(text).default([]).describe('Scopes that clients should ask for'),
    }),
  )
    .describe('OAuth metadata (RFC 9728) for MCP clients, with the issuers of `jwt_issuers`')
    .meta({ example: '{ resource: "https://api.example/mcp" }' }),
  hosts: orNull(z.array(hostName).min(1)).describe(
    'Hosts that serve the built-in endpoints and the page; null: every host',
  ),
  account_endpoints: flag
    .default(false)
    .describe('Whether to serve GET /current_user, GET /current_customer, GET /verify and POST /sudo'),
  ui: z
    .strictObject({
      enabled: flag.default(true).describe('Whether to serve the page'),
      path: text.regex(PAGE_PATH, UI_PATH_FAULT).default('/_latchkey/').describe('The path of the page'),
      host: orNull(
        text.regex(HOST, 'expected a host name, with a port where it is not 80 or 443: login.example.com'),
      ).describe('A separate host for the page, which serves no upstream'),
    })
    .prefault({})
    .describe('The web page where users see, create and revoke tokens'),
});
