import { z } from 'zod';
import { text } from './units.js';
import { collectorUrl } from './urls.js';

/** Optional fields of a request entry. The others are always present. */
const LOG_FIELDS = ['path', 'query', 'client', 'host', 'user_agent', 'timings'] as const;

const share = z
  .number('expected a number from 0 to 1')
  .min(0, 'expected a number from 0 to 1')
  .max(1, 'expected a number from 0 to 1');

export const logSchema = z.strictObject({
  level: z
    .enum(['debug', 'info', 'warn', 'error'], 'expected debug, info, warn or error')
    .default('info')
    .describe('The lowest level that is logged; requests have the level info'),
  requests: z
    .enum(['all', 'refused', 'none'], 'expected all, refused or none')
    .default('all')
    .describe('Which requests get an entry; refused: only those that were not served'),
  sample: share.default(1).describe('The share of served requests that get an entry; refused ones always do'),
  fields: z
    .array(z.enum(LOG_FIELDS, `expected one of ${LOG_FIELDS.join(', ')}`))
    .default(['path', 'client', 'timings'])
    .describe('Optional fields of a request entry; query has only the names of parameters'),
});

export const tracingSchema = z.strictObject({
  otlp: collectorUrl.describe('The URL of the collector (OTLP over HTTP); /v1/traces is appended'),
  service_name: text.default('latchkey').describe('The name of this service in spans'),
  sample_ratio: share
    .default(1)
    .describe('The share of traces that are sampled; traces of trusted proxies bring their own flag'),
});
