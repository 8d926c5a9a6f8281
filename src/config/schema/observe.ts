import { z } from 'zod';
import { text } from './units.js';
import { baseUrl } from './urls.js';

/** Fields of a request's record that can be left out or added. The others are always there. */
const LOG_FIELDS = ['path', 'query', 'client', 'host', 'user_agent', 'timings'] as const;

const share = z
  .number('expected a number from 0 to 1')
  .min(0, 'expected a number from 0 to 1')
  .max(1, 'expected a number from 0 to 1');

/** The log on standard output. */
export const logSchema = z.strictObject({
  level: z
    .enum(['debug', 'info', 'warn', 'error'], 'expected debug, info, warn or error')
    .default('info')
    .describe('Lines below it are not written; records of requests are info'),
  requests: z
    .enum(['all', 'refused', 'none'], 'expected all, refused or none')
    .default('all')
    .describe('Which requests get a record; refused: those that were not served as asked'),
  sample: share.default(1).describe('Share of served requests that get a record; all others always do'),
  fields: z
    .array(z.enum(LOG_FIELDS, `expected one of ${LOG_FIELDS.join(', ')}`))
    .default(['path', 'client', 'timings'])
    .describe('Which of the optional fields a record has; query: names of parameters, never values'),
});

/** Spans of each request, sent to a collector. */
export const tracingSchema = z.strictObject({
  otlp: baseUrl.describe('The collector, OTLP over HTTP; /v1/traces is put behind it'),
  service_name: text.default('latchkey').describe('What the spans call this service'),
  sample_ratio: share
    .default(1)
    .describe('Share of traces that are kept; traces from listen.trusted_proxies follow their sampled flag'),
});
