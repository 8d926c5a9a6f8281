import { z } from 'zod';
import {
  anyText,
  caSetting,
  claimName,
  filePath,
  flag,
  id,
  integer,
  orNull,
  positiveDuration,
  text,
} from './units.js';
import { discoveryUrlSetting, plainUrl, publicOrigin } from './urls.js';

const rolesFields = z.strictObject({
  claim: claimName.describe(
    'The claim with the groups or roles of a user; a JSON pointer names a nested claim',
  ),
  separator: orNull(text).describe('What separates several values in one text; null: it is one value'),
  map: z
    .record(text, text)
    .default({})
    .describe('The role for each value of the claim; the first entry that matches counts'),
  default: orNull(text).describe('The role of a user without a matching value; null refuses the login'),
});

/** With the values of `map` in the order of the file: JavaScript objects put numbers first. */
const rolesSchema = rolesFields.transform((roles) => ({ ...roles, order: Object.keys(roles.map) }));

/** Parameters of an authorization request that are set for each login, or that would change its flow. */
const OWN_PARAMETERS: ReadonlySet<string> = new Set([
  'client_id', 'response_type', 'response_mode', 'redirect_uri', 'scope', 'state', 'nonce',
  'code_challenge', 'code_challenge_method', 'max_age', 'request', 'request_uri',
]); // prettier-ignore

const providerSchema = z.strictObject({
  name: text
    .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'expected a name of up to 32 lower-case letters, digits and "-"')
    .describe('The name in paths such as /_latchkey/oidc/NAME/callback, in metrics and in the audit log'),
  title: text.max(80, 'expected at most 80 characters').describe('The text of the button on the web page'),
  issuer: plainUrl.describe('The exact issuer of the provider, as in the claim `iss`'),
  discovery: discoveryUrlSetting,
  tls: caSetting,
  client_id: text.describe('The id of the client that is registered at the provider'),
  client_secret: orNull(text.meta({ secret: true })).describe(
    'The secret of that client; null: a public client',
  ),
  client_auth: orNull(
    z.enum(['basic', 'post', 'private_key_jwt'], 'expected basic, post or private_key_jwt'),
  ).describe('How the client authenticates; null: basic, or post without that'),
  client_key: orNull(filePath).describe(
    'File with the private key for private_key_jwt (PEM), and for Entra ID its certificate',
  ),
  authorization: z
    .record(text, anyText)
    .refine(
      (parameters) => !Object.keys(parameters).some((name) => OWN_PARAMETERS.has(name)),
      `expected none of the parameters that Latchkey sets: ${[...OWN_PARAMETERS].join(', ')}`,
    )
    .default({})
    .describe('More parameters of the authorization request')
    .meta({ example: '{ prompt: select_account, domain_hint: example.com }' }),
  scopes: z
    .array(text.regex(/^[!#-[\]-~]+$/, 'expected a scope without spaces'))
    .default(['openid', 'email', 'profile'])
    .describe('The scopes to request; openid is always included')
    .meta({ example: '[openid, email, profile]' }),
  login_claim: claimName
    .default('email')
    .describe('The claim that becomes the login name; email requires email_verified: true'),
  allow_unverified_email: flag
    .default(false)
    .describe('Whether to accept an email that the provider has not verified'),
  provider_logout: flag.default(true).describe('Whether a logout continues at the provider'),
  customer_id: id.describe("The customer of the provider's users"),
  roles: rolesSchema
    .describe("The roles of the provider's users")
    .meta({ example: '{ claim: groups, map: { developers: engineer } }' }),
});

export const loginSchema = z.strictObject({
  max_failures: integer(1, 100)
    .default(5)
    .describe('Failed logins of an account before the next one must wait, from 1s on, doubling'),
  lockout: positiveDuration.prefault('15m').describe('Longest such wait; `latchkey user unlock` ends it'),
  max_concurrent_hashes: integer(1, 64)
    .default(2)
    .describe('Concurrent password checks in each process, of 46 MiB of memory each')
    .meta({ restart: true }),
  oidc: z
    .array(providerSchema)
    .default([])
    .describe('OpenID Connect providers at which people log in; none unless set. They need the web page')
    .meta({ example: '[{ name: sso, title: Company login, issuer: https://idp.example, ... }]' }),
  public_url: orNull(publicOrigin).describe(
    'The origin at which browsers reach Latchkey; required with oidc',
  ),
});
