import { z } from 'zod';
import {
  caSetting,
  claimName,
  durationBetween,
  fieldName,
  filePath,
  id,
  orNull,
  text,
  cookieName,
  shortName,
  discoveryUrlSetting,
  plainUrl,
  keySetUrl,
  anyText,
  flag,
  integer,
  positiveDuration,
  publicOrigin,
} from './units.js';

/** Signature algorithms with a private key (RFC 7518 3.1, RFC 8037 3.1): verifiers cannot sign. */
const ALGORITHMS = [
  'RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA',
] as const; // prettier-ignore

const EXPECTED = `expected one of ${ALGORITHMS.join(', ')}; "none" and shared secrets (HS256) are not accepted`;

const pattern = text
  .max(1_024, 'expected at most 1024 characters')
  .refine(
    (value) => /^[^*]+$|^\*[^*]*$|^[^*]+\*$/.test(value),
    'expected a value, with at most one "*", at its beginning or its end',
  );

const subjectSchema = z.strictObject({
  claims: z
    .record(claimName, pattern)
    .refine((claims) => Object.keys(claims).length > 0, 'expected at least one claim')
    .describe('The claims that the JWT must have, by name or JSON pointer: exact values, or patterns with one `*` at the beginning or the end'),
  customer_id: id.describe('The customer of the request'),
  role: text.describe('The role of the request, one of policy.roles'),
  scope: z.array(text).min(1, 'expected at least one scope').default(['global']).describe('The scopes of the request, from policy.scopes'),
  services: z
    .array(id)
    .min(1, 'expected at least one service; leave the key out for no restriction')
    .optional()
    .describe('The services that such a JWT is limited to; all if not set'),
}); // prettier-ignore

export const jwtIssuersSchema = z.array(
  z.strictObject({
    name: shortName.describe('The name in metrics, in the audit log and in user ids: `NAME/SUBJECT`'),
    issuer: plainUrl.describe('The exact value of the claim `iss`'),
    discovery: discoveryUrlSetting,
    tls: caSetting,
    audience: z
      .union([text, z.array(text).min(1)], 'expected an audience, or a list of audiences')
      .describe('The audience that the JWT must be for, or a list of accepted ones'),
    audience_claim: z
      .enum(['aud', 'client_id', 'azp'], 'expected aud, client_id or azp')
      .default('aud')
      .describe('The claim with the audience; `client_id` for access tokens of Amazon Cognito'),
    header: fieldName
      .default('Authorization')
      .describe('The header with the JWT, after `Bearer` in Authorization; no upstream receives it'),
    cookie: orNull(cookieName)
      .describe('The cookie with the JWT, instead of a header; no upstream receives it'),
    jwks: orNull(z
      .union(
        [
          z.strictObject({ url: keySetUrl.describe('The URL at which the issuer publishes its keys') }),
          z.strictObject({ file: filePath.describe('A file with the keys') }),
        ],
        'expected { url: URL } or { file: FILE }',
      ))
      .describe("The issuer's public keys (JWKS), if OpenID Connect Discovery does not find them"),
    algorithms: z
      .array(z.enum(ALGORITHMS, EXPECTED))
      .min(1, 'expected at least one algorithm')
      .default(['RS256', 'ES256', 'EdDSA'])
      .describe('The signature algorithms that are accepted'),
    clock_skew: durationBetween(0, 300_000, 'expected a duration from 0s to 5m')
      .prefault('30s')
      .describe("How far the issuer's clock may be off"),
    subjects: z
      .array(subjectSchema)
      .min(1, 'expected at least one subject')
      .describe('Whose JWTs are accepted, and with which customer, role and scopes; the first match counts'),
  }),
); // prettier-ignore

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
  name: shortName.describe(
    'The name in paths such as /_latchkey/oidc/NAME/callback, in metrics and in the audit log',
  ),
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
    .describe('More parameters of the authorization request'),
  scopes: z
    .array(text.regex(/^[!#-[\]-~]+$/, 'expected a scope without spaces'))
    .default(['openid', 'email', 'profile'])
    .describe('The scopes to request; openid is always included'),
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
