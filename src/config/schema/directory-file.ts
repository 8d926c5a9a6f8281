import { z } from 'zod';
import { MAX_LEGACY_KEY, MAX_NAME, MAX_PASSWORD } from '../../domain/limits.js';
import { isMadeUp } from '../../domain/secret.js';
import { costOfHash, MAX_PASSWORD_COST } from '../../domain/password-cost.js';
import { declaredTokenSchema, sha256 } from './declared-token.js';
import { anyText, id, text } from './units.js';

const argon2id = z
  .string('expected a hash')
  .regex(
    /^\$argon2id\$v=19\$m=\d+,t=\d+,p=\d+\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+$/,
    'expected what "latchkey hash-password" prints ($argon2id$...)',
  )
  .refine(
    (hash) => costOfHash(hash) <= MAX_PASSWORD_COST,
    `expected a hash of at most ${MAX_PASSWORD_COST} KiB times passes (m times t): each login would take seconds`,
  )
  .meta({ secret: true });
/** RFC 4226 4 R6 requires 128 bits; many accounts in use have 80. */
const otpSecret = z
  .string('expected a base32 secret')
  .regex(/^[A-Z2-7]{16,}=*$/, 'expected a base32 secret of at least 16 characters')
  .meta({ secret: true });

const name = anyText.max(MAX_NAME, `expected at most ${MAX_NAME} characters`);

const user = z.strictObject({
  id,
  customer_id: id,
  login: text
    .max(254, 'expected 254 characters or less')
    .refine((login) => login.trim() === login, 'expected a login without space around it'),
  name: name.default(''),
  role: text.max(MAX_NAME, `expected at most ${MAX_NAME} characters`),
  password_hash: argon2id.nullish(),
  password: text
    .refine(
      (password) => Buffer.byteLength(password) <= MAX_PASSWORD,
      `expected at most ${MAX_PASSWORD} bytes`,
    )
    .meta({ secret: true })
    .nullish(),
  otp_secret: otpSecret.nullish(),
  locked: z.boolean('expected true or false').default(false),
});

/** RFC 9110 5.5: no control characters, and no space at either end. */
const FIELD_VALUE = /^(?![ \t])[\P{Cc}\t]+(?<![ \t])$/u;

const legacyKey = z
  .strictObject({
    customer_id: id,
    key: text
      .regex(FIELD_VALUE, 'expected a key that fits in a header: no control characters, no space around it')
      .refine((key) => Buffer.byteLength(key) <= MAX_LEGACY_KEY, `expected at most ${MAX_LEGACY_KEY} bytes`)
      .refine(
        (key) => !isMadeUp(key),
        'expected another key: one with the form of a token and a wrong checksum is always refused',
      )
      .meta({ secret: true })
      .nullish(),
    key_sha256: sha256.nullish(),
    user_agent: anyText.nullish(),
  })
  .refine((entry) => (entry.key == null) !== (entry.key_sha256 == null), 'expected either key or key_sha256');

/**
 * The directory file: customers, services, users, legacy keys and tokens. One without any section is refused
 * ({@link isWithoutSections}).
 */
export const directorySchema = z
  .strictObject({
    customers: z
      .array(z.strictObject({ id, name: name.min(1, 'expected text, found an empty value') }))
      .default([])
      .meta({ example: '[{ id: C1, name: Example }]' }),
    services: z
      .array(z.strictObject({ id, customer_id: id, name: name.default('') }))
      .default([])
      .meta({ example: '[{ id: S1, customer_id: C1, name: www }]' }),
    users: z
      .array(user)
      .default([])
      .meta({ example: '[{ id: U1, customer_id: C1, login: ada@example.com, role: user }]' }),
    legacy_keys: z
      .array(legacyKey)
      .optional()
      .describe('If set, keys that are not listed are removed from the store'),
    tokens: z
      .array(declaredTokenSchema)
      .default([])
      .describe('API tokens of service accounts; a token that you remove is revoked for good'),
  })
  .meta({ minProperties: 1 });

/** Whether a file has no section: more likely truncated than a request to remove every user and token. */
export function isWithoutSections(value: unknown): boolean {
  return Object.keys(value ?? {}).length === 0;
}

export type DirectoryFile = z.output<typeof directorySchema>;
