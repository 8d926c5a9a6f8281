import { z } from 'zod';
import { MAX_NAME } from '../../domain/limits.js';
import { durationBetween, filePath, id, text } from './units.js';
import { issuerUrl, keySetUrl } from './urls.js';

/** Signature algorithms with a private key (RFC 7518 3.1, RFC 8037 3.1): verifiers cannot sign. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
] as const;

const EXPECTED = `expected one of ${ALGORITHMS.join(', ')}; "none" and shared secrets (HS256) are not accepted`;

const pattern = text
  .max(1_024, 'expected at most 1024 characters')
  .refine(
    (value) => /^[^*]+$|^\*[^*]*$|^[^*]+\*$/.test(value),
    'expected a value, with at most one "*", at its beginning or its end',
  );

const subjectSchema = z.strictObject({
  claims: z
    .record(text, pattern)
    .refine((claims) => Object.keys(claims).length > 0, 'expected at least one claim')
    .describe('What the claims of the JWT must be: exact, or with one `*` at an end. All of them must match'),
  customer_id: id.describe('The customer that the request belongs to'),
  role: text.describe('The role, one of policy.roles'),
  scope: z.array(text).min(1, 'expected at least one scope').default(['global']).describe('The scopes, of policy.scopes'),
  services: z
    .array(id)
    .min(1, 'expected at least one service; leave the key out for no restriction')
    .optional()
    .describe('The services that it is limited to; all if not set'),
}); // prettier-ignore

/** Issuers of JWTs other than Latchkey. */
export const jwtIssuersSchema = z.array(
  z.strictObject({
    name: text
      .max(MAX_NAME, `expected at most ${MAX_NAME} characters`)
      .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'expected a name of up to 32 lower-case letters, digits and "-"')
      .describe('A name for metrics, the audit log and the ids of users: `NAME/SUBJECT`'),
    issuer: issuerUrl.describe('The claim `iss`, character for character'),
    audience: text.describe('What the claim `aud` must be or contain'),
    jwks: z
      .union(
        [
          z.strictObject({ url: keySetUrl.describe('Where the issuer publishes its keys') }),
          z.strictObject({ file: filePath.describe('A file with its keys, read again when they are refreshed') }),
        ],
        'expected { url: URL } or { file: FILE }',
      )
      .nullable()
      .default(null)
      .describe('Its public keys, as a JSON Web Key Set; found by OpenID Connect Discovery if not set'),
    algorithms: z
      .array(z.enum(ALGORITHMS, EXPECTED))
      .min(1, 'expected at least one algorithm')
      .default(['RS256', 'ES256', 'EdDSA'])
      .describe('The signature algorithms that are accepted'),
    clock_skew: durationBetween(0, 300_000, 'expected a duration from 0s to 5m')
      .prefault('30s')
      .describe('Clock skew allowed for `exp` and `nbf`'),
    subjects: z
      .array(subjectSchema)
      .min(1, 'expected at least one subject')
      .describe('Who may use such a JWT, and as what; the first match counts'),
  }),
); // prettier-ignore
