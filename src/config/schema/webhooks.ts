import { z } from 'zod';
import { WEBHOOK_EVENTS } from '../../domain/webhook.js';
import { flag, integer, durationBetween, text } from './units.js';

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
      url: text
        .refine(isWebhookUrl, 'expected an https:// URL without user or fragment; http:// only with allow_private')
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

function isWebhookUrl(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const { protocol, username, password, hash } = new URL(value);
  return /^https?:$/.test(protocol) && `${username}${password}${hash}` === '';
}
