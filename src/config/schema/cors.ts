import { z } from 'zod';
import { duration, fieldName, flag, forwardedMethod, text } from './units.js';

/** A header name. Browsers read `*` as all headers, or as a header named `*`. */
const header = fieldName.refine((name) => name !== '*', 'expected a header name; list each header');

export const corsSchema = z.strictObject({
  origins: z
    .union(
      [z.literal('*'), z.array(text).min(1)],
      'expected a list of origins like [https://app.example, "null"], or "*" for every origin',
    )
    .describe('Origins as browsers send them; "*" allows every origin, without credentials')
    .meta({ example: '[https://app.example]' }),
  methods: z
    .array(forwardedMethod)
    .min(1)
    .nullable()
    .default(null)
    .describe('Methods that pages may use; null: the methods of the route'),
  headers: z
    .array(header)
    .default([])
    .describe('Request headers that pages may set, such as Service-Key')
    .meta({ example: '[Content-Type, Service-Key]' }),
  expose: z
    .array(header)
    .default([])
    .describe('Response headers that pages may read')
    .meta({ example: '[X-Request-Id]' }),
  credentials: flag.default(false).describe('Whether pages may send cookies and read the responses'),
  max_age: duration.prefault('10m').describe('How long browsers cache the response to a preflight'),
});
