import { z } from 'zod';
import { text, collectorUrl, flag, integer, durationBetween, plainUrl } from './units.js';
import { WEBHOOK_EVENTS } from '../../domain/webhook.js';

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
  level_format: z
    .enum(['number', 'text'], 'expected number or text')
    .default('number')
    .describe('How a line states its level: as a number, like 30, or as text, like info'),
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

export const auditSchema = z
  .strictObject({
    to: text
      .meta({ path: { except: 'stdout' }, written: true })
      .nullable()
      .default('stdout')
      .describe('stdout, a file to append to, or null for no audit log'),
    required: z
      .boolean('expected true or false')
      .default(false)
      .describe('Whether to refuse changes while the audit log cannot be written'),
  })
  .refine(
    ({ to, required }) => !required || (to !== null && to !== 'stdout'),
    'audit.required needs a file in audit.to',
  );

/** Length of a signing key in bytes; Standard Webhooks requires 24 to 64. */
const KEY_BYTES = { min: 24, max: 64 } as const;

const secret = text
  .refine(
    isSecret,
    'expected "whsec_" and 24 to 64 random bytes in Base64; "openssl rand -base64 32" makes them',
  )
  .meta({ secret: true });

export const webhooksSchema = z
  .array(
    z.strictObject({
      url: plainUrl
        .describe('The URL to which each event is sent by POST')
        .meta({ secret: 'path', example: 'https://hooks.example/latchkey' }),
      secret: z
        .union([secret, z.array(secret).min(1).max(5)], 'expected a secret, or a list of up to 5 of which the first is the newest')
        .describe('The signing secret; to replace it, list the new one first')
        .meta({ secret: true, example: '${file:/run/secrets/webhook}' }),
      events: z
        .array(z.enum(WEBHOOK_EVENTS, `expected one of ${WEBHOOK_EVENTS.join(', ')}`))
        .min(1, 'expected at least one event')
        .default([...WEBHOOK_EVENTS])
        .describe('The events to send'),
      allow_private: flag
        .default(false)
        .describe('Whether to allow http://, addresses of this machine and private networks'),
      timeout: durationBetween(100, 60_000, 'expected a duration from 100ms to 60s')
        .prefault('15s')
        .describe('Timeout of one attempt, until the response head has arrived'),
      max_attempts: integer(1, 100)
        .default(20)
        .describe('Attempts until an event becomes a dead letter; 20 take about 33 hours'),
    }),
  )
  .max(20, 'expected at most 20 endpoints'); // prettier-ignore

function isSecret(value: string): boolean {
  const [, base64] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(value) ?? [];
  if (base64 === undefined || base64.length % 4 !== 0) return false;
  const { length } = Buffer.from(base64, 'base64');
  return length >= KEY_BYTES.min && length <= KEY_BYTES.max;
}
