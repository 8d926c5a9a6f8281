import { z } from 'zod';
import {
  costOfHash,
  isName,
  MAX_LEGACY_KEY,
  MAX_NAME,
  MAX_PASSWORD,
  MAX_PASSWORD_COST,
  MAX_SERVICES,
  NAME_FORM,
} from '../../domain/limits.js';
import { isMadeUp } from '../../domain/secret.js';
import { anyText, flag, id, text } from './units.js';
import { parseTime } from '../../util/time.js';
import { addresses, rate } from './tokens.js';

/** A SHA-256 in hexadecimal, the form in which a directory file holds a secret. */
const sha256 = z
  .string('expected a SHA-256')
  .regex(/^[0-9A-Fa-f]{64}$/, 'expected a SHA-256 of 64 hexadecimal digits')
  .meta({ secret: true });

const TIME = 'expected a time like 2030-01-31T12:00:00Z';

/** A token in a directory file. An empty restriction is refused: it would restrict nothing. */
export const declaredTokenSchema = z.strictObject({
  id: id.refine((given) => given !== 'self', 'expected another id: /tokens/self is the token of the request'),
  user_id: id,
  name: z.string('expected text').refine(isName, `expected ${NAME_FORM}`).default(''),
  secret_sha256: sha256.describe('The SHA-256 of the secret, as "latchkey token generate" prints it'),
  scope: z
    .array(text)
    .min(1, 'expected at least one scope')
    .default(() => ['global']),
  services: z
    .array(id)
    .min(1, 'expected at least one service; leave services out for a token that is not restricted')
    .max(MAX_SERVICES, `expected at most ${MAX_SERVICES} services`)
    .optional(),
  expires_at: z
    .string(TIME)
    .refine((given) => parseTime(given) !== undefined, TIME)
    .transform((given) => parseTime(given))
    .optional()
    .describe('When the token expires; if not set, after tokens.max_lifetime, or never without that'),
  rate: rate.optional().describe('The number of requests that the token may make per period, like 600/1m'),
  addresses: addresses.optional().describe('Addresses and ranges of the clients that may use the token'),
  suspended: flag.default(false).describe('If true, the token is refused like an unknown one'),
});

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

/** The directory file. One without any section is refused ({@link isWithoutSections}). */
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
