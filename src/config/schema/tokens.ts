import { z } from 'zod';
import { parseRange } from '../../util/addresses.js';
import { MAX_ADDRESSES } from '../../domain/limits.js';
import { parseRate, RATE_FORM } from '../../domain/token.js';
import { duration, durationBetween, integer, orNull, positiveDuration, text, timeLimit } from './units.js';

export const rate = text.refine((value) => parseRate(value) !== undefined, `expected a rate ${RATE_FORM}`);

const address = text.refine(
  (value) => parseRange(value) !== undefined,
  'expected an address or a range like 10.0.0.0/8, without bits set after the prefix',
);

export const addresses = z
  .array(address)
  .min(1, 'expected an address or a range; without the list any is accepted')
  .max(MAX_ADDRESSES, `expected at most ${MAX_ADDRESSES} addresses and ranges`);

const limitsSchema = z.strictObject({
  rate: orNull(rate).describe('Requests that a token may make per period, like 600/1m; null: no limit'),
  addresses: orNull(addresses).describe(
    'Client addresses and ranges from which tokens are accepted; null: any',
  ),
});

const rotationSchema = z.strictObject({
  overlap: duration
    .prefault('24h')
    .describe('How long a rotated token is still accepted, unless the request sets another overlap'),
  max_overlap: duration.prefault('7d').describe('Longest overlap that a request may ask for'),
  self: z.boolean().default(true).describe('Whether a token can rotate itself'),
});

export const tokensSchema = z.strictObject({
  max_per_user: orNull(integer(1, 1_000_000)).describe(
    'Active tokens of a user; null: only max_stored_per_user applies',
  ),
  max_stored_per_user: integer(1, 1_000_000)
    .default(1_000)
    .describe('Stored tokens of a user, with expired ones, which are removed first; at least max_per_user'),
  max_stored_per_customer: integer(1, 100_000_000)
    .default(100_000)
    .describe('Stored tokens of all users of a customer, with expired ones'),
  max_lifetime: orNull(positiveDuration).describe(
    'Longest lifetime of a token, and the one of a token without an expiry; null: no limit',
  ),
  rotation: rotationSchema.prefault({}).describe('Rotation: replacing a token with a new one'),
  owner_login_within: orNull(
    durationBetween(1_000, 3_153_600_000_000, 'expected a duration from 1s to 36500d'),
  ).describe("How long tokens work after their owner's last login at a provider; null: no limit"),
  last_seen_interval: timeLimit
    .prefault('1s')
    .describe('How often the last uses of tokens are written to the store'),
  warn_before: orNull(positiveDuration).describe(
    'How long before the expiry of a token Latchkey warns of it; null: never',
  ),
  limits: limitsSchema.prefault({}).describe('Limits for tokens that set none themselves'),
});

export const sessionsSchema = z.strictObject({
  idle_timeout: positiveDuration.prefault('30m').describe('A session ends after this long without a request'),
  absolute_timeout: positiveDuration
    .prefault('12h')
    .describe('A session ends this long after login, even if it is active'),
  max_per_user: integer(1, 10_000)
    .default(100)
    .describe('Sessions of a user; one more login ends the least recently used one'),
});
