import { z } from 'zod';
import { timeLimit, size, text, whole } from './units.js';

/** Limits for clients. Held by the process that listens, so a change needs a restart. */
export const limitsSchema = z.strictObject({
  connections: whole(1, 1_000_000)
    .default(10_000)
    .describe('Open connections of clients, in each process; at most what its open files allow'),
  head_timeout: timeLimit.prefault('20s').describe('For a whole request head'),
  head_size: size(1_024, 1_048_576).prefault('16KiB').describe('Request target and fields together'),
  head_fields: whole(10, 1_000).default(100).describe('Fields of a head'),
  target_size: size(256, 65_536).prefault('8KiB').describe('Request target'),
  body_size: size(1_024, 16_777_216).prefault('64KiB').describe('Body of a built-in endpoint'),
  body_timeout: timeLimit.prefault('15s').describe('For the whole body of a built-in endpoint'),
  keep_alive: timeLimit
    .prefault('65s')
    .describe('For the next request on a connection; longer than the minute of common load balancers'),
  drain_timeout: timeLimit.prefault('30s').describe('For what is in flight when the server is stopped'),
});

/** Forwarding of allowed requests. */
export const proxySchema = z.strictObject({
  stream_recheck: timeLimit
    .prefault('30s')
    .describe('WebSockets and long answers end within this time after their credential becomes invalid'),
});

export const auditSchema = z
  .strictObject({
    to: text
      .meta({ path: { except: 'stdout' } })
      .nullable()
      .default('stdout')
      .describe('stdout, a file that lines are added to, or null for none'),
    required: z
      .boolean('expected true or false')
      .default(false)
      .describe('Refuse what changes tokens and sessions while its entry cannot be written'),
  })
  .refine(
    ({ to, required }) => !required || (to !== null && to !== 'stdout'),
    'audit.required needs a file in audit.to',
  );
