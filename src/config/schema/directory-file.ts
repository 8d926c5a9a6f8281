import { z } from 'zod';
import { id, text } from './units.js';

const sha256 = z
  .string('expected a SHA-256')
  .regex(/^[0-9A-Fa-f]{64}$/, 'expected a SHA-256 of 64 hexadecimal digits');
const argon2id = z
  .string('expected a hash')
  .regex(
    /^\$argon2id\$v=19\$m=\d+,t=\d+,p=\d+\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+$/,
    'expected what "latchkey hash-password" prints ($argon2id$...)',
  );
/** RFC 4226 4 R6 asks for 128 bits; many accounts in use have 80. */
const otpSecret = z
  .string('expected a base32 secret')
  .regex(/^[A-Z2-7]{16,}=*$/, 'expected a base32 secret of at least 16 characters');

const user = z.strictObject({
  id,
  customer_id: id,
  login: text.max(254),
  name: z.string('expected text').default(''),
  role: text,
  password_hash: argon2id.nullish(),
  password: text.nullish(),
  otp_secret: otpSecret.nullish(),
  locked: z.boolean('expected true or false').default(false),
});

const legacyKey = z
  .strictObject({
    customer_id: id,
    key: text.max(1024).nullish(),
    key_sha256: sha256.nullish(),
    user_agent: z.string('expected text').nullish(),
  })
  .refine((entry) => (entry.key == null) !== (entry.key_sha256 == null), 'expected either key or key_sha256');

/** The directory file: customers, services, users and legacy keys. */
export const directorySchema = z.strictObject({
  customers: z.array(z.strictObject({ id, name: text })).default([]),
  services: z
    .array(z.strictObject({ id, customer_id: id, name: z.string('expected text').default('') }))
    .default([]),
  users: z.array(user).default([]),
  legacy_keys: z
    .array(legacyKey)
    .optional()
    .describe('Without it the legacy keys of the store stay; with it, those that are not listed are removed'),
});

/** A checked directory. */
export type DirectoryFile = z.output<typeof directorySchema>;
