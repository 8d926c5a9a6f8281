import { z } from 'zod';
import { MAX_NAME } from '../../domain/limits.js';
import { caSetting, claimName, durationBetween, fieldName, filePath, id, orNull, text } from './units.js';
import { discoveryUrlSetting, plainUrl, keySetUrl } from './urls.js';

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
    name: text
      .max(MAX_NAME, `expected at most ${MAX_NAME} characters`)
      .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'expected a name of up to 32 lower-case letters, digits and "-"')
      .describe('The name in metrics, in the audit log and in user ids: `NAME/SUBJECT`'),
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
    cookie: orNull(text
      .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'expected the name of a cookie'))
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
