import { z } from 'zod';
import { parseRange } from '../util/addresses.js';
import { MAX_ADDRESSES } from '../domain/limits.js';
import { parseRate, RATE_FORM, type TokenRestrictions } from '../domain/token.js';

const rate = z
  .string('rate must be a string')
  .refine((text) => parseRate(text) !== undefined, `rate must be a rate ${RATE_FORM}`)
  .meta({ examples: ['600/1m'] });

const NOT_A_RANGE =
  'addresses must be IP addresses and ranges like 10.0.0.0/8, without bits set after the prefix';

const addresses = z
  .array(
    z.string(NOT_A_RANGE).refine((text) => parseRange(text) !== undefined, NOT_A_RANGE),
    'addresses must be a list',
  )
  .min(1, 'addresses must name an address; leave it out for no limit')
  .max(MAX_ADDRESSES, `More than ${MAX_ADDRESSES} addresses`)
  .transform((texts) => [...new Set(texts)])
  .meta({ examples: [['10.0.0.0/8', '192.0.2.7']] });

/** Of a new token, each value as text. */
export const restrictionParameters = {
  rate: rate.optional(),
  addresses: addresses.optional(),
  suspended: z.enum(['true', 'false'], 'suspended must be true or false').optional(),
} as const;

/** Absent members stay; null removes a limit. */
export const restrictionChange = z.strictObject(
  {
    suspended: z.boolean('suspended must be true or false').optional(),
    rate: rate.nullable().optional(),
    addresses: addresses.nullable().optional(),
  },
  {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? `Only suspended, rate and addresses can be changed, not ${JSON.stringify(issue.keys[0])}`
        : undefined,
  },
);

export type RestrictionChange = z.output<typeof restrictionChange>;

/** Undefined if no limits are left. */
export function restrictionsAfter(
  before: TokenRestrictions | undefined,
  change: RestrictionChange,
): TokenRestrictions | undefined {
  const suspended = change.suspended ?? before?.suspended ?? false;
  const rate = change.rate === undefined ? before?.rate : change.rate;
  const addresses = change.addresses === undefined ? before?.addresses : change.addresses;
  const after = {
    ...(suspended ? { suspended: true as const } : {}),
    ...(rate == null ? {} : { rate }),
    ...(addresses == null ? {} : { addresses }),
  };
  return Object.keys(after).length === 0 ? undefined : after;
}
