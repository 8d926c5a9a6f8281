import { z } from 'zod';
import { isName, MAX_SERVICES, NAME_FORM } from '../../domain/limits.js';
import { parseTime } from '../../util/time.js';
import { addresses, rate } from './token-limits.js';
import { flag, id, text } from './units.js';

/** A SHA-256 in hexadecimal, the form in which a directory file holds a secret. */
export const sha256 = z
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
