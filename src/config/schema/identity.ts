import { z } from 'zod';
import { IDENTITY_FACTS, type IdentityFact } from '../../domain/identity-fields.js';
import { IDENTITY_PRESET_NAMES, identityNames } from './identity-presets.js';
import { claimName, durationBetween, fieldName, flag, orNull, text, plainUrl } from './units.js';

const MEANING: Readonly<Record<IdentityFact, string>> = {
  user_id: 'The id of the user',
  customer_id: 'The id of the customer',
  login: 'The login name of the user',
  role: 'The role of the user',
  scope: 'The scopes, separated by spaces',
  services: 'The services that the token is limited to, separated by commas',
  credential: 'The kind of credential: token, legacy_key, session or jwt',
  token_id: 'The id of the token; absent for a session and a JWT',
};

const header = (fact: IdentityFact) => fieldName.nullable().optional().describe(MEANING[fact]);

const assertionSchema = z.strictObject({
  enabled: flag.default(false).describe('Whether to send a signed assertion, for upstreams that verify it'),
  header: fieldName.default('X-Auth-Assertion').describe('The header of the assertion'),
  issuer: orNull(plainUrl).describe('The claim iss; required when enabled'),
  audience: orNull(text).describe('The claim aud; required when enabled'),
  // An assertion cannot be revoked, so its lifetime is short.
  ttl: durationBetween(1_000, 3_600_000, 'expected 1s to 1h')
    .prefault('60s')
    .describe('How long an assertion is valid; at most 10s if it is bound'),
  bind: orNull(z.enum(['request'], 'expected request')).describe(
    'request: sign a separate assertion for each request, which is valid only for it',
  ),
  algorithm: z
    .enum(['EdDSA', 'ES256'], 'expected EdDSA or ES256')
    .default('EdDSA')
    .describe('The signature algorithm'),
  // A key is published for half of this time, but at most ten minutes, before it signs.
  rotate_after: durationBetween(4_000, Infinity, 'expected 4s or longer')
    .prefault('30d')
    .describe('How long a key signs assertions'),
});

export const identitySchema = z
  .strictObject({
    preset: z
      .enum(IDENTITY_PRESET_NAMES, `expected ${IDENTITY_PRESET_NAMES.join(', ')}`)
      .default('latchkey')
      .describe('The set of header names to use; names under headers take precedence'),
    headers: z
      .strictObject(Object.fromEntries(IDENTITY_FACTS.map((fact) => [fact, header(fact)])) as Record<IdentityFact, ReturnType<typeof header>>)
      .prefault({})
      .describe('The name of each header; null leaves it out')
      .meta({ example: '{ role: X-Auth-Role }' }),
    claims: z
      .record(fieldName, claimName)
      .default({})
      .describe(
        'More headers, each with the claim of the login or JWT that it carries: a name, or a JSON pointer',
      )
      .meta({ example: '{ X-Auth-Groups: groups }' }),
    forward_credentials: flag
      .default(false)
      .describe('Whether to forward credentials and one-time passwords to the upstream'),
    assertion: assertionSchema
      .prefault({})
      .describe('The same identity as a signed JWT')
      .meta({ example: '{ enabled: true, issuer: https://auth.example.com, audience: example-api }' }),
  })
  .transform(({ headers, ...identity }) => ({ ...identity, headers: identityNames(identity.preset, headers) })); // prettier-ignore
