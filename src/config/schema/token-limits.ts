import { z } from 'zod';
import { parseRange } from '../../util/addresses.js';
import { MAX_ADDRESSES } from '../../domain/limits.js';
import { parseRate, RATE_FORM } from '../../domain/token.js';
import { duration, orNull, text } from './units.js';

export const rate = text.refine((value) => parseRate(value) !== undefined, `expected a rate ${RATE_FORM}`);

const address = text.refine(
  (value) => parseRange(value) !== undefined,
  'expected an address or a range like 10.0.0.0/8, without bits set after the prefix',
);

export const addresses = z
  .array(address)
  .min(1, 'expected an address or a range; without the list any is accepted')
  .max(MAX_ADDRESSES, `expected at most ${MAX_ADDRESSES} addresses and ranges`);

export const tokenLimitsSchema = z.strictObject({
  rate: orNull(rate)
    .describe('Requests that a token may make per period, like 600/1m; null: no limit')
    .meta({ example: '600/1m' }),
  addresses: orNull(addresses)
    .describe('Client addresses and ranges from which tokens are accepted; null: any')
    .meta({ example: '[10.0.0.0/8]' }),
});

export const rotationSchema = z.strictObject({
  overlap: duration
    .prefault('24h')
    .describe('How long a rotated token is still accepted, unless the request sets another overlap'),
  max_overlap: duration.prefault('7d').describe('Longest overlap that a request may ask for'),
  self: z.boolean().default(true).describe('Whether a token can rotate itself'),
});
