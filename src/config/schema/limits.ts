import { z } from 'zod';
import { timeLimit, size, text, integer } from './units.js';

/** Limits for clients. The listening process holds them, so a change needs a restart. */
export const limitsSchema = z.strictObject({
  connections: integer(1, 1_000_000)
    .default(10_000)
    .describe('Open client connections in each process; the system limit on open files also applies'),
  head_timeout: timeLimit.prefault('20s').describe('Timeout for a complete request head'),
  head_size: size(1_024, 1_048_576)
    .prefault('16KiB')
    .describe('Maximum size of all header fields of a request together'),
  head_fields: integer(10, 1_000).default(100).describe('Maximum number of header fields in a request'),
  target_size: size(256, 65_536).prefault('8KiB').describe('Maximum size of a request target'),
  body_size: size(1_024, 16_777_216)
    .prefault('64KiB')
    .describe('Maximum size of a request body at a built-in endpoint'),
  body_timeout: timeLimit
    .prefault('15s')
    .describe('Timeout for the complete request body at a built-in endpoint'),
  keep_alive: timeLimit.prefault('65s').describe('How long an idle client connection stays open'),
  drain_timeout: timeLimit.prefault('30s').describe('How long requests in flight may take during a shutdown'),
});

export const proxySchema = z.strictObject({
  stream_recheck: timeLimit
    .prefault('30s')
    .describe('How soon open WebSockets and responses are closed once they are no longer allowed'),
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
